"""A person's own sessions: list them, end one, end all others."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from dbops.operations import login_sessions as verbs
from dbops.queries.admin.sessions import sessions_of
from dbops.web.decorators import own_page, user_of


def say_revoked(request: HttpRequest, number: int) -> None:
    """Say on the next page how many API tokens were revoked, if any."""
    if number:
        said = ngettext("%(number)s API token revoked.", "%(number)s API tokens revoked.", number)
        messages.success(request, said % {"number": number})


@require_GET
@never_cache
@own_page
def sessions(request: HttpRequest) -> HttpResponse:
    """List the sessions."""
    rows = sessions_of(user_of(request), current_key=request.session.session_key or "")
    return render(request, "account/sessions.html", {"sessions": rows})


@require_POST
@own_page
def end(request: HttpRequest, session_id: int) -> HttpResponse:
    """End one session."""
    if verbs.end_session(user=user_of(request), row_id=session_id):
        messages.success(request, _("The session ended."))
    else:
        messages.warning(request, _("This session has already ended."))
    return redirect("login-sessions")


@require_POST
@own_page
def end_others(request: HttpRequest) -> HttpResponse:
    """End all sessions but this one, and revoke the API tokens on request."""
    ended, revoked = verbs.end_other_sessions(
        user=user_of(request),
        kept_key=request.session.session_key or "",
        with_tokens="revoke_tokens" in request.POST,
    )
    said = ngettext("%(number)s other session ended.", "%(number)s other sessions ended.", ended) % {"number": ended}
    messages.success(request, said)
    say_revoked(request, revoked)
    return redirect("login-sessions")
