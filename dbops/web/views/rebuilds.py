"""The list of rebuilds, and one rebuild's page, fragments and actions."""

import re

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.states import Status
from dbops.models import Rebuild
from dbops.operations.rebuilds import PRIORITIES, cancel_rebuild, force_fail_rebuild, move_first, set_priority
from dbops.queries.rebuilds import metrics
from dbops.queries.rebuilds import pages as queries
from dbops.web.charts import rebuild as charts
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.live import fragments

#: Pattern of a sample number that every database accepts.
NUMBER = re.compile(r"[0-9]{1,9}")


@require_GET
@viewer_page
def rebuilds(request: HttpRequest) -> HttpResponse:
    """Show the list, newest first, optionally of one status and one cluster."""
    asked = request.GET.get("status", "")
    status = asked if asked in set(Status) else ""
    cluster = request.GET.get("cluster", "").replace("\0", "")
    page = queries.listed(status=status, cluster=cluster, number=request.GET.get("page", 1))
    context = {"page": page, "status": status, "statuses": list(Status), "cluster": cluster}
    return render(request, "rebuilds/list.html", context)


@require_GET
@never_cache
@viewer_page
def rebuild(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show one rebuild in full; the live stream then replaces parts of the page."""
    context = fragments.context(_find(rebuild_id))
    return render(request, "rebuilds/detail.html", context)


@require_GET
@never_cache
@viewer_page
def poll(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Answer 204 if the page shows the newest revision already; else every fragment.

    A header also has the revision: the page ignores an answer that is older than the stream's.
    """
    newest = queries.revision(rebuild_id)
    if newest is None:
        raise Http404
    if request.GET.get("revision") == str(newest):
        return HttpResponse(status=204)
    context = fragments.context(_find(rebuild_id))
    answer = render(request, "rebuilds/_poll.html", context)
    answer["X-Revision"] = str(context["page"].revision)
    return answer


@require_GET
@never_cache
@viewer_page
def rebuild_samples(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Answer with a rebuild's points after the page's last one, for its charts; 204 if there is none."""
    asked = request.GET.get("after", "")
    points = metrics.after(rebuild_id, int(asked)) if NUMBER.fullmatch(asked) else metrics.history(rebuild_id)
    if points:
        return HttpResponse(charts.as_json(points), content_type="application/json")
    if queries.revision(rebuild_id) is None:
        raise Http404
    return HttpResponse(status=204)


@require_GET
@never_cache
@viewer_page
def actions(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Return the actions of this user. Requested again on each change of the status."""
    found = _find(rebuild_id)
    return render(request, "rebuilds/_actions.html", {"rebuild": found, "follow_ups": fragments.follow_ups_of(found)})


@require_http_methods(["GET", "POST"])
@operator_page
def cancel(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Ask for confirmation, then request the cancellation."""
    found = _find(rebuild_id)
    refused, status = None, 200
    if request.method == "POST":
        try:
            cancel_rebuild(actor=user_of(request), rebuild=found)
        except Refused as error:
            refused, status, found = error, 409, _find(rebuild_id)
        else:
            is_over = found.started_at is None and _find(rebuild_id).is_final
            # The message stays on the page until the rebuild has ended and longer: it must stay true.
            requested = _("Cancellation of rebuild %(number)s requested. See the clean-up below.") % {
                "number": rebuild_id
            }
            said = (
                _("Rebuild %(number)s was cancelled before it started.") % {"number": rebuild_id}
                if is_over
                else requested
            )
            messages.success(request, said, extra_tags="over" if is_over else "stopping")
            return redirect("rebuild", rebuild_id=rebuild_id)
    context = {"page": queries.page(found), "rebuild": found, "refused": refused}
    return render(request, "rebuilds/cancel.html", context, status=status)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def force_fail(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Ask for a reason, then mark a lost rebuild as failed."""
    found = _find(rebuild_id)
    refused, status = None, 200
    if request.method == "POST":
        try:
            force_fail_rebuild(actor=user_of(request), rebuild=found, reason=request.POST.get("reason", ""))
        except Refused as error:
            refused, status, found = error, 409, _find(rebuild_id)
        else:
            messages.success(
                request,
                _("Rebuild %(number)s is marked as failed. dbops cleans up its hosts when they respond.")
                % {"number": rebuild_id},
            )
            return redirect("rebuild", rebuild_id=rebuild_id)
    context = {"rebuild": found, "refused": refused, "reason": request.POST.get("reason", "")}
    return render(request, "rebuilds/force_fail.html", context, status=status)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def queue_position(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show the queue position of a rebuild; move it to the front or set its priority."""
    found = _find(rebuild_id)
    refused, status = None, 200
    if request.method == "POST":
        try:
            if "first" in request.POST:
                move_first(actor=user_of(request), rebuild=found)
            else:
                set_priority(actor=user_of(request), rebuild=found, priority=_priority(request))
        except Refused as error:
            refused, status, found = error, 409, _find(rebuild_id)
        else:
            messages.success(
                request,
                _("Rebuild %(number)s now has priority %(priority)s.")
                % {"number": rebuild_id, "priority": found.priority},
            )
            return redirect("rebuild", rebuild_id=rebuild_id)
    context = {"rebuild": found, "refused": refused, "queue": queries.queue_of(found), "priorities": PRIORITIES}
    return render(request, "rebuilds/queue_position.html", context, status=status)


def _priority(request: HttpRequest) -> int:
    try:
        return int(request.POST.get("priority", ""))
    except ValueError:
        return PRIORITIES.stop  # not a number: out of bounds, and refused as such


@require_GET
@viewer_page
def commands(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show every command of the rebuild, with the end of its output."""
    found = _find(rebuild_id)
    rows, count = queries.commands(rebuild_id, shown=None)
    return render(request, "rebuilds/commands.html", {"rebuild": found, "commands": rows, "command_count": count})


def _find(rebuild_id: int) -> Rebuild:
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    return found
