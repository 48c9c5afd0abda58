"""What is due becomes one queued run, what was missed becomes a row that says why, and a second look finds nothing due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dbops.engine.states import RunStatus
from dbops.models import AuditEntry, BackupRun, BackupSchedule, Instance
from dbops.worker import due_backups
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_trio

pytestmark = pytest.mark.django_db

DUE = datetime(2026, 3, 10, 3, 0, tzinfo=UTC)


@pytest.fixture
def backup() -> Instance:
    return make_trio()[1]


def runs() -> list[tuple[str, datetime | None]]:
    return list(BackupRun.objects.order_by("due_at").values_list("status", "due_at"))


def test_queue_due_queues_once_and_sets_the_next_time(backup: Instance) -> None:
    schedule = make_schedule(backup, next_due_at=DUE)
    assert due_backups.queue_due(DUE - timedelta(seconds=1)) == []
    (pk,) = due_backups.queue_due(DUE)
    assert due_backups.queue_due(DUE + timedelta(seconds=2)) == []
    run = BackupRun.objects.get()
    assert (run.pk, run.status, run.due_at, run.origin, run.method) == (pk, "queued", DUE, "managed", "physical")
    schedule.refresh_from_db()
    assert schedule.next_due_at == DUE + timedelta(days=1)


def test_queue_due_writes_nothing_for_a_stale_schedule(backup: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = make_schedule(backup, next_due_at=DUE)
    stale = BackupSchedule.objects.get(pk=schedule.pk)
    due_backups.queue_due(DUE)
    monkeypatch.setattr("dbops.lifecycle.backup_runs.lock_schedule", lambda pk: stale)
    assert due_backups._queue_one(schedule.pk, DUE) is None
    assert len(runs()) == 1


def test_queue_due_catches_up_one_run_and_marks_others_missed(backup: Instance) -> None:
    make_schedule(backup, next_due_at=DUE)
    assert len(due_backups.queue_due(DUE + timedelta(days=4, hours=2))) == 1
    assert runs() == [("missed", DUE + timedelta(days=day)) for day in range(4)] + [("queued", DUE + timedelta(days=4))]
    missed = BackupRun.objects.filter(status="missed").first()
    assert missed is not None
    assert missed.outcome
    assert missed.events.count() == 1


def test_queue_due_writes_audit_entries_last(backup: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missed run, and the one that still waited; nothing is written after the first entry but entries."""
    schedule = make_schedule(backup, next_due_at=DUE)
    waiting = make_run(schedule, due_at=DUE - timedelta(days=1))
    with CaptureQueriesContext(connection) as asked:
        due_backups.queue_due(DUE + timedelta(days=2))
    entries = list(AuditEntry.objects.order_by("sequence"))
    missed = list(BackupRun.objects.filter(status="missed").exclude(pk=waiting.pk).order_by("due_at"))
    assert [entry.detail["backup_run"] for entry in entries] == [waiting.pk, *(run.pk for run in missed)]
    assert {(entry.action, entry.actor, entry.subject, entry.outcome) for entry in entries} == {
        ("backup.missed", "dbops", "backup-1", "missed")
    }
    assert entries[1].detail["due_at"] == "2026-03-10T03:00+00:00"
    assert entries[1].detail["outcome"] == missed[0].outcome != ""
    written = [one["sql"] for one in asked if one["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
    first = next(number for number, sql in enumerate(written) if "dbops_audit" in sql)
    assert [sql for sql in written[first:] if "dbops_audit" not in sql] == []


def test_queue_due_is_bounded_after_a_year_of_downtime(backup: Instance) -> None:
    make_schedule(backup, next_due_at=DUE, cron="*/5 * * * *")
    due_backups.queue_due(DUE + timedelta(days=30))
    assert BackupRun.objects.count() == due_backups.MISSED_ROWS + 1
    dues = 30 * 24 * 12 + 1
    without_row = str(dues - 1 - due_backups.MISSED_ROWS)
    assert without_row in BackupRun.objects.filter(status="missed")[0].outcome


def test_queue_due_replaces_a_waiting_run_in_its_position(backup: Instance) -> None:
    schedule = make_schedule(backup, next_due_at=DUE)
    waiting = make_run(schedule, due_at=DUE - timedelta(days=1), waiting_for="rebuild 7")
    (pk,) = due_backups.queue_due(DUE)
    waiting.refresh_from_db()
    assert waiting.status == "missed"
    assert "rebuild 7" in waiting.outcome
    newer = BackupRun.objects.get(pk=pk)
    assert (newer.status, newer.due_at, newer.queued_at) == ("queued", DUE, waiting.queued_at)


def test_queue_due_keeps_a_running_run_and_queues_the_next(backup: Instance) -> None:
    schedule = make_schedule(backup, next_due_at=DUE)
    running = make_run(schedule, RunStatus.RUNNING, due_at=DUE - timedelta(days=1))
    assert len(due_backups.queue_due(DUE)) == 1
    running.refresh_from_db()
    assert running.status == "running"


def test_queue_due_sets_the_first_due_time_only(backup: Instance) -> None:
    schedule = make_schedule(backup, next_due_at=None)
    assert due_backups.queue_due(DUE + timedelta(hours=1)) == []
    schedule.refresh_from_db()
    assert schedule.next_due_at == DUE + timedelta(days=1)


@pytest.mark.parametrize("values", [{"is_enabled": False}, {"run_by": "external"}])
def test_queue_due_ignores_disabled_and_external_schedules(backup: Instance, values: dict[str, Any]) -> None:
    make_schedule(backup, next_due_at=DUE, **values)
    assert due_backups.queue_due(DUE + timedelta(days=3)) == []
    assert runs() == []


def test_queue_due_skips_an_unreadable_expression(backup: Instance) -> None:
    make_schedule(backup, "bad", next_due_at=DUE, cron="every night")
    make_schedule(backup, "good", next_due_at=DUE)
    assert len(due_backups.queue_due(DUE)) == 2  # what was due is run; nothing more is due of the bad one
    assert BackupSchedule.objects.get(name="bad").next_due_at is None
