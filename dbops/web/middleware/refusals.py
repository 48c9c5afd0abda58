"""Show an uncaught refusal as a page, with its reason and the user's input."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dbops.engine.errors import Refused

#: Parts of names of fields whose input is never shown again.
SECRET_PARTS = ("password", "secret", "token", "csrf", "key", "fingerprint")
SHOWN_CHARACTERS = 2000


class RefusedMiddleware(MiddlewareMixin):
    """Answer 409 for an uncaught ``Refused``: the subject of the click has changed since the page was rendered.

    Without the permission, 403.
    """

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, Refused):
            return None
        context = {"error": exception.as_record(), "typed": typed(request)}
        status = 403 if exception.code == "access.denied" else 409
        return render(request, "409.html", context, status=status)


def typed(request: HttpRequest) -> dict[str, str]:
    """Return the user's form input, so that it is not lost, without secrets."""
    if request.method != "POST":
        return {}
    sent = {name: str(value)[:SHOWN_CHARACTERS] for name, value in request.POST.items()}
    return {name: value for name, value in sent.items() if value and not _is_secret(name)}


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in SECRET_PARTS)
