"""Read the sessions of an account that are still valid, and its second factors."""

from dataclasses import dataclass
from datetime import datetime

from allauth.mfa.models import Authenticator
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from dbops.database import clock
from dbops.models import LoginSession


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session, with a short name of its browser."""

    id: int
    browser: str
    user_agent: str
    address: str
    method: str
    started_at: datetime
    last_used_at: datetime
    is_current: bool


#: In this order: Edge and Opera also claim to be Chrome, and Chrome to be Safari.
BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad")),
    *(("Windows", "Windows"), ("Mac OS X", "macOS"), ("Linux", "Linux")),
)


def sessions_of(user: User, *, current_key: str = "") -> list[SessionRow]:
    """Return the sessions of an account that are valid, this one first, then by last use. Two queries."""
    rows = LoginSession.objects.filter(user=user).order_by("-last_used_at")
    valid = _valid_keys(user, [row.session_key for row in rows])
    found = [
        SessionRow(
            row.pk,
            name_of(row.browser),
            row.browser,
            row.address,
            row.method,
            row.started_at,
            row.last_used_at,
            row.session_key == current_key,
        )
        for row in rows
        if row.session_key in valid
    ]
    return sorted(found, key=lambda row: not row.is_current)


def factors_of(user: User) -> list[Authenticator]:
    """Return the second factors of an account without its recovery codes. One query."""
    rows = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES)
    return list(rows.order_by("created_at"))


def name_of(user_agent: str) -> str:
    """Return browser and system of a ``User-Agent`` header, as far as they are known."""
    browser = next((name for part, name in BROWSERS if part in user_agent), "")
    system = next((name for part, name in SYSTEMS if part in user_agent), "")
    return " on ".join(part for part in (browser, system) if part) or "Unknown browser"


def _valid_keys(user: User, keys: list[str]) -> set[str]:
    """Return the keys of sessions that still log this person in. A new password ends all others."""
    wanted = user.get_session_auth_hash()
    found = set()
    for session in Session.objects.filter(pk__in=keys, expire_date__gt=clock.now()):
        content = session.get_decoded()
        if content.get(SESSION_KEY) == str(user.pk) and constant_time_compare(
            content.get(HASH_SESSION_KEY, ""), wanted
        ):
            found.add(session.pk)
    return found
