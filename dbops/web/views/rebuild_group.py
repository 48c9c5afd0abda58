"""Choose several replicas, show their plans, and request rebuilds from one read of their source."""

import re
import uuid
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.access.tickets import MOST_TICKET
from dbops.engine.errors import Refused
from dbops.engine.states import REPLICAS, Role
from dbops.models import Cluster, Instance
from dbops.operations.rebuild_group import ConfirmedTarget, GroupTarget, plan_group, request_group
from dbops.operations.rebuilds import candidate_sources
from dbops.queries.fleet.cluster import InstanceRow, cluster_row
from dbops.web.decorators import operator_page, user_of

FINGERPRINT = re.compile(r"[0-9a-f]{64}")
TYPED_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class GroupCandidate:
    """One instance that can be chosen."""

    row: InstanceRow
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One chosen target with its input."""

    planned: GroupTarget
    row: InstanceRow
    typed: str


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Show the plans of the chosen targets; request all rebuilds on POST."""
    cluster = get_object_or_404(Cluster, name=name)
    given = request.POST if request.method == "POST" else request.GET
    members = list(Instance.objects.filter(cluster=cluster).select_related("cluster", "host").order_by("name"))
    source = _source(members, given.get("source", ""))
    chosen = [item for item in members if item.name in given.getlist("target") and _can_be(item, source)]
    refused = None
    if request.method == "POST" and source and chosen:
        try:
            return _request(request, source, chosen)
        except Refused as error:
            refused = error
    context = {
        "cluster": cluster,
        "source": source,
        "refused": refused,
        "reason": given.get("reason", "")[:TYPED_CHARACTERS],
        "ticket": given.get("ticket", "")[:MOST_TICKET],
        "request_key": uuid.uuid4(),
        **_shown(request, cluster, members, source, chosen),
    }
    return render(request, "rebuilds/group.html", context, status=409 if refused else 200)


def _source(members: list[Instance], name: str) -> Instance | None:
    """Return the named source, or the best one."""
    target = next((item for item in members if item.role == Role.REPLICA), None)
    sources = [item for item in members if item.role in REPLICAS]
    named = next((item for item in sources if item.name == name), None)
    return named or (next(iter(candidate_sources(target)), None) if target else None)


def _can_be(item: Instance, source: Instance | None) -> bool:
    return item.role in REPLICAS and item != source


def _shown(
    request: HttpRequest, cluster: Cluster, members: list[Instance], source: Instance | None, chosen: list[Instance]
) -> dict[str, object]:
    row = cluster_row(cluster)
    planned = plan_group(chosen, source) if source else []
    targets = [
        Target(one, row.of(one.target), request.POST.get(f"typed-{one.target.name}", "")[:63]) for one in planned
    ]
    busy = [target.row for target in targets if target.row.rebuild]
    return {
        "candidates": [GroupCandidate(row.of(item), item in chosen) for item in members if _can_be(item, source)],
        "sources": [item for item in members if item.role in REPLICAS],
        "targets": targets,
        "busy": busy,
        "is_possible": len(targets) > 1 and not busy and all(one.is_possible for one in planned),
    }


def _request(request: HttpRequest, source: Instance, chosen: list[Instance]) -> HttpResponse:
    try:
        key = str(uuid.UUID(request.POST.get("request_key", "")))
    except ValueError:
        raise Http404(_("The form has no request key.")) from None
    confirmed = [
        ConfirmedTarget(
            target=item,
            typed_name=request.POST.get(f"typed-{item.name}", "").strip()[:TYPED_CHARACTERS],
            fingerprint=_fingerprint(request.POST.get(f"fingerprint-{item.name}", "")),
        )
        for item in chosen
    ]
    reason = request.POST.get("reason", "").replace("\0", "")[:TYPED_CHARACTERS]
    ticket = request.POST.get("ticket", "").strip()
    rebuilds = request_group(
        actor=user_of(request), source=source, confirmed=confirmed, reason=reason, request_key=key, ticket=ticket
    )
    messages.success(
        request,
        _("%(number)s rebuilds requested from one read of %(source)s.")
        % {"number": len(rebuilds), "source": source.name},
    )
    return redirect("rebuild", rebuild_id=rebuilds[0].pk)


def _fingerprint(text: str) -> str:
    return text if FINGERPRINT.fullmatch(text) else ""
