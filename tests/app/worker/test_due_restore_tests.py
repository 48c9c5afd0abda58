"""Which backups get a queued restore test, and which restore test may begin."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.states import RunStatus
from dbops.lifecycle import restore_tests
from dbops.models import BackupRun, BackupSchedule, Hold, RestoreTest
from dbops.operations.backups import request_restore_test
from dbops.worker import due_restore_tests
from tests.app.backup_rows import make_run, make_schedule
from tests.app.played_backups import Played, operator
from tests.app.restore_test_rows import ended_restore_test, made
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(schedule: BackupSchedule) -> BackupRun:
    return made(schedule)


def test_queue_due_queues_the_newest_backup_once(played: Played, schedule: BackupSchedule) -> None:
    made(schedule, started_at=timezone.now() - timedelta(days=1))
    newest = made(schedule)
    dump = make_schedule(schedule.instance, "statements", method="dump")
    made(dump, started_at=timezone.now())
    [restore_test] = due_restore_tests.queue_due(timezone.now())
    assert RestoreTest.objects.get(pk=restore_test).run == newest
    assert due_restore_tests.queue_due(timezone.now()) == []


@pytest.mark.parametrize(
    ("code", "minutes", "again"),
    [("restore_test.transport", 61, True), ("restore_test.transport", 59, False), ("restore_test.damaged", 61, False)],
)
def test_queue_due_repeats_an_inconclusive_test(
    played: Played, run: BackupRun, code: str, minutes: int, again: bool
) -> None:
    then = timezone.now() - timedelta(minutes=minutes)
    ended_restore_test(run, RunStatus.FAILED, finished_at=then, error={"code": code})
    assert bool(due_restore_tests.queue_due(timezone.now())) is again


def test_queue_due_is_off_when_the_interval_is_zero(played: Played, run: BackupRun, settings: Any) -> None:
    settings.RESTORE_TEST_INTERVAL_SECONDS = 0
    assert due_restore_tests.queue_due(timezone.now()) == []


def test_start_runs_one_test_on_a_host(played: Played, schedule: BackupSchedule) -> None:
    first, second = (request_restore_test(made(schedule), operator()) for _ in range(2))
    assert due_restore_tests.start_what_can() == [first.pk]
    assert due_restore_tests.start_what_can() == []
    second.refresh_from_db()
    assert names(second.waiting_for, first.pk, first.host.name)
    assert not restore_tests.start(second)  # a second worker: the database refuses
    second.refresh_from_db()
    assert second.status == "queued"


def test_start_waits_for_work_on_the_host(played: Played, run: BackupRun) -> None:
    restore_test = request_restore_test(run, operator())
    other = make_run(run.schedule, RunStatus.RUNNING)  # type: ignore[arg-type]
    assert due_restore_tests.start_what_can() == []
    restore_test.refresh_from_db()
    assert names(restore_test.waiting_for, other.pk, run.instance.name)
    Hold.objects.all().delete()
    assert due_restore_tests.start_what_can() == [restore_test.pk]
