"""Note where a request comes from for the audit log: its address, and an id that the response and the log also have."""

import uuid
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from dbops.audit.log import RequestOrigin, request_origin
from dbops.lib.logs import REQUEST_ID, busy_with

HEADER = "X-Request-ID"


@sync_and_async_middleware
def origin_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Add the origin of a request to its audit entries."""
    if iscoroutinefunction(get_response):
        answer_later: Callable[[HttpRequest], Awaitable[HttpResponseBase]] = get_response

        async def from_afar(request: HttpRequest) -> HttpResponseBase:
            origin = _origin(request)
            with request_origin(origin), busy_with(request_id=origin.request):
                return _with_header(await answer_later(request), origin)

        return from_afar

    def answer(request: HttpRequest) -> HttpResponseBase:
        origin = _origin(request)
        with request_origin(origin), busy_with(request_id=origin.request):
            return _with_header(get_response(request), origin)

    return answer


def _origin(request: HttpRequest) -> RequestOrigin:
    """Return the connection's address; behind a trusted proxy the web server replaces it with the client's."""
    origin = RequestOrigin(request.META.get("REMOTE_ADDR") or "", uuid.uuid4().hex)
    setattr(request, REQUEST_ID, origin.request)
    return origin


def _with_header(response: HttpResponseBase, origin: RequestOrigin) -> HttpResponseBase:
    response.headers[HEADER] = origin.request
    return response
