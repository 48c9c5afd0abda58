"""Join and leave shared reads."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Status
from dbops.operations.shared_reads import join_read, leave_read, partners
from dbops.queries.rebuilds import pages as queries
from dbops.web.decorators import operator_page, user_of


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def shared_read(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show the queued rebuilds of the same source; let this one follow another, or leave it."""
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    refused, status = None, 200
    if request.method == "POST":
        try:
            done = _leave(request, rebuild_id) if "leave" in request.POST else _join(request, rebuild_id)
        except Refused as error:
            refused, status = error, 409
        else:
            messages.success(request, done)
            return redirect("rebuild", rebuild_id=rebuild_id)
        found = queries.find(rebuild_id) or found
    is_waiting = found.status == Status.QUEUED
    context = {
        "rebuild": found,
        "refused": refused,
        "is_waiting": is_waiting,
        "shared": queries.shared_read(found),
        "partners": partners(from_record(Plan, found.plan), found.source, without=found) if is_waiting else [],
    }
    return render(request, "rebuilds/shared_read.html", context, status=status)


def _join(request: HttpRequest, rebuild_id: int) -> str:
    number = request.POST.get("leader", "")
    rebuild, leader = (
        queries.find(rebuild_id),
        queries.find(int(number)) if number.isdecimal() and len(number) < 10 else None,
    )
    if rebuild is None or leader is None:
        raise Http404(_("There is no such rebuild."))
    join_read(actor=user_of(request), rebuild=rebuild, leader=leader)
    return _("Rebuild %(number)s now follows rebuild %(leader)s.") % {"number": rebuild.pk, "leader": leader.pk}


def _leave(request: HttpRequest, rebuild_id: int) -> str:
    rebuild = queries.find(rebuild_id)
    if rebuild is None:
        raise Http404(_("There is no such rebuild."))
    leave_read(actor=user_of(request), rebuild=rebuild)
    return _("Rebuild %(number)s left the group and waits for %(source)s on its own.") % {
        "number": rebuild_id,
        "source": rebuild.source.name,
    }
