"""Schedules and runs of backups for tests: defaults hold together, say only what a test is about."""

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from dbops.engine.states import RunBy, RunOrigin, RunStatus
from dbops.models import BackupRun, BackupSchedule, Hold, Instance


def make_schedule(instance: Instance, name: str = "nightly", **values: Any) -> BackupSchedule:
    given: dict[str, Any] = {
        "method": "physical",
        "run_by": RunBy.DBOPS,
        "cron": "0 3 * * *",
        "directory": "/backups",
        "next_due_at": timezone.now() + timedelta(hours=5),
    }
    return BackupSchedule.objects.create(instance=instance, name=name, **(given | values))


def make_run(schedule: BackupSchedule, status: RunStatus = RunStatus.QUEUED, **values: Any) -> BackupRun:
    """Return a managed run; one that is at work holds its instance."""
    now = timezone.now()
    at_work = status in (RunStatus.RUNNING, RunStatus.LOST)
    given: dict[str, Any] = {
        "uid": uuid.uuid4().hex[:16],
        "instance": schedule.instance,
        "origin": RunOrigin.MANAGED,
        "method": schedule.method,
        "queued_at": now - timedelta(minutes=5),
        "started_at": None if status == RunStatus.QUEUED else now - timedelta(minutes=4),
        "next_tick_at": now if at_work else None,
    }
    run = BackupRun.objects.create(schedule=schedule, status=status, **(given | values))
    if at_work:
        Hold.objects.create(instance=run.instance, backup_run=run, purpose="backup", taken_at=now)
    return run
