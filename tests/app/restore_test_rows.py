"""Rows of backups that can be restore-tested, and of restore tests that have ended."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from dbops.engine.states import RunStatus
from dbops.models import BackupRun, BackupSchedule, RestoreTest
from tests.app.backup_rows import make_run


def made(schedule: BackupSchedule, **values: Any) -> BackupRun:
    """Return a finished physical backup."""
    now = timezone.now()
    evidence = {"run": "abc", "bytes": 1000, "sha256": "ab" * 32, "server": "mariadb 10.11.19"}
    given = {
        "path": "/backups/x.xbstream.zst",
        "evidence": evidence,
        "checkpoint": {"plan": {"data_bytes": 5000}},
        "started_at": now - timedelta(hours=1),
        "finished_at": now,
    }
    return make_run(schedule, RunStatus.SUCCEEDED, **(given | values))


def ended_restore_test(run: BackupRun, status: RunStatus, **values: Any) -> RestoreTest:
    now = timezone.now()
    given: dict[str, Any] = {
        "uid": f"{RestoreTest.objects.count():016x}",
        "source": run.instance,
        "host": run.instance.host,
        "requested_at": now,
        "started_at": now,
        "finished_at": now,
    }
    return RestoreTest.objects.create(run=run, status=status, **(given | values))
