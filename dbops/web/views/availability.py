"""Availability pages: current gaps, past gaps and their causes."""

from datetime import date

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from dbops.database import clock
from dbops.engine.availability.record import PlannedMaintenance
from dbops.engine.availability.shortages import Gap
from dbops.engine.availability.verified_sources import STALE_AFTER
from dbops.engine.errors import Refused
from dbops.models import Cluster, Maintenance
from dbops.operations import maintenance as verbs
from dbops.queries.availability.forecast import cluster_forecast
from dbops.queries.availability.overview import PERIODS, ClusterGaps, cluster_gaps, everything, today
from dbops.queries.availability.report import last_month
from dbops.queries.rebuilds import history
from dbops.queries.restore_tests import restores
from dbops.web.charts.debt import by_cause, legend, waterfall
from dbops.web.charts.heatmap import heat
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.exports.availability import FORMATS, cluster_file, fleet_file, forecast_file
from dbops.web.forms.schedules import MarkForm
from dbops.web.refusal_texts import cause_of
from dbops.web.templatetags.phrases import translated
from dbops.web.views.fleet import SHOWS, filters

INTERVALS_ON_A_PAGE = 50
GAPS = {gap.name.lower(): gap for gap in Gap}


@require_GET
@never_cache
@viewer_page
def availability(request: HttpRequest) -> HttpResponse:
    """Show each cluster's current state and its gaps in a period."""
    text, show = filters(request.GET)
    days = days_of(request.GET)
    if request.GET.get("format") in FORMATS:
        return fleet_file(*everything(clock.now(), days=days, text=text, show=show), request.GET["format"])
    found = today(clock.now(), days=days, text=text, show=show, number=request.GET.get("page", "1"))
    context = {
        "found": found,
        "fleet": found.fleet,
        "page": found.page,
        "shows": SHOWS,
        "days": days,
        "periods": PERIODS,
        "months": _months(),
    }
    return render(request, "availability/list.html", context)


@require_GET
@never_cache
@viewer_page
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show one cluster's gaps, with the intervals behind each number."""
    return _show(request, get_object_or_404(Cluster, name=name))


@require_POST
@operator_page
def mark(request: HttpRequest, name: str) -> HttpResponse:
    """Mark past maintenance as planned."""
    row, form = get_object_or_404(Cluster, name=name), MarkForm(request.POST)
    if form.is_valid():
        try:
            verbs.mark_maintenance(actor=user_of(request), cluster=row, **form.cleaned_data)
        except Refused as error:
            form.add_refusal(error, _("Not marked: %(cause)s.") % {"cause": translated(error.cause)})
        else:
            messages.success(
                request, _("Marked as planned maintenance of %(name)s. The gaps stay visible.") % {"name": name}
            )
            return redirect("cluster-availability", name=name)
    return _show(request, row, form=form, status=422)


@require_POST
@operator_page
def unmark(request: HttpRequest, name: str, maintenance_id: int) -> HttpResponse:
    """Remove a mark of planned maintenance."""
    row = get_object_or_404(Maintenance.objects.select_related("cluster"), pk=maintenance_id, cluster__name=name)
    try:
        verbs.unmark_maintenance(actor=user_of(request), maintenance=row)
    except Refused as error:
        messages.error(request, cause_of(error))
    else:
        messages.success(request, _("Removed the mark of planned maintenance of %(name)s.") % {"name": name})
    return redirect("cluster-availability", name=name)


def _show(request: HttpRequest, row: Cluster, *, form: MarkForm | None = None, status: int = 200) -> HttpResponse:
    """Return a cluster's page. ``form`` is a rejected form with its input."""
    days, gap = days_of(request.GET), GAPS.get(request.GET.get("gap", ""), Gap.NOT_REBUILDABLE)
    now = clock.now()
    found = cluster_gaps(row, now, days=days, gap=gap)
    times, sources = history.times(row, found.period), history.verified_sources(row)
    ahead, restores_now = cluster_forecast(row, now), restores(now, [row.pk]).get(row.pk, [])
    if request.GET.get("of") == "forecast" and request.GET.get("format") == "csv":
        return forecast_file(row.name, ahead, now)
    if request.GET.get("format") in FORMATS:
        return cluster_file(
            row.name,
            found,
            gap,
            request.GET["format"],
            times=times,
            verified_sources=sources,
            restores=restores_now,
            ahead=ahead,
        )
    context = {
        "cluster": row,
        "found": found,
        "debt": waterfall(found.weeks),
        "legend": legend(found.weeks),
        "debt_rows": by_cause(found.weeks),
        "times": times,
        "verified_sources": [(source, source.is_stale(now)) for source in sources],
        "stale_days": STALE_AFTER.days,
        "restores": restores_now,
        "old_after_days": settings.RESTORE_TEST_OLD_AFTER_SECONDS // 86400,
        "heat": heat(ahead),
        "planned": _planned(found),
        "months": _months(),
        "mark_form": form or MarkForm(),
        "page": Paginator(found.parts, INTERVALS_ON_A_PAGE).get_page(request.GET.get("page", "1")),
        "gap": gap,
        "key": gap.name.lower(),
        "days": days,
        "periods": PERIODS,
    }
    return render(request, "availability/cluster.html", context, status=status)


def _months() -> list[date]:
    """Return the months whose reports a page links to: the current and the last one."""
    now, zone = clock.now(), timezone.get_current_timezone()
    return [now.astimezone(zone).date().replace(day=1), last_month(now, zone)]


def _planned(found: ClusterGaps) -> list[tuple[int, PlannedMaintenance]]:
    """Return the maintenance of a period with its numbers, newest first."""
    return [(int(one.reference.rpartition(" ")[2]), one) for one in reversed(found.record.planned)]


def days_of(asked: QueryDict) -> int:
    """Return the requested period in days, or the middle one."""
    return next((days for days in PERIODS if str(days) == asked.get("days", "")), PERIODS[1])
