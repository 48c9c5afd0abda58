"""Errors of the API."""

from dbops.engine.catalogue.entries import UNCHANGED, CatalogueSection, operator, ours

_API = (
    operator(
        "api.not_found",
        "HTTP 404. The API has no such address, or this token opens no such object.",
        UNCHANGED,
        "Check the name or number. A token that is limited to clusters does not see the others.",
    ),
    operator(
        "api.method",
        "HTTP 405. This address does not accept this HTTP method.",
        UNCHANGED,
        "Use a method that the header `Allow` names. See api.md.",
    ),
    operator(
        "api.invalid",
        "HTTP 400, 413 or 422. A part of the request is missing or invalid. `errors` names each one.",
        UNCHANGED,
        "Correct the request. `/api/v1/openapi.json` describes all fields.",
    ),
    ours(
        "api.failed",
        "HTTP 500. dbops failed to answer a request of the API.",
        "The request may have been carried out in part. Its idempotency key is free again.",
        "Look for the request's id (header `X-Request-ID`) in the log of the web process, and report the error.",
    ),
    operator(
        "token.scope",
        "HTTP 403. The scope of the token is `read`.",
        UNCHANGED,
        "Create a token with the scope `operate`.",
    ),
    operator(
        "idempotency.mismatch",
        "HTTP 422. The idempotency key was used for another request of this token.",
        UNCHANGED,
        "Use a new key, for example a UUID, for each request that shall change something.",
    ),
    operator(
        "idempotency.in_progress",
        "HTTP 409. The same request is being answered.",
        UNCHANGED,
        "Send the request again in a second, with the same key: the answer is that of the first.",
    ),
)

SECTIONS = (
    CatalogueSection(
        "API",
        _API,
        "The API answers with these and all other codes as `application/problem+json`. api.md describes it.",
    ),
)
