"""Set the flags of a backup run from its figures and those of earlier runs."""

from datetime import datetime
from typing import Any

from django.db.models import F

from dbops.database import clock
from dbops.engine.backups.flags import HISTORY_RUNS, RunFigures, flags_of
from dbops.engine.states import RUN_AT_WORK, RunStatus
from dbops.models import BackupRun


def flag(run: BackupRun, *, now: datetime | None = None) -> list[str]:
    """Compute and write a run's flags at its start, while it runs, and at its end. Return them.

    Earlier runs are those of its schedule, or without a schedule those of its instance and method.
    """
    now = now or clock.now()
    schedule = run.schedule
    same: dict[str, Any] = {"schedule": schedule} if schedule else {"instance": run.instance_id, "method": run.method}
    before = BackupRun.objects.filter(**same, status__in=(RunStatus.SUCCEEDED, RunStatus.ENDED)).exclude(pk=run.pk)
    if run.started_at:
        before = before.filter(started_at__lt=run.started_at)
    flags = flags_of(
        figures(run, now),
        [figures(item, now) for item in before.order_by("-started_at")[:HISTORY_RUNS]],
        now=now,
        late_after_seconds=schedule.late_after_seconds if schedule else 0,
        expected_seconds=schedule.expected_seconds if schedule else None,
    )
    if flags != run.flags:
        BackupRun.objects.filter(pk=run.pk).update(flags=flags, revision=F("revision") + 1)
        run.flags = flags
    return flags


def figures(run: BackupRun, now: datetime) -> RunFigures:
    """Return the compared figures of a run. Before its end the duration is the time so far."""
    end = run.finished_at or now
    return RunFigures(
        due_at=run.due_at,
        started_at=run.started_at,
        seconds=(end - run.started_at).total_seconds() if run.started_at else None,
        bytes=run.bytes_written,
        is_succeeded=run.status == RunStatus.SUCCEEDED,
    )


def flag_running(now: datetime | None = None) -> None:
    """Update the flags of running runs: a run becomes too long while it runs."""
    for run in BackupRun.objects.filter(status__in=RUN_AT_WORK).select_related("schedule"):
        flag(run, now=now)
