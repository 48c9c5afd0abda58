"""Read the samples of a rebuild for its charts and summary."""

from typing import Any

from dbops.engine.rebuilds.metrics import SHOWN, Figures, MetricPoint, points, thinned
from dbops.engine.rebuilds.metrics import StepSample as Taken
from dbops.models import RebuildSample

#: Maximum number of samples, the newest; a rebuild can take many days.
MOST_READ = 20_000
#: Points with each fragment: a page that missed a few seconds needs no more.
NEWEST = 8

COLUMNS = ("number", "at", "step", "bytes", "disk_read_bytes", "disk_written_bytes", "source_lag_seconds")


def history(rebuild_id: int) -> list[MetricPoint]:
    """Return a rebuild's points, oldest first, thinned if there are many. One query."""
    return points(thinned(_read(rebuild_id, MOST_READ)))


def after(rebuild_id: int, number: int) -> list[MetricPoint]:
    """Return the points after the one with that number, oldest first. One query."""
    rows = _read(rebuild_id, MOST_READ, number__gte=number)
    # That point is read too: the next rate needs it.
    return [point for point in points(thinned(rows, SHOWN)) if point.number > number]


def newest(rebuild_id: int) -> list[MetricPoint]:
    """Return the newest points, oldest first. One query."""
    found = points(_read(rebuild_id, NEWEST + 1))
    return found[1:] if len(found) > NEWEST else found


def _read(rebuild_id: int, most: int, **only: Any) -> list[Taken]:
    rows = RebuildSample.objects.filter(rebuild=rebuild_id, **only).order_by("-number").values_list(*COLUMNS)[:most]
    return [_taken(*row) for row in reversed(rows)]


def _taken(number: int, at: Any, step: str, *figures: Any) -> Taken:
    return Taken(number, at.timestamp(), step, Figures(*figures))
