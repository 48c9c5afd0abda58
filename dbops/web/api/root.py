"""The API as a whole: its parts, its addresses and its OpenAPI document."""

import json
import re
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.renderers import BaseRenderer

from dbops import __version__
from dbops.web.api import backups, clusters, events, rebuilds, reports
from dbops.web.api.access import Token
from dbops.web.api.problems import MEDIA_TYPE, add_handlers, from_status
from dbops.web.api.schemas.base import Problem

BASE = "api/v1/"
DESCRIPTION = (
    "What people do on the pages of dbops, for programs: the same actions, checks and audit log. Each request needs a token in the "
    "header `Authorization: Bearer TOKEN`. Errors are problem documents (RFC 9457) with a stable `code`."
)
#: The errors that an operation may answer with. A path with a part of its own may name nothing.
ALWAYS = {
    401: "The token is missing or not valid.",
    403: "The account or token may not do this.",
    429: "Too many requests.",
}
NAMED = {404: "There is no such object, or the token does not open it."}
INVALID = {422: "A part of the request is invalid."}
REFUSED = {400: "The body is not JSON.", 409: "The state of things does not allow this."}


class JsonRenderer(BaseRenderer):
    """Write times as they are stored: Ninja's own renderer cuts microseconds off, and an answer that is kept does not."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:  # noqa: ARG002
        return json.dumps(data, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


class Api(NinjaAPI):
    """The API, with problem documents among the answers of each operation."""

    def get_openapi_schema(self, **_: Any) -> Any:
        found = super().get_openapi_schema(path_prefix=BASE)
        found["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        for address, operations in found["paths"].items():
            for method, operation in operations.items():
                for status, text in _errors(address, method).items():
                    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
                    operation["responses"][status] = {"description": text, "content": content}
        return found

    def get_openapi_operation_id(self, operation: Any) -> str:
        return str(operation.operation_id or operation.view_func.__name__)

    def get_operation_url_name(self, operation: Any, router: Any) -> str:  # noqa: ARG002 - ninja's signature
        """Return a name that no page has: ``api-`` and the operation's."""
        return f"api-{self.get_openapi_operation_id(operation).replace('_', '-')}"


def _errors(address: str, method: str) -> dict[int, str]:
    return {
        **ALWAYS,
        **INVALID,
        **(NAMED if "{" in address or method == "post" else {}),
        **(REFUSED if method == "post" else {}),
    }


token = Token()
api = Api(
    title="dbops",
    version=__version__,
    description=DESCRIPTION,
    auth=token,
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
    renderer=JsonRenderer(),
)
add_handlers(api)
for part in (clusters, rebuilds, events, backups, reports):
    api.add_router("", part.router)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document as plain data."""
    found: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema()))
    return found


def _accepted() -> dict[tuple[str, str], frozenset[str]]:
    """Return the names of the query parameters by route and method."""
    return {
        (re.sub(r"{(\w+)}", r"<\1>", address.removeprefix("/")), method.upper()): frozenset(
            one["name"] for one in operation["parameters"] if one["in"] == "query"
        )
        for address, operations in openapi()["paths"].items()
        for method, operation in operations.items()
    }


@login_not_required
@never_cache
@require_safe
def document(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Send the OpenAPI document. It says nothing about this fleet, so no token is needed."""
    return HttpResponse(json.dumps(openapi()), content_type="application/json")


@login_not_required
@csrf_exempt
def nowhere(request: HttpRequest, rest: str = "") -> HttpResponse:  # noqa: ARG001
    """Answer 404 as a problem for every other address, whether or not a session is there."""
    return from_status(HttpResponse(status=404))


def _open(found: list[Any]) -> list[Any]:
    """Return the addresses, for which no login of a person is required: each operation checks its token."""
    for pattern in found:
        if isinstance(pattern, URLPattern):
            login_not_required(pattern.callback)
    return found


token.accepted = _accepted()
urlpatterns = [
    path("openapi.json", document, name="api-openapi"),
    *_open([pattern for pattern in api.urls[0] if getattr(pattern, "name", "") != "api-root"]),
    path("<path:rest>", nowhere, name="api-nowhere"),
]
