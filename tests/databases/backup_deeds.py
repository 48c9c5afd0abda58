"""What a process of the races does about backups. Plain data in, plain data out, as ``deeds``."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs, starts
from dbops.lifecycle.leases import Update
from dbops.models import BackupRun, BackupSchedule, Hold, Instance, Rebuild
from dbops.operations.backups import run_now
from dbops.worker import due_backups
from tests.app import backup_rows


def forget_backups() -> None:
    Hold.objects.all().delete()
    Rebuild.objects.all().delete()
    BackupRun.objects.all().delete()
    BackupSchedule.objects.all().delete()


def schedules(names: list[str], seconds_ago: float = -3600.0) -> list[int]:
    """Make a schedule of each named instance, due so many seconds ago."""
    due = timezone.now() - timedelta(seconds=seconds_ago)
    return [
        backup_rows.make_schedule(Instance.objects.get(name=name), name, cron="* * * * *", next_due_at=due).pk
        for name in names
    ]


def queue_backups(names: list[str]) -> list[int]:
    return [backup_rows.make_run(BackupSchedule.objects.get(name=name)).pk for name in names]


def start_backup(pk: int) -> str:
    return starts.start(BackupRun.objects.select_related("instance", "schedule").get(pk=pk))


def end_backups(ids: list[int]) -> None:
    for pk in ids:
        lease = backup_runs.take_lease(pk)
        assert lease is not None
        backup_runs.finish(lease, RunStatus.SUCCEEDED, "for the test", Update())


def queue_due(now: str) -> int:
    return len(due_backups.queue_due(datetime.fromisoformat(now)))


def run_backup_now(name: str) -> str:
    try:
        run_now(BackupSchedule.objects.select_related("instance").get(name=name), User.objects.get(username="olga"))
    except Refused as error:
        return error.code
    return "queued"


def look_at_backups() -> dict[str, Any]:
    holds = Hold.objects.select_related("instance")
    return {
        "status": {item.pk: item.status for item in BackupRun.objects.all()},
        "holds": [[item.instance.name, item.rebuild_id, item.backup_run_id] for item in holds],
        "due": [item.due_at.isoformat() if item.due_at else None for item in BackupRun.objects.order_by("due_at")],
    }


DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed
    for deed in (
        *(forget_backups, schedules, queue_backups, start_backup, end_backups, queue_due, run_backup_now),
        look_at_backups,
    )
}
