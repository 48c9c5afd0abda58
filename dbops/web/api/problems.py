"""Errors of the API as ``application/problem+json`` (RFC 9457), with dbops's codes."""

import json
import logging
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import Bug, DbopsError, Refused
from dbops.web.bearer import challenge

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PREFIX = "/api/v1/"
#: Every other refusal is a 409: the request is valid, and the state of things does not allow it.
STATUS = {
    "access.denied": 403,
    "api.failed": 500,
    "api.invalid": 422,
    "api.method": 405,
    "api.not_found": 404,
    "idempotency.mismatch": 422,
    "report.too_many": 429,
    "token.scope": 403,
    "token.unknown": 401,
}


def status_of(code: str) -> int:
    """Return the HTTP status of an error code."""
    return STATUS.get(code, 409)


def as_problem(error: DbopsError, /, *, status: int | None = None, **more: Any) -> str:
    """Return an error as the text of a problem document."""
    entry = CATALOGUE.get(error.code)
    found = {
        "type": f"{reverse('error-codes')}#{error.code}",
        "title": entry.summary if entry else error.operation,
        "status": status or status_of(error.code),
        "detail": error.cause_sentence if error.cause else "",
        "code": error.code,
        "operation": error.operation,
        "state": error.state,
        "next_step": error.next_step,
        **more,
    }
    return json.dumps(found)


def problem(error: DbopsError, /, *, status: int | None = None, **more: Any) -> HttpResponse:
    """Return an error as an answer."""
    number = status or status_of(error.code)
    answer = HttpResponse(as_problem(error, status=number, **more), status=number, content_type=MEDIA_TYPE)
    answer["Cache-Control"] = "no-store"
    return challenge(answer)


def not_found(cause: str = "there is no such object") -> Refused:
    """Return the error of an object that is not there, or that the token does not open."""
    return Refused("api.not_found", "Looking for an object", cause=cause)


def unexpected(request: HttpRequest, error: BaseException) -> HttpResponse:
    """Answer 500 without a detail; the log has it, with the request's id."""
    log.error("%s %r: %s", request.method, request.path, type(error).__name__, exc_info=error)
    return problem(Bug("api.failed", "Answering a request"))


def from_status(answer: HttpResponse) -> HttpResponse:
    """Return Django's own error answer as a problem: a wrong method, a body that is too large."""
    number = answer.status_code
    if number == 405:
        allowed = answer.get("Allow", "")
        error = Refused("api.method", "Answering a request", cause=f"only {allowed} is allowed here")
        found = problem(error)
        found["Allow"] = allowed
        return found
    if number == 404:
        return problem(not_found("there is no such address"))
    if number >= 500:
        return problem(Bug("api.failed", "Answering a request"), status=number)
    return problem(Refused("api.invalid", "Reading a request"), status=number)


def add_handlers(api: NinjaAPI) -> None:
    """Answer each kind of error of an operation as a problem."""

    @api.exception_handler(DbopsError)
    def _refused(_: HttpRequest, error: Any) -> HttpResponse:
        return problem(error)

    @api.exception_handler(Http404)
    def _not_found(_: HttpRequest, __: Any) -> HttpResponse:
        return problem(not_found())

    @api.exception_handler(ValidationError)
    def _invalid(_: HttpRequest, error: Any) -> HttpResponse:
        found = [{"field": _place(item["loc"]), "message": item["msg"]} for item in error.errors]
        return problem(Refused("api.invalid", "Reading a request", cause="a part of it is invalid"), errors=found)

    @api.exception_handler(HttpError)
    def _http(_: HttpRequest, error: Any) -> HttpResponse:
        # The body is not JSON.
        return problem(
            Refused("api.invalid", "Reading a request", cause="its body is not JSON"), status=error.status_code
        )

    @api.exception_handler(SuspiciousOperation)
    def _suspicious(_: HttpRequest, error: Any) -> HttpResponse:
        is_large = isinstance(error, RequestDataTooBig)
        return problem(Refused("api.invalid", "Reading a request"), status=413 if is_large else 400)

    @api.exception_handler(Exception)
    def _unexpected(request: HttpRequest, error: Any) -> HttpResponse:
        return unexpected(request, error)


def _place(found: tuple[Any, ...]) -> str:
    """Return the place of an invalid part: the name of the field, after the part of the request. Ninja's own names are left out."""
    where, *names = map(str, found)
    return ".".join([where, *(name for name in names if name not in ("given", "asked"))])
