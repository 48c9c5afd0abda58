"""Approve or decline a rebuild, or override its approval."""

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import Approval, Status
from dbops.operations.approvals import (
    approve_rebuild,
    decline_rebuild,
    is_own,
    may_approve,
    override_approval,
    who_may_approve,
)
from dbops.queries.rebuilds import pages as queries
from dbops.web.decorators import approver_page, user_of
from dbops.web.templatetags.phrases import translated

DECISIONS: dict[str, tuple[Callable[..., None], str]] = {
    "approve": (approve_rebuild, phrase("Rebuild {number} approved by you.")),
    "decline": (decline_rebuild, phrase("Rebuild {number} declined.")),
    "override": (
        override_approval,
        phrase("Rebuild {number} starts without approval. The audit log lists this as an override."),
    ),
}


@require_http_methods(["GET", "POST"])
@never_cache
@approver_page
def approval(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show a request; other people can approve or decline it, operators can override in an emergency."""
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    refused, status = None, 200
    if request.method == "POST":
        decision = DECISIONS.get(request.POST.get("decision", ""))
        if decision is None:
            raise Http404(_("There is no such decision."))
        decide, said = decision
        try:
            decide(actor=user_of(request), rebuild=found, reason=request.POST.get("reason", ""))
        except Refused as error:
            refused, status = error, 409
        else:
            messages.success(request, translated(said).format(number=rebuild_id))
            return redirect("rebuild", rebuild_id=rebuild_id)
    given = list(found.approvals.select_related("user"))
    context = {
        "rebuild": found,
        "refused": refused,
        "is_waiting": found.status == Status.QUEUED and found.approval == Approval.WAITING,
        "is_own": is_own(user_of(request), found),
        "others": who_may_approve(found),
        "given": given,
        "has_approved": user_of(request).pk in {one.user_id for one in given},
        "may_approve": may_approve(user_of(request), found),
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "rebuilds/approval.html", context, status=status)
