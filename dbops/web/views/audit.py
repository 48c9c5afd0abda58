"""The audit log."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dbops.queries.audit import AuditFilter, entries
from dbops.web.access import viewer_page


@require_GET
@viewer_page
def audit(request: HttpRequest) -> HttpResponse:
    """Show who did what, newest first."""
    asked = request.GET
    wanted = AuditFilter(asked.get("actor", ""), asked.get("action", ""), asked.get("subject", ""))
    return render(request, "audit/list.html", {"wanted": wanted, "page": entries(wanted, asked.get("page", 1))})
