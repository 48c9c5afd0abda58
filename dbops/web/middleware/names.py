"""Answer 404 where a name in the address has a NUL: nothing has such a name, and PostgreSQL refuses to look for it."""

from typing import Any

from django.http import Http404, HttpRequest
from django.utils.deprecation import MiddlewareMixin


class NamesMiddleware(MiddlewareMixin):
    """Look at each name that the URL gives to a page."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        if any(isinstance(value, str) and "\0" in value for value in kwargs.values()):
            raise Http404
