"""Pages: what the sessions of an instance wait for."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.engine.capacity.waits import ReadingLimit, switch_on_statement
from dbops.engine.flavors import flavor_for
from dbops.loaders.members import member_of
from dbops.models import Instance, WaitReading
from dbops.operations.waits import request_wait_reading
from dbops.queries.waits import comparison_of, readings_of
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.exports.tables import json_answer
from dbops.web.templatetags.phrases import translated
from dbops.web.waits import LIMITS, contention_texts, rows_of, summary_of

LENGTHS = (10, 30, 60)


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def waits(request: HttpRequest, name: str) -> HttpResponse:
    """Show one reading of an instance, the newest by default; a poll gets it without the frame."""
    instance = _instance(name)
    readings = readings_of(instance)
    chosen = _chosen(readings, request.GET.get("reading", ""))
    if request.GET.get("format") == "json" and chosen:
        return _file(name, chosen)
    template = "waits/_reading.html" if request.headers.get("HX-Request") else "waits/page.html"
    context = {
        "instance": instance,
        "lengths": LENGTHS,
        "readings": [(row, _line(row)) for row in readings],
        "active": next((row for row in readings if not row.is_over), None),
        **_details(instance, chosen),
    }
    return render(request, template, context)


@require_POST
@operator_page
def read(request: HttpRequest, name: str) -> HttpResponse:
    """Request a reading."""
    asked = request.POST.get("seconds", "")
    seconds = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 4 else 0
    row = request_wait_reading(actor=user_of(request), instance=_instance(name), seconds=seconds)
    return redirect(f"{request.path.removesuffix('read/')}?reading={row.pk}")


def _instance(name: str) -> Instance:
    return get_object_or_404(Instance.objects.select_related("cluster", "host", "state"), name=name)


def _chosen(readings: list[WaitReading], asked: str) -> WaitReading | None:
    return next((row for row in readings if str(row.pk) == asked), readings[0] if readings else None)


def _line(row: WaitReading) -> str:
    found = comparison_of(row)
    return summary_of(found) if found else ""


def _details(instance: Instance, row: WaitReading | None) -> dict[str, Any]:
    found = comparison_of(row) if row else None
    if found is None:
        return {"row": row, "found": None}
    seconds = found.elapsed_seconds or 0.0
    return {
        "row": row,
        "found": found,
        "named": contention_texts(found),
        "waits": rows_of(found.waits),
        "limits": [(limit, translated(LIMITS[limit])) for limit in found.limits],
        "switch_on": _switch_on(instance) if ReadingLimit.INSTRUMENTS_OFF in found.limits else "",
        "sessions": found.active_seconds / seconds if found.active_seconds is not None and seconds else None,
        "counters": [(name, value, value / seconds if seconds else None) for name, value in found.counters.items()],
    }


def _switch_on(instance: Instance) -> str:
    """Return the statement for an operator, empty if the server’s version is unknown."""
    facts = member_of(instance).facts
    if facts is None or facts.server is None:
        return ""
    flavor = flavor_for(facts.server.version, facts.server.flavor)
    return switch_on_statement(flavor.name, flavor.version)


def _file(name: str, row: WaitReading) -> HttpResponse:
    content = {
        "instance": name,
        "reading": row.pk,
        "status": row.status,
        "seconds": row.seconds,
        "requested_by": row.requested_by,
        "requested_at": row.requested_at.isoformat(timespec="seconds"),
        "result": row.result,
    }
    return json_answer(f"waits-{name}-{row.pk}", content)
