"""Pages: how a cluster grows, and when it reaches its limits."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from dbops.database import clock
from dbops.engine.capacity.limits import LimitState
from dbops.engine.errors import Refused
from dbops.loaders.advice import advice_of
from dbops.models import CapacityReading, Cluster
from dbops.operations.capacity import set_thresholds
from dbops.queries import capacity as queries
from dbops.web.advice import texts_of
from dbops.web.capacity_limits import rows_of, sentence
from dbops.web.charts.capacity import COLUMNS, charts_of, table_of
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.exports.capacity import advice_file, limits_file, readings_file
from dbops.web.forms.capacity import ThresholdForm

PERIODS = (90, 365, 1825)


@require_GET
@never_cache
@viewer_page
def capacity(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster's limits by date, with the charts and tables of one instance; or return them as a file."""
    row, now, asked = get_object_or_404(Cluster, name=name), clock.now(), request.GET.get("format")
    if asked == "json":
        return limits_file(name, queries.cluster_limits(row), now)
    if asked == "advice":
        limits = queries.cluster_limits(row).limits
        return advice_file(name, advice_of(row, queries.latest_readings(row), limits, now), now)
    if asked == "csv":
        return readings_file(name, queries.readings_of(row, now - _period(request)), now)
    return _show(request, row)


@require_POST
@operator_page
def thresholds(request: HttpRequest, name: str) -> HttpResponse:
    """Set the thresholds of a cluster."""
    row, form = get_object_or_404(Cluster, name=name), ThresholdForm(request.POST)
    if form.is_valid():
        try:
            set_thresholds(actor=user_of(request), cluster=row, values=form.values())
        except Refused as error:
            form.add_refusal(error)
        else:
            messages.success(
                request, _("Thresholds of %(name)s saved. The forecast follows within a minute.") % {"name": name}
            )
            return redirect("cluster-capacity", name=name)
    return _show(request, row, form=form, status=422)


def _show(request: HttpRequest, row: Cluster, *, form: ThresholdForm | None = None, status: int = 200) -> HttpResponse:
    """Return a cluster's page. ``form`` is a rejected form with its input."""
    now, period = clock.now(), _period(request)
    found, latest = queries.cluster_limits(row), queries.latest_readings(row)
    flagged = found.flagged
    instance = _chosen((request.GET.get("instance", ""), flagged.instance if flagged else "", *sorted(latest)), latest)
    series = queries.series_of(row, instance, now - period, COLUMNS)
    context = {
        "cluster": row,
        "found": found,
        "soonest": sentence(flagged, now) if flagged else "",
        "is_soon": flagged is not None and flagged.is_soon(now),
        "is_unknown": all(limit.state is LimitState.UNKNOWN for limit in found.limits),
        "rows": rows_of(found.limits, now),
        "advice": texts_of(advice_of(row, latest, found.limits, now)),
        "readings": [latest[key] for key in sorted(latest)],
        "instance": instance,
        "reading": latest.get(instance),
        "charts": charts_of(series, [limit for limit in found.limits if limit.instance == instance], now, period),
        "table": table_of(series),
        "goal_seconds": row.redundancy_goal_seconds or settings.REDUNDANCY_GOAL_SECONDS,
        "threshold_form": form or ThresholdForm.of(found.thresholds),
        "days": period.days,
        "periods": PERIODS,
    }
    return render(request, "capacity/cluster.html", context, status=status)


def _chosen(wanted: Iterable[str], latest: Mapping[str, CapacityReading]) -> str:
    """Return the first wanted instance that was read; empty if none was."""
    return next((name for name in wanted if name in latest), "")


def _period(request: HttpRequest) -> timedelta:
    """Return the requested period, or the middle one."""
    asked = request.GET.get("days", "")
    return timedelta(days=next((days for days in PERIODS if str(days) == asked), PERIODS[1]))
