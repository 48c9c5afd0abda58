"""Choose the language of each page: the one that the person chose, else the first of the browser's that dbops has."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.cache import patch_vary_headers

#: Attribute of a request that sets the browser's language: a login, or a choice.
CHOSEN = "chosen_language"


class LanguageMiddleware(LocaleMiddleware):
    """Read the choice from a cookie, which needs no query. Logins and choices set it."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if isinstance(response, HttpResponse) and response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ("Accept-Language",))
            response.headers.setdefault("Content-Language", translation.get_language())
        if chosen := getattr(request, CHOSEN, ""):
            response.set_cookie(
                settings.LANGUAGE_COOKIE_NAME,
                chosen,
                max_age=settings.LANGUAGE_COOKIE_AGE,
                path=settings.LANGUAGE_COOKIE_PATH,
                secure=request.is_secure(),
                httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
                samesite=settings.LANGUAGE_COOKIE_SAMESITE,
            )
        return response
