"""Error pages. None shows a traceback, a setting or a secret."""

import logging
import sys
import uuid

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.csrf import requires_csrf_token

from dbops.web.csrf_causes import csrf_cause
from dbops.web.middleware.refusals import typed
from dbops.web.views.login import already_logged_in

log = logging.getLogger(__name__)


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404 with the view's reason, if any, and with the form input for a deleted object."""
    first = exception.args[0] if exception.args else ""
    # The URL resolver gives URLs, and get_object_or_404 a sentence about its query: neither is a reason.
    reason = first if isinstance(first, str) and not first.endswith("matches the given query.") else ""
    return render(request, "404.html", {"reason": reason, "typed": typed(request)}, status=404)


@requires_csrf_token
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer 403 to a form that fails the CSRF check, with the cause and its fix. Django's own reason is only logged.

    The second of two login forms is old when the first was sent: it leads on without a login.
    """
    if request.path == reverse("login") and request.user.is_authenticated:
        return already_logged_in(request)
    log.warning("refused a form sent to %r: %s", request.path, reason)
    return render(request, "403_csrf.html", {"typed": typed(request), "cause": csrf_cause(request)}, status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500, or 503 if the dashboard's own database is down, with a number that is in the log. Reads no table."""
    number, error = uuid.uuid4().hex[:8], sys.exc_info()[1]
    is_database = isinstance(error, OperationalError | InterfaceError)
    log.error("error %s: %s %r: %s", number, request.method, request.path, type(error).__name__, exc_info=error)
    text = render_to_string("500.html", {"number": number, "is_database": is_database})
    return HttpResponse(text, status=503 if is_database else 500)
