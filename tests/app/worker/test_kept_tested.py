"""The newest restore-tested backup stays until a newer one of its schedule is. The host is played, the rows are real."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dbops.engine.states import RunStatus
from dbops.models import BackupRun, BackupSchedule
from tests.app.backup_rows import make_run
from tests.app.played_backups import USUAL, Played, begun, drive, end
from tests.app.restore_test_rows import ended_restore_test
from tests.fakes import running
from tests.said import names

pytestmark = pytest.mark.django_db


def older(schedule: BackupSchedule, days: int) -> BackupRun:
    return make_run(
        schedule,
        RunStatus.SUCCEEDED,
        uid=f"old{days}",
        path=f"/backups/backup-1-old{days}.zst",
        started_at=timezone.now() - timedelta(days=days),
    )


def back_up(played: Played, schedule: BackupSchedule) -> BackupRun:
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.finish(USUAL)
    assert end(run).status == "succeeded"
    return run


def keep(schedule: BackupSchedule, *, count: int, days: int | None = None) -> None:
    schedule.keep_count, schedule.keep_days = count, days
    schedule.save(update_fields=["keep_count", "keep_days"])


def removed(*runs: BackupRun) -> list[bool]:
    return [bool(BackupRun.objects.get(pk=run.pk).removed_at) for run in runs]


@pytest.mark.parametrize(("count", "days"), [(1, None), (0, 1)])
def test_retention_keeps_the_last_tested_backup(
    played: Played, schedule: BackupSchedule, count: int, days: int | None
) -> None:
    keep(schedule, count=count, days=days)
    restore_tested, between = older(schedule, 9), older(schedule, 2)
    ended_restore_test(restore_tested, RunStatus.SUCCEEDED)
    run = back_up(played, schedule)
    assert removed(restore_tested, between) == [False, True]
    events = [text for text in run.events.values_list("text", flat=True) if restore_tested.path in text]
    assert len(events) == 1
    assert names(events[0], restore_tested.pk)


def test_retention_removes_a_tested_backup_after_a_newer_test(played: Played, schedule: BackupSchedule) -> None:
    keep(schedule, count=1)
    first, second = older(schedule, 9), older(schedule, 2)
    ended_restore_test(first, RunStatus.SUCCEEDED)
    ended_restore_test(second, RunStatus.SUCCEEDED)
    back_up(played, schedule)
    assert removed(first, second) == [True, False]


def test_retention_ignores_a_success_followed_by_a_failure(played: Played, schedule: BackupSchedule) -> None:
    keep(schedule, count=1)
    good, rotten = older(schedule, 9), older(schedule, 2)
    ended_restore_test(good, RunStatus.SUCCEEDED)
    ended_restore_test(rotten, RunStatus.SUCCEEDED)
    ended_restore_test(rotten, RunStatus.FAILED, error={"code": "restore_test.damaged"})
    back_up(played, schedule)
    assert removed(good, rotten) == [False, True]


@pytest.mark.parametrize("code", ["restore_test.tables", "restore_test.space"])
def test_retention_keeps_nothing_extra_without_a_tested_backup(
    played: Played, schedule: BackupSchedule, code: str
) -> None:
    keep(schedule, count=1)
    old = older(schedule, 2)
    ended_restore_test(old, RunStatus.FAILED, error={"code": code})
    run = back_up(played, schedule)
    assert removed(old) == [True]
    assert run.events.filter(text__contains=old.path).count() == 1, "that it was removed, and not that it stays"
