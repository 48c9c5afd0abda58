"""Read one backup run for its page."""

from dataclasses import dataclass
from typing import Any

from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_FINAL, RunOrigin, RunStatus
from dbops.models import BackupEvent, BackupRun
from dbops.queries.rebuilds.overlaps import Overlap, overlapping_rebuild

LINES_SHOWN = 300


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run with the end of its history. Unknown numbers are ``None``."""

    run: BackupRun
    events: tuple[BackupEvent, ...]
    is_cut: bool
    overlap: Overlap | None = None

    @property
    def is_final(self) -> bool:
        return self.run.status in RUN_FINAL

    @property
    def is_managed(self) -> bool:
        return self.run.origin == RunOrigin.MANAGED

    @property
    def may_stop(self) -> bool:
        return self.is_managed and not self.is_final and self.run.cancel_requested_at is None

    @property
    def may_mark_ended(self) -> bool:
        return not self.is_managed and not self.is_final

    @property
    def is_lost(self) -> bool:
        return self.run.status == RunStatus.LOST

    @property
    def plan(self) -> dict[str, Any]:
        """Return the plan of the run; empty before dbops has planned it."""
        plan: dict[str, Any] = self.run.checkpoint.get("plan") or {}
        return plan

    @property
    def percent(self) -> float | None:
        percent: float | None = self.run.progress.get("percent")
        return percent

    @property
    def title(self) -> str:
        """Return the page title, with percent or state first so that it is visible in a narrow tab."""
        percent = self.percent
        known = self.run.status == RunStatus.RUNNING and percent is not None
        return phrase(
            "{percent} – {instance} – backup run {run}",
            percent=f"{percent:.0f} %" if known else self.run.status,
            instance=self.run.instance.name,
            run=self.run.pk,
        )


def find_run(run_id: int) -> BackupRun | None:
    """Return one run with its people and machines, or ``None``. One query."""
    rows = BackupRun.objects.select_related("instance__cluster", "instance__host", "schedule", "requested_by")
    return rows.filter(pk=run_id).first()


def run_revision(run_id: int) -> int | None:
    """Return the revision alone, for polls. One query."""
    return BackupRun.objects.filter(pk=run_id).values_list("revision", flat=True).first()


def run_page(run: BackupRun) -> RunPage:
    """Return the page of a run from ``find_run``. One query, one more for a running external backup."""
    newest = list(run.events.order_by("-pk")[: LINES_SHOWN + 1])
    return RunPage(run, tuple(reversed(newest[:LINES_SHOWN])), len(newest) > LINES_SHOWN, overlapping_rebuild(run))
