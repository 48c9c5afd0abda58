"""Answer health checks, and polls of open pages."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dbops.security.permissions import may_view
from dbops.web.live import status_bars


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 if the database answers, else 503, without details: no login is required."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("the database does not answer\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """Answer with the bars of ``web.live.status_bars`` if the page shows others; else 204.

    No login is required, so that a page can report that its session has ended and keep the user's input. Users without login get
    no details.
    """
    found = status_bars.current.bars() if may_view(request.user) else []
    is_logged_out = not request.user.is_authenticated
    key = "logged-out" if is_logged_out else status_bars.key(found)
    if request.GET.get("shown", "") == key:
        return HttpResponse(status=204)
    return render(request, "includes/_bars.html", {"bars": found, "bars_key": key, "is_logged_out": is_logged_out})
