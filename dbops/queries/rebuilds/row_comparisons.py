"""Read the comparisons of all rows that continue after rebuilds."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dbops.engine.audit.chain import moment
from dbops.engine.phrases import phrase
from dbops.models import RowComparison


@dataclass(frozen=True, slots=True)
class Differing:
    """A replica whose rows differ since its rebuild: tables and ranges are on the rebuild's page."""

    rebuild: int
    count: int

    @property
    def text(self) -> str:
        return phrase("rows differ, as found after rebuild {rebuild}", rebuild=self.rebuild)


def comparison_of(rebuild_id: int) -> RowComparison | None:
    """Return the comparison of a rebuild, ``None`` if it left nothing to compare. One query."""
    return RowComparison.objects.select_related("target").filter(rebuild=rebuild_id).first()


def differing(clusters: Collection[int] | None = None) -> dict[int, Differing]:
    """Return the replicas whose current data differs, by the instance's primary key: of all clusters, or of some. One query."""
    rows = RowComparison.objects.filter(is_current=True, differing__gt=0).order_by("pk")
    if clusters is not None:
        rows = rows.filter(target__cluster__in=clusters)
    found = rows.values_list("target_id", "rebuild_id", "differing")
    return {target: Differing(rebuild, count) for target, rebuild, count in found}


def as_record(comparison: RowComparison | None) -> dict[str, Any] | None:
    """Return a comparison as plain data, for evidence and the command line."""
    if comparison is None:
        return None
    return {
        "status": comparison.status,
        "queued_at": _at(comparison.queued_at),
        "started_at": _at(comparison.started_at),
        "finished_at": _at(comparison.finished_at),
        "waiting_for": comparison.waiting_for,
        "cancel_requested_by": comparison.cancel_requested_by,
        "error": comparison.error,
        **comparison.record,
    }


def _at(value: datetime | None) -> str:
    return moment(value) if value else ""
