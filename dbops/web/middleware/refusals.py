"""What no view has caught: a refusal becomes a page of its own, with its reason and what was typed."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dbops.engine.errors import Refused

#: Names of fields that are never shown again, by a part of theirs.
SECRET_PARTS = ("password", "secret", "token", "csrf", "key", "fingerprint")
SHOWN_CHARACTERS = 2000


class RefusedMiddleware(MiddlewareMixin):
    """Answers 409 where a view lets a ``Refused`` pass: what the click was about has changed since the page was made."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, Refused):
            return None
        context = {"error": exception.as_record(), "typed": typed(request)}
        return render(request, "409.html", context, status=409)


def typed(request: HttpRequest) -> dict[str, str]:
    """Return what a person typed into the form that was sent, so that it is not lost. No secret is among it."""
    if request.method != "POST":
        return {}
    sent = {name: str(value)[:SHOWN_CHARACTERS] for name, value in request.POST.items()}
    return {name: value for name, value in sent.items() if value and not _is_secret(name)}


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in SECRET_PARTS)
