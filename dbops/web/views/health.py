"""Answer health checks and monitoring, and polls of open pages."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.facts.age import age_seconds
from dbops.operations.tokens import METRICS
from dbops.queries import monitoring
from dbops.queries.admin.configuration import pulses
from dbops.security.permissions import may_view
from dbops.web.bearer import bearer_token, challenge
from dbops.web.exports.prometheus import render as render_metrics
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
def process(request: HttpRequest, name: str) -> HttpResponse:
    """Answer 200 if workers or beat reported lately, else 503, without details: no login is required."""
    try:
        at = pulses().get(name)
    except DatabaseError:
        return HttpResponse("the database does not answer\n", status=503, content_type="text/plain")
    age = age_seconds(at, clock.now()) if at else None
    if age is None or age > status_bars.SILENT_SECONDS:
        return HttpResponse(f"{name} is silent\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Send all metrics to the owner of a metrics token."""
    try:
        bearer_token(request, METRICS)
    except Refused as error:
        status_code = 429 if error.code == "report.too_many" else 401
        return challenge(HttpResponse(f"{error.code}\n", status=status_code, content_type="text/plain"))
    return HttpResponse(render_metrics(monitoring.metrics(clock.now())), content_type=CONTENT_TYPE_LATEST)


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
