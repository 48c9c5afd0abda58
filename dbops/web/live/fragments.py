"""Render the changing parts of a rebuild's page. They contain nothing about the user."""

from dataclasses import dataclass, replace
from typing import Any

from django.template.loader import render_to_string

from dbops.engine.rebuilds.follow_ups import REPEATABLE, FollowUpOption
from dbops.engine.states import Status
from dbops.models import Rebuild, RebuildEvent
from dbops.operations.follow_up_options import follow_up_options
from dbops.queries.rebuilds import log as rebuild_log
from dbops.queries.rebuilds import metrics
from dbops.queries.rebuilds import pages as queries
from dbops.queries.rebuilds.outcome import comparison
from dbops.queries.rebuilds.row_comparisons import comparison_of
from dbops.web.charts import rebuild as charts
from dbops.web.templatetags.dbops import clean

__all__ = ["RenderedLine", "Snapshot", "clean", "context", "first_lines", "log_tools", "follow_ups_of", "snapshot"]


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """One rendered line of the log."""

    event: int
    html: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One rendered moment of a rebuild, the same for every user."""

    revision: int
    status: str
    is_final: bool
    parts: dict[str, str]


def context(rebuild: Rebuild) -> dict[str, Any]:
    """Return the context of the page's templates. ``rebuild`` was read with ``queries.find``."""
    log = rebuild_log.end(rebuild.pk)
    rows, count = queries.commands(rebuild.pk)
    page = replace(queries.page(rebuild), last_event=log.last_event)
    points = metrics.history(rebuild.pk)
    return {
        "page": page,
        "points": charts.as_json(points[-metrics.NEWEST :]),
        "charts": charts.charts(points),
        "summary": comparison(page),
        "comparison": comparison_of(rebuild.pk) if rebuild.status == Status.SUCCEEDED else None,
        "rebuild": rebuild,
        "log": log,
        **log_tools(rebuild),
        "commands": rows,
        "command_count": count,
        "follow_ups": follow_ups_of(rebuild),
    }


def follow_ups_of(rebuild: Rebuild) -> dict[str, FollowUpOption]:
    """Return the follow-ups of an unsuccessful rebuild, by names for templates."""
    if rebuild.status not in REPEATABLE:
        return {}
    return {
        name.replace("-", "_"): option
        for name, option in follow_up_options(rebuild).items()
        if name == "again" or rebuild.status != Status.EXPIRED
    }


def snapshot(rebuild_id: int) -> Snapshot | None:
    """Read a rebuild and render its parts; ``None`` if it does not exist."""
    rebuild = queries.find(rebuild_id)
    if rebuild is None:
        return None
    page = queries.page(rebuild)
    rows, count = queries.commands(rebuild_id)
    shared = {
        "page": page,
        "points": charts.as_json(metrics.newest(rebuild_id)),
        "summary": comparison(page),
        "rebuild": rebuild,
        "commands": rows,
        "command_count": count,
        "follow_ups": follow_ups_of(rebuild),
    }
    return Snapshot(
        revision=rebuild.revision,
        # A requested cancellation and an approval change a person's options, like a status.
        status=f"{rebuild.status}{' cancelling' if rebuild.cancel_requested_at else ''} {rebuild.approval}".rstrip(),
        is_final=rebuild.is_final,
        parts={
            "live": render_to_string("rebuilds/_live.html", shared),
            "steps": render_to_string("rebuilds/_steps.html", shared),
            "commands": render_to_string("rebuilds/_commands.html", shared),
        },
    )


def log_tools(rebuild: Rebuild, wanted: rebuild_log.LogFilter = rebuild_log.ALL) -> dict[str, Any]:
    """Return the options and the selection of the form above a log."""
    return {"wanted": wanted, "log_hosts": rebuild_log.hosts_of(rebuild), "ours": rebuild_log.OURS}


def first_lines(rebuild_id: int) -> tuple[list[RenderedLine], bool]:
    """Return the rendered end of the log, and whether older lines were left out."""
    return _rendered(rebuild_log.end(rebuild_id))


def lines_after(rebuild_id: int, event_id: int) -> tuple[list[RenderedLine], bool]:
    """Return the newest of the lines after one event, rendered, and whether some between were left out."""
    return _rendered(rebuild_log.newer_lines(rebuild_id, event_id))


def _rendered(log: rebuild_log.Log) -> tuple[list[RenderedLine], bool]:
    return [render_line(event) for event in log.events], log.has_older


def render_line(event: RebuildEvent) -> RenderedLine:
    return RenderedLine(event.pk, render_to_string("rebuilds/_log_line.html", {"event": event}).strip())
