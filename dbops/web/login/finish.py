"""What every login does once the person is known: checks, session, audit entry."""

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dbops.audit.log import append, current_origin
from dbops.engine.errors import DbopsError, Refused
from dbops.engine.phrases import phrase
from dbops.models import GivenPassword
from dbops.operations.account_admin import language_of
from dbops.operations.login_sessions import begin_session
from dbops.web.middleware.given_passwords import MUST_CHANGE
from dbops.web.middleware.languages import CHOSEN

#: In the session: how the login began, until and after its second factor.
METHOD = "login_method"
#: In the session: key of its ``LoginSession``.
SESSION_ROW = "login_session"
#: In the session: it was begun with a second factor, or one was added in it.
WITH_FACTOR = "login_with_factor"
#: In the session, before the second factor: the password's hash, which changes with the password.
PENDING = "login_pending"

PASSWORD, PASSKEY, PROVIDER = "password", "passkey", "provider"


def check_login(request: HttpRequest, user: User) -> None:
    """Raise ``Refused`` unless the account may finish a login that began this way.

    Raises:
        Refused: ``login.inactive``, ``login.local_off``, ``login.stale`` (another password since the login began).
    """
    operation = phrase("Logging in as {name}", name=user.get_username())
    if not user.is_active:
        raise Refused("login.inactive", operation, cause=phrase("a superuser deactivated the account"))
    if request.session.get(METHOD) != PROVIDER:
        check_local(user.get_username(), operation)
    if request.session.get(PENDING, user.get_session_auth_hash()) != user.get_session_auth_hash():
        raise Refused("login.stale", operation, cause=phrase("the password changed during this login"))


def check_local(name: str, operation: str) -> None:
    """Raise ``Refused`` (``login.local_off``) unless the account may log in without the provider."""
    if settings.RECOVERY_ACCOUNT and name != settings.RECOVERY_ACCOUNT:
        raise Refused("login.local_off", operation, cause=phrase("this dashboard requires the provider"))


def record_login(request: HttpRequest, user: User, *, factor: str) -> None:
    """Write what a login leaves: the session's row, its marks, and the audit entry.

    Args:
        factor: the type of the second factor; empty without one.
    """
    method = request.session.get(METHOD, PASSWORD)
    request.session.pop(PENDING, None)
    setattr(request, CHOSEN, language_of(user))
    if factor or method == PASSKEY:
        request.session[WITH_FACTOR] = True
    if method != PROVIDER and GivenPassword.objects.filter(user=user).exists():
        request.session[MUST_CHANGE] = True
    request.session[SESSION_ROW] = begin_session(
        user=user,
        session_key=request.session.session_key or "",
        address=current_origin().address,
        browser=request.headers.get("User-Agent", ""),
        method=f"{method}, {factor}" if factor else method,
    )
    detail = {"method": method, **({"second_factor": factor} if factor else {})}
    append(actor=user.get_username(), action="login", subject="dbops", detail=detail)
    if settings.RECOVERY_ACCOUNT and method != PROVIDER:
        append(actor=user.get_username(), action="login.recovery", subject="dbops", detail=detail)


def refused_login(request: HttpRequest, error: DbopsError, *, actor: str, status: int = 403) -> HttpResponse:
    """Record a refused login and return its page.

    Args:
        actor: an account that exists, or what the provider proved; never a typed name.
    """
    append(actor=actor, action="login.refused", subject="dbops", detail={"code": error.code})
    return render(request, "login/refused.html", {"error": error.as_record()}, status=status)
