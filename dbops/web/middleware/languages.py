"""Choose the language of each page: the one that the person chose, else the first of the browser's that dbops has."""

import re

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.cache import patch_vary_headers

#: Attribute of a request that sets the browser's language: a login, or a choice.
CHOSEN = "chosen_language"
YEAR_SECONDS = 365 * 86400
#: What programs read is English: the API, metrics and health, and exported files, by address or by ``?format=``.
MACHINES = re.compile(r"/(api|healthz)/|/metrics$")
FILES = (".csv", ".json", ".ics")


class LanguageMiddleware(LocaleMiddleware):
    """Read the choice from a cookie, which needs no query. Logins and choices set it."""

    def process_request(self, request: HttpRequest) -> None:
        if MACHINES.match(request.path_info) or request.path_info.endswith(FILES) or "format" in request.GET:
            translation.activate(settings.LANGUAGE_CODE)
            request.LANGUAGE_CODE = settings.LANGUAGE_CODE
        else:
            super().process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if isinstance(response, HttpResponse) and response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ("Accept-Language",))
            response.headers.setdefault("Content-Language", translation.get_language())
        if chosen := getattr(request, CHOSEN, ""):
            response.set_cookie(
                settings.LANGUAGE_COOKIE_NAME,
                chosen,
                max_age=YEAR_SECONDS,
                path=settings.LANGUAGE_COOKIE_PATH,
                secure=request.is_secure(),
                httponly=True,
                samesite="Lax",
            )
        return response
