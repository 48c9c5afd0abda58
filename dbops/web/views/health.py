"""What a load balancer or a container's health check asks, and what each open page asks now and then."""

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
    """Answer 200 when the database answers, else 503. It says no more, as nobody is logged in here."""
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
    """Answer with the bars of ``web.live.status_bars`` where the page shows others; else 204.

    Anybody may ask: a page whose session has ended says so, and keeps what was typed. Nobody else is told anything.
    """
    found = status_bars.standing.bars() if may_view(request.user) else []
    is_logged_out = not request.user.is_authenticated
    key = "logged-out" if is_logged_out else status_bars.key(found)
    if request.GET.get("shown", "") == key:
        return HttpResponse(status=204)
    return render(request, "includes/_bars.html", {"bars": found, "bars_key": key, "is_logged_out": is_logged_out})
