"""Pages: the list of backup runs, and backup trends."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.database import clock
from dbops.queries.backups import lists as queries
from dbops.queries.backups import trends
from dbops.web.charts.trends import card, legend
from dbops.web.decorators import viewer_page


@require_GET
@never_cache
@viewer_page
def backup_runs(request: HttpRequest) -> HttpResponse:
    """Show the runs of the last week, newest first, with unclear and found backups."""
    asked = request.GET
    cluster, flag = asked.get("cluster", ""), asked.get("flag", "")
    context = {
        "page": queries.listed(cluster=cluster, flag=flag, number=asked.get("page", 1)),
        "notes": queries.notes(),
        "clusters": queries.cluster_names(),
        "flags": queries.FLAGS,
        "cluster": cluster,
        "flag": flag,
        "days": queries.DAYS_SHOWN,
    }
    return render(request, "backups/list.html", context)


@require_GET
@never_cache
@viewer_page
def history(request: HttpRequest) -> HttpResponse:
    """Show duration and size of each schedule's runs over time."""
    asked = request.GET
    text, days = asked.get("text", "").strip().replace("\0", ""), _period(asked.get("days", ""))
    found = trends.history(clock.now(), days=days, text=text, number=asked.get("page", "1"))
    context = {
        "page": found.page,
        "cards": [card(series, days) for series in found.series],
        "legend": legend(),
        "periods": trends.PERIODS,
        "most": trends.RUNS_DRAWN,
        "days": days,
        "text": text,
    }
    return render(request, "backups/history.html", context)


def _period(text: str) -> int:
    """Return the requested period in days, or the middle one."""
    return next((days for days in trends.PERIODS if str(days) == text), trends.PERIODS[1])
