"""Show, set and remove the rate limit of a rebuild."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import StepState
from dbops.engine.tuning.stream_rate import MIB, SLOWEST
from dbops.loaders.plan_inputs import slowest_rate
from dbops.operations.rate_limit import set_stream_rate
from dbops.queries.rebuilds import pages as queries
from dbops.web.decorators import operator_page, user_of
from dbops.web.figures import localized

#: End of the slider before the stream has run; a higher number can be entered.
SLIDER_MIB = 1000


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def rate(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show the rate and the rate limit; set or remove the limit on POST."""
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    refused, status, typed = None, 200, request.POST.get("mib", "")[:20]
    if request.method == "POST":
        wanted = None if "full" in request.POST else bytes_of(typed)
        try:
            set_stream_rate(actor=user_of(request), rebuild=found, rate=wanted)
        except Refused as error:
            refused, status = error, 409
        else:
            if wanted:
                said = _("Rate limit of rebuild %(number)s set to %(rate)s MiB/s.")
            else:
                said = _("Rate limit of rebuild %(number)s removed.")
            values = {"number": rebuild_id, "rate": localized(f"{wanted / MIB:.1f}") if wanted else ""}
            messages.success(request, said % values)
            return redirect("rebuild", rebuild_id=rebuild_id)
        found = queries.find(rebuild_id) or found
    page = queries.page(found)
    row = next((row for row in page.steps if row.step.name == "stream"), None)
    slowest = slowest_rate(from_record(Plan, found.plan), found.source_id)
    now = found.stream_rate or (row.rate if row else None)
    slider = max(10, round(2 * row.rate / MIB)) if row and row.rate and not found.stream_rate else SLIDER_MIB
    context = {
        "rebuild": found,
        "refused": refused,
        "row": row,
        "has_stream": row is not None
        and row.step.state in (StepState.PENDING, StepState.RUNNING)
        and not found.is_final,
        "slowest": slowest,
        "slowest_mib": f"{slowest / MIB + 0.005:.2f}",
        "is_by_redo": slowest > SLOWEST,
        "shared": page.shared,
        "is_compressed": bool(page.plan and page.plan.compress_threads),
        "typed": typed or (f"{now / MIB:.1f}" if now else ""),
        "slider_mib": slider,
        "slider_at": f"{min(now / MIB, slider):.1f}" if now else slider,
    }
    return render(request, "rebuilds/rate_limit.html", context, status=status)


def bytes_of(text: str) -> int:
    """Return MiB as bytes; 0, which is refused, for anything but a number."""
    try:
        return round(float(text.replace(",", ".")) * MIB)
    except (ValueError, OverflowError):
        return 0
