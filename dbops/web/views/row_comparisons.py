"""The comparison of all rows that continues after a rebuild: its part of the page, and its end."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dbops.engine.errors import Refused
from dbops.models import RowComparison
from dbops.operations.row_comparisons import cancel_comparison
from dbops.queries.rebuilds.row_comparisons import comparison_of
from dbops.web.decorators import operator_page, user_of, viewer_page


@require_GET
@never_cache
@viewer_page
def part(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Return the part of the rebuild's page; 204 if the page shows the newest revision already."""
    found = _find(rebuild_id)
    if request.GET.get("revision") == str(found.revision):
        return HttpResponse(status=204)
    return render(request, "rebuilds/_row_comparison.html", {"comparison": found})


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def cancel(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Ask for confirmation, then request the end of the comparison."""
    found = _find(rebuild_id)
    refused, status = None, 200
    if request.method == "POST":
        try:
            cancel_comparison(actor=user_of(request), comparison=found)
        except Refused as error:
            refused, status, found = error, 409, _find(rebuild_id)
        else:
            messages.success(request, _("Cancellation of the comparison of all rows requested."))
            return redirect("rebuild", rebuild_id=rebuild_id)
    context = {"comparison": found, "rebuild": found.rebuild, "refused": refused}
    return render(request, "rebuilds/cancel_comparison.html", context, status=status)


def _find(rebuild_id: int) -> RowComparison:
    found = comparison_of(rebuild_id)
    if found is None:
        raise Http404(_("Rebuild %(number)s has no comparison of all rows.") % {"number": rebuild_id})
    return found
