"""Why a form was rejected: what Django's check saw, as a cause that has one fix."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

NO_ORIGIN, SCHEME, PORT, OTHER_HOST, INSECURE, EXPIRED = (
    "no-origin",
    "scheme",
    "port",
    "other-host",
    "insecure",
    "expired",
)


@dataclass(frozen=True, slots=True)
class CsrfCause:
    """One cause by name, with the address that the browser sent and the one that dbops sees."""

    name: str
    sent: str = ""
    seen: str = ""


def csrf_cause(request: HttpRequest) -> CsrfCause:
    """Return why the check of a form failed. For a request that was rejected."""
    sent = request.headers.get("Origin", "")
    seen = f"{request.scheme}://{_host(request)}"
    if sent == "null":
        return CsrfCause(NO_ORIGIN, sent, seen)
    if sent and sent != seen and sent not in settings.CSRF_TRUSTED_ORIGINS:
        return CsrfCause(_difference(sent, seen), sent, seen)
    if settings.SECURE_COOKIES and not request.is_secure():
        return CsrfCause(INSECURE, sent, seen)
    return CsrfCause(EXPIRED, sent, seen)


def _difference(sent: str, seen: str) -> str:
    """Return in which part two origins differ; the host counts most."""
    try:
        theirs, ours = urlsplit(sent), urlsplit(seen)
    except ValueError:
        return OTHER_HOST
    if theirs.hostname != ours.hostname:
        return OTHER_HOST
    return SCHEME if theirs.scheme != ours.scheme else PORT


def _host(request: HttpRequest) -> str:
    try:
        return request.get_host()
    except DisallowedHost:
        return "?"
