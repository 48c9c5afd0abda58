"""Data lineage of an instance."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.database import clock
from dbops.engine.audit.chain import moment
from dbops.models import Instance
from dbops.queries.fleet.doublewrite import doublewrite_page
from dbops.queries.rebuilds.lineage import Ancestor, Lineage, Movement, lineage_of
from dbops.queries.rebuilds.row_comparisons import differing
from dbops.web.decorators import viewer_page
from dbops.web.exports.tables import csv_answer, json_answer

SHOWN = 200
COLUMNS = (
    *("part", "rebuild", "source", "target", "method", "status", "read_from", "read_until", "bytes", "ciphers"),
    *("requested_by", "requested_at", "approval", "approval_by", "reason", "evidence"),
)


@require_GET
@never_cache
@viewer_page
def lineage(request: HttpRequest, name: str) -> HttpResponse:
    """Show the lineage of one instance, or send it as a file."""
    instance, now = get_object_or_404(Instance.objects.select_related("cluster"), name=name), clock.now()
    found = lineage_of(instance, now)
    form = request.GET.get("format")
    if form == "csv":
        return csv_answer(f"lineage-{name}", COLUMNS, _lines(found))
    if form == "json":
        return json_answer(f"lineage-{name}", _content(found))
    shown: dict[str, Any] = {"received": found.received[:SHOWN], "sent": found.sent[:SHOWN], "shown": SHOWN}
    shown["doublewrite"] = doublewrite_page(instance)
    shown["differing"] = differing([instance.cluster_id]).get(instance.pk)
    return render(request, "lineage/page.html", {"lineage": found, "instance": instance, **shown})


def _lines(found: Lineage) -> Iterator[list[Any]]:
    """Yield one line per known copy."""
    ancestors = [one.copy for one in found.ancestors if one.copy]
    for part, copies in (("lineage", ancestors), ("received", found.received), ("sent", found.sent)):
        for copy in copies:
            values = _copy(copy)
            yield [part, *("" if values[name] is None else values[name] for name in COLUMNS[1:])]


def _content(found: Lineage) -> dict[str, Any]:
    return {
        "instance": found.instance.name,
        "cluster": found.instance.cluster.name,
        "at": moment(found.at),
        "lineage": [_ancestor(one) for one in found.ancestors],
        "received": [_copy(one) for one in found.received],
        "sent": [_copy(one) for one in found.sent],
    }


def _ancestor(one: Ancestor) -> dict[str, Any]:
    established_by, seen = one.generation.established_by, one.generation.found
    return {
        "instance": one.generation.instance,
        "at": moment(one.generation.at),
        "known": one.known.value,
        "established_by_rebuild": established_by.rebuild if established_by else None,
        "found": {"at": moment(seen.at), "description": seen.description} if seen else None,
        "copy": _copy(one.copy) if one.copy else None,
    }


def _copy(one: Movement) -> dict[str, Any]:
    return {
        "rebuild": one.rebuild,
        "source": one.source,
        "target": one.target,
        "method": one.method,
        "status": one.status,
        "read_from": _at(one.read_from),
        "read_until": _at(one.read_until),
        "bytes": one.bytes,
        "ciphers": one.ciphers,
        "requested_by": one.requested_by,
        "requested_at": _at(one.requested_at),
        "approval": one.approval,
        "approval_by": one.approval_by,
        "reason": one.reason,
        "evidence": reverse("rebuild-evidence", args=[one.rebuild]),
    }


def _at(value: datetime | None) -> str:
    return moment(value) if value else ""
