"""Read external backups that overlap a rebuild, and the rebuild that overlaps an external backup."""

from dataclasses import dataclass

from dbops.engine.methods import method_named
from dbops.engine.schedule.conflicts import meaning_alongside
from dbops.engine.states import FINAL, RUN_AT_WORK, RUN_FINAL, BackupMethod, RunOrigin
from dbops.models import BackupRun, Hold, Rebuild


@dataclass(frozen=True, slots=True)
class Overlap:
    """One overlapping job on ``instance``, and its effect."""

    instance: str
    meaning: str
    run: BackupRun | None = None
    rebuild: int | None = None
    purpose: str = ""


def overlapping_backups(rebuild: Rebuild, holds: tuple[Hold, ...]) -> tuple[Overlap, ...]:
    """Return the external backups that run on a rebuild's instances. One query while it runs, else none."""
    if rebuild.status in FINAL or not holds:
        return ()
    purposes = {hold.instance_id: hold.purpose for hold in holds}
    rows = BackupRun.objects.filter(instance__in=purposes, status__in=RUN_AT_WORK).exclude(origin=RunOrigin.MANAGED)
    return tuple(
        Overlap(run.instance.name, _meaning(rebuild.method, purposes[run.instance_id], run), run=run)
        for run in rows.select_related("instance").order_by("pk")
    )


def overlapping_rebuild(run: BackupRun) -> Overlap | None:
    """Return the rebuild that uses the instance of an external backup. One query while the backup runs, else none."""
    if run.origin == RunOrigin.MANAGED or run.status in RUN_FINAL:
        return None
    hold = Hold.objects.select_related("rebuild").filter(instance=run.instance_id, rebuild__isnull=False).first()
    if hold is None or hold.rebuild is None:
        return None
    meaning = _meaning(hold.rebuild.method, hold.purpose, run)
    return Overlap(run.instance.name, meaning, rebuild=hold.rebuild.pk, purpose=hold.purpose)


def _meaning(method: str, purpose: str, run: BackupRun) -> str:
    return meaning_alongside(
        method_named(method), is_target=purpose == "target", is_dump=run.method == BackupMethod.DUMP
    )
