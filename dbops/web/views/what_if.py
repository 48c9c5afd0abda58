"""Page of the what-if analysis."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.database import clock
from dbops.models import Cluster
from dbops.queries.availability.overview import PERIODS
from dbops.queries.availability.what_if import HOURS, WhatIfRequest, what_if
from dbops.web.changes import describe_change, proposal
from dbops.web.decorators import viewer_page
from dbops.web.exports.availability import FORMATS, what_if_file
from dbops.web.views.availability import days_of

#: Number of best changes that the page lists.
NAMED = 5


@require_GET
@never_cache
@viewer_page
def page(request: HttpRequest, name: str) -> HttpResponse:
    """Show a period as recorded and with one change, and the best single changes."""
    row = get_object_or_404(Cluster, name=name)
    days, asked = days_of(request.GET), _asked(request.GET)
    found = what_if(row, clock.now(), asked, days=days)
    best = [proposal(one, found.schedules, days) for one in found.best]
    if request.GET.get("format") in FORMATS:
        return what_if_file(row.name, found, best, request.GET["format"])
    context = {
        "cluster": row,
        "found": found,
        "change_text": describe_change(found.outcome.change, found.schedules),
        "best": best[:NAMED],
        "without_machine": next((one for one in best if not one.outcome.change.adds_source), None),
        "hours": HOURS,
        "days": days,
        "asked": _query(asked, days),
        "periods": PERIODS,
    }
    return render(request, "availability/what_if.html", context)


def _query(asked: WhatIfRequest, days: int) -> str:
    """Return the query string of a request."""
    fields = {"days": str(days), "schedule": asked.schedule, "hours": str(asked.hours)}
    fields |= {"as": "physical"} if asked.as_physical else {}
    return urlencode(fields | ({"source": "1"} if asked.adds_source else {}))


def _asked(given: QueryDict) -> WhatIfRequest:
    """Return the requested change; invalid values count as no change."""
    hours = next((one for one in HOURS if str(one) == given.get("hours", "")), 0)
    return WhatIfRequest(
        schedule=given.get("schedule", ""),
        hours=hours,
        as_physical=given.get("as") == "physical",
        adds_source=given.get("source") == "1",
    )
