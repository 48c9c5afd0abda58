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
    """End all sessions but this one."""
    ended = verbs.end_other_sessions(user=user_of(request), kept_key=request.session.session_key or "")
    messages.success(
        request,
        ngettext("%(number)s other session ended.", "%(number)s other sessions ended.", ended) % {"number": ended},
    )
    return redirect("login-sessions")
