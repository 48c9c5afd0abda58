"""Sessions of people: where each began, when it was last used, and how it ends."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.models import LoginSession
from dbops.operations.api_tokens import revoke_api_tokens

LONGEST_BROWSER = 300


def begin_session(*, user: User, session_key: str, address: str, browser: str, method: str) -> int:
    """Note a new session and return the row's key. Rows of expired sessions are removed."""
    now = clock.now()
    LoginSession.objects.filter(started_at__lt=now - timedelta(seconds=2 * settings.SESSION_COOKIE_AGE)).delete()
    row = LoginSession.objects.create(
        user=user,
        session_key=session_key,
        address=address[:45],
        browser=browser[:LONGEST_BROWSER],
        method=method,
        started_at=now,
        last_used_at=now,
    )
    return row.pk


def note_use(row_id: int, session_key: str) -> None:
    """Note that a session was used now. A new password gives it another key."""
    LoginSession.objects.filter(pk=row_id).update(session_key=session_key, last_used_at=clock.now())


def end_session(*, user: User, row_id: int) -> bool:
    """End one of a person's own sessions. Return whether there was one."""
    with transaction.atomic():
        row = LoginSession.objects.select_for_update().filter(user=user, pk=row_id).first()
        if row is None:
            return False
        Session.objects.filter(pk=row.session_key).delete()
        row.delete()
        append(
            actor=user.get_username(),
            action="session.ended",
            subject=user.get_username(),
            detail={"sessions_ended": 1, "address": row.address},
        )
    return True


def end_other_sessions(*, user: User, kept_key: str, with_tokens: bool) -> tuple[int, int]:
    """End all of a person's own sessions but this one, and revoke the API tokens on request. Return both numbers."""
    return _end(actor=user.get_username(), user=user, kept_key=kept_key, with_tokens=with_tokens)


def end_all_sessions(*, actor: str, user: User, with_tokens: bool) -> tuple[int, int]:
    """End all sessions of an account, and revoke its API tokens on request. The caller has checked the permission. Return both numbers."""
    return _end(actor=actor, user=user, kept_key="", with_tokens=with_tokens)


def drop_sessions(user: User, kept_key: str = "") -> int:
    """Delete the sessions of an account, without an audit entry: the caller writes one. Return their number."""
    mine = [
        session.pk
        for session in Session.objects.filter(expire_date__gt=clock.now()).iterator()
        if session.pk != kept_key and session.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    Session.objects.filter(pk__in=mine).delete()
    LoginSession.objects.filter(user=user).exclude(session_key=kept_key).delete()
    return len(mine)


def _end(*, actor: str, user: User, kept_key: str, with_tokens: bool) -> tuple[int, int]:
    with transaction.atomic():
        ended = drop_sessions(user, kept_key)
        revoked = revoke_api_tokens(actor=actor, user=user) if with_tokens else 0
        detail = {"sessions_ended": ended, "tokens_revoked": revoked}
        append(actor=actor, action="session.ended", subject=user.get_username(), detail=detail)
    return ended, revoked
