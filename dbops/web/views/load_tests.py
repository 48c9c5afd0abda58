"""Pages of load tests: list, one load test while it runs and afterwards, stop, files, two side by side."""

import re

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods
from django.views.decorators.vary import vary_on_headers

from dbops.engine.errors import Refused
from dbops.engine.load_tests.result import STEPS
from dbops.models import LoadTest
from dbops.operations.load_tests import cancel_load_test
from dbops.queries import load_test_pages as queries
from dbops.web.charts.load_tests import charts_of
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.exports.load_tests import report_file, table_file
from dbops.web.load_test_commands import commands_of
from dbops.web.load_test_tables import (
    compared_rows,
    knee_text,
    losses_text,
    ratio_text,
    round_rows,
    round_title,
    step_rows,
    verdict_text,
    whole_table,
)

#: A number that every database accepts.
NUMBER = re.compile(r"[0-9]{1,9}")
#: Load tests offered for a comparison.
OFFERED = 100


@require_GET
@never_cache
@viewer_page
def load_tests(request: HttpRequest) -> HttpResponse:
    """Show all load tests, newest first."""
    cluster, status = request.GET.get("cluster", "").replace("\0", ""), request.GET.get("status", "").replace("\0", "")
    context = {
        "page": queries.listed(cluster=cluster, status=status, number=request.GET.get("page", "1")),
        "clusters": queries.cluster_names(),
        "statuses": queries.STATUSES,
        "cluster": cluster,
        "status": status,
    }
    return render(request, "load_tests/list.html", context)


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def load_test(request: HttpRequest, load_test_id: int) -> HttpResponse:
    """Show one load test. A poll gets the changing part only, or 204 while the revision is current."""
    is_poll = bool(request.headers.get("HX-Request"))
    if is_poll and request.GET.get("revision") == str(queries.revision(load_test_id)):
        return HttpResponse(status=204)
    page = queries.page_of(_find(load_test_id))
    found = page.conclusion
    context = {
        "page": page,
        "load_test": page.row,
        "plan": page.plan,
        "axis": found.axis,
        "progress": page.row.checkpoint.get("progress", {}) if not page.row.is_over else {},
        "steps": [{**step, "title": STEPS.get(step["name"], step["name"])} for step in page.row.steps],
        "charts": charts_of(found),
        "step_rows": step_rows(found),
        "round_rows": round_rows(found),
        "waiting_rounds": [
            (one.number, round_title(one, found.axis)) for one in page.plan.rounds if one.number > page.finished_rounds
        ],
        "invalid": [step for step in found.report.get("Steps", ()) if not step["IsValid"]],
        "table": whole_table(found.report),
        "knee": knee_text(found.knee, found.axis),
        "verdict": verdict_text(found.ab.verdict) if found.ab else "",
        "ab_ratio": ratio_text(found.ab.ab) if found.ab else "",
        "aa_ratio": ratio_text(found.ab.aa) if found.ab else "",
        "row_percent": 100 * page.row.row_share,  # type: ignore[attr-defined]
        "facts": page.row.report.get("Facts", {}),
        "placement": page.row.report.get("Placement", {}),
        "not_copied": losses_text(page.row.report.get("NotCopied", {})),
        "commands": commands_of(page.plan, queries.request_of(page.row).workload),
    }
    template = "load_tests/_test.html" if is_poll else "load_tests/test.html"
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def cancel(request: HttpRequest, load_test_id: int) -> HttpResponse:
    """Confirm with a reason, then request the stop of a load test."""
    found, reason = _find(load_test_id), request.POST.get("reason", "")
    refused, status = None, 200
    if request.method == "POST":
        try:
            cancel_load_test(actor=user_of(request), load_test=found, reason=reason)
        except Refused as error:
            refused, status, found = error, 409, _find(load_test_id)
        else:
            messages.success(request, _("Stop of load test %(number)s requested.") % {"number": load_test_id})
            return redirect("load-test", load_test_id=load_test_id)
    context = {"load_test": found, "refused": refused, "reason": reason}
    return render(request, "load_tests/cancel.html", context, status=status)


@require_GET
@never_cache
@viewer_page
def report_json(request: HttpRequest, load_test_id: int) -> HttpResponse:
    """Return the report as JSON."""
    return report_file(queries.page_of(_find(load_test_id)))


@require_GET
@never_cache
@viewer_page
def report_csv(request: HttpRequest, load_test_id: int) -> HttpResponse:
    """Return the figures as CSV."""
    return table_file(queries.page_of(_find(load_test_id)))


@require_GET
@never_cache
@viewer_page
def compare(request: HttpRequest) -> HttpResponse:
    """Show two load tests side by side."""
    both = [_asked(request.GET.get(name, "")) for name in ("a", "b")]
    pages = [queries.page_of(one) if one else None for one in both]
    first, second = pages
    context = {
        "first": first,
        "second": second,
        "rows": compared_rows(first.conclusion, second.conclusion) if first and second else [],
        "charts": [
            (
                page,
                [
                    chart
                    for chart in charts_of(page.conclusion)
                    if chart.key in ("latency", "speed", "pairs", "seconds")
                ],
            )
            for page in pages
            if page
        ],
        "offered": queries.offered(OFFERED),
        "choices": (("a", _("First")), ("b", _("Second"))),
    }
    return render(request, "load_tests/compare.html", context)


def _asked(number: str) -> LoadTest | None:
    """Return the load test of a number in the URL. Raises ``Http404`` if it does not exist."""
    if not number:
        return None
    if not NUMBER.fullmatch(number):
        raise Http404
    return _find(int(number))


def _find(load_test_id: int) -> LoadTest:
    found = queries.find(load_test_id)
    if found is None:
        raise Http404(_("There is no load test %(number)s.") % {"number": load_test_id})
    return found
