"""Pages of the monthly availability report."""

from datetime import date, datetime

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.database import clock
from dbops.lib.documents import render_document
from dbops.models import Cluster
from dbops.queries.availability.report import ReportPeriod, cluster_report, fleet_report, month_of
from dbops.web.decorators import viewer_page


class MonthConverter:
    """URL converter for a month, for example ``2026-03``."""

    regex = "20[0-9]{2}-(?:0[1-9]|1[0-2])"

    def to_python(self, value: str) -> date:
        return date(int(value[:4]), int(value[5:]), 1)

    def to_url(self, value: date | str) -> str:
        return value if isinstance(value, str) else f"{value:%Y-%m}"


@require_GET
@never_cache
@viewer_page
def fleet(request: HttpRequest, first: date) -> HttpResponse:
    """Show the report of a month for all clusters."""
    now = clock.now()
    report = fleet_report(_month(first, now), now)
    return HttpResponse(render_document("availability/report_fleet.html", report=report, is_file=False))


@require_GET
@never_cache
@viewer_page
def cluster(request: HttpRequest, first: date, name: str) -> HttpResponse:
    """Show the report of a month for one cluster."""
    now, row = clock.now(), get_object_or_404(Cluster, name=name)
    report = cluster_report(row, _month(first, now), now)
    return HttpResponse(render_document("availability/report_cluster.html", report=report, is_file=False))


def _month(first: date, now: datetime) -> ReportPeriod:
    found = month_of(first, now, timezone.get_current_timezone())
    if found is None:
        raise Http404(_("This month is in the future."))
    return found
