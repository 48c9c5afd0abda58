"""Requests that change something: with an idempotency key, once."""

import hashlib
from collections.abc import Callable
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Header, Schema

from dbops.engine.errors import Refused
from dbops.operations.kept_answers import Answer, answer_once
from dbops.web.api.access import Caller, called_by
from dbops.web.api.problems import MEDIA_TYPE, as_problem, status_of

Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=64,
        pattern=r"^[!-~]+$",
        description="A name of this request that no other request of the token has, for example a UUID. The same request with the "
        "same key is answered once: repeats within 24 hours get the first answer.",
    ),
]
REPEATED = "Idempotency-Replayed"


def once(request: HttpRequest, key: str, act: Callable[[Caller], Schema], *, status: int = 200) -> HttpResponse:
    """Act once for each key and answer with what ``act`` returns, or with its refusal.

    Raises:
        Refused: ``token.scope``, or as ``answer_once``.
    """
    caller = called_by(request)
    caller.must_operate()

    def answer() -> Answer:
        try:
            return Answer(status, act(caller).model_dump_json())
        except Refused as error:
            return Answer(status_of(error.code), as_problem(error))

    parts = (request.method or "", request.path_info, request.META.get("QUERY_STRING", ""))
    digest = hashlib.sha256("\n".join(parts).encode() + b"\n" + request.body).hexdigest()
    given = answer_once(token=caller.token, key=key, digest=digest, answer=answer)
    kind = MEDIA_TYPE if given.status >= 400 else "application/json"
    found = HttpResponse(given.body, status=given.status, content_type=kind)
    if given.is_repeated:
        found[REPEATED] = "true"
    return found


def request_key_of(caller: Caller, key: str) -> str:
    """Return the request key of a rebuild: the same for the same request, also when its first answer was lost."""
    return hashlib.sha256(f"api:{caller.token.pk}:{key}".encode()).hexdigest()
