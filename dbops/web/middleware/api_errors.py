"""Answer errors below ``/api/v1/`` that no operation of the API has answered as problem documents, not as pages."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from dbops.web.api.problems import PREFIX, from_status


class ApiErrorsMiddleware(MiddlewareMixin):
    """Replace pages and plain texts: a wrong address or method, or what Django refuses before any view."""

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        if (
            response.status_code < 400
            or not request.path_info.startswith(PREFIX)
            or not isinstance(response, HttpResponse)
        ):
            return response
        return response if "json" in response.get("Content-Type", "") else from_status(response)
