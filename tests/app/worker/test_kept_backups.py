"""What becomes of the files of older, failed and given-up backups. The host is played, the rows are real."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.errors import Unreachable
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs
from dbops.lifecycle.leases import LeaseLost
from dbops.models import BackupRun, BackupSchedule, TopologyDifference
from dbops.operations.backups import force_fail_run, stop_run
from tests.app.backup_rows import make_run
from tests.app.played_backups import USUAL, Played, begun, drive, end, operator
from tests.engine.backups import samples
from tests.fakes import FakeJobs, running
from tests.said import names

pytestmark = pytest.mark.django_db


def test_file_of_a_force_failed_run_is_removed_after_the_next_success(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    checkpoint = {**run.checkpoint, "publishing": True, "final": {"bytes": 1000, "sha256": samples.SHA}}
    BackupRun.objects.update(checkpoint=checkpoint)
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(run)
    force_fail_run(run, operator(), "the host is gone")
    played.host.down = None

    other = begun(schedule)
    drive(other)
    assert played.removed == [run.path]
    assert played.withdrawn == []
    assert BackupRun.objects.get(pk=run.pk).removed_at is None
    played.finish(USUAL)
    assert end(other).status == "succeeded"
    assert [uid for uid, _ in played.withdrawn] == [run.uid]
    assert BackupRun.objects.get(pk=run.pk).removed_at is not None


def test_publication_is_saved_before_it_is_made(played: Played, schedule: BackupSchedule) -> None:
    """A driver that dies in it, and a person who then stops the run, would leave a file that no row knows."""
    known: list[dict[str, Any]] = []

    def die(ran: Any) -> str:
        known.append(BackupRun.objects.get(status="running").checkpoint)
        raise LeaseLost

    run = begun(schedule)
    played.play(running(), running())
    drive(run)
    FakeJobs(played.host).expect("# Rename a complete backup", die, "published\n")
    played.finish()
    drive(run)
    assert known[0]["final"] == {"bytes": 1000, "sha256": samples.SHA}
    assert known[0]["publishing"] is True
    BackupRun.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    stop_run(run, operator(), "for a rebuild")
    assert end(run).status == "succeeded"


def test_retention_runs_by_count_after_a_success_only(played: Played, schedule: BackupSchedule) -> None:
    schedule.keep_count = 2
    schedule.save(update_fields=["keep_count"])
    now = timezone.now()
    old = [
        make_run(
            schedule,
            RunStatus.SUCCEEDED,
            uid=f"old{age}",
            path=f"/backups/backup-1-old{age}.zst",
            started_at=now - timedelta(days=age),
        )
        for age in (1, 2, 3)
    ]
    run = begun(schedule)
    played.play(running())
    drive(run)
    assert played.removed == []
    played.finish(USUAL)
    end(run)
    assert played.removed == ["/backups/backup-1-old3.zst", "/backups/backup-1-old2.zst"]
    assert [bool(BackupRun.objects.get(pk=item.pk).removed_at) for item in old] == [False, True, True]
    for item in old[1:]:
        [found] = run.events.filter(text__contains=item.path)
        assert names(found.text, item.path, item.pk, schedule.keep_count)


@pytest.mark.parametrize(("size", "is_another"), [(1000, False), (USUAL, True)])
def test_retention_is_skipped_after_a_suspicious_backup(
    played: Played, schedule: BackupSchedule, size: int, is_another: bool
) -> None:
    schedule.keep_count = 1
    schedule.save(update_fields=["keep_count"])
    started = timezone.now() - timedelta(days=1)
    old = make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path="/backups/backup-1-old1.zst", started_at=started)
    difference = {"code": "identity", "subject": schedule.instance.name, "detail": "", "matters": True}
    if is_another:
        TopologyDifference.objects.create(
            cluster=schedule.instance.cluster, first_seen_at=started, last_seen_at=started, **difference
        )
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.finish(size)
    assert end(run).status == "succeeded"
    assert (played.removed, BackupRun.objects.get(pk=old.pk).removed_at) == ([], None)
    assert run.events.filter(level="warning").exclude(text__contains=old.path).count() == 1


def test_retention_runs_only_when_the_new_backup_is_recorded(played: Played, schedule: BackupSchedule) -> None:
    schedule.keep_count = 1
    schedule.save(update_fields=["keep_count"])
    started = timezone.now() - timedelta(days=1)
    make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path="/backups/backup-1-old1.zst", started_at=started)
    run = begun(schedule)
    played.play(running())
    drive(run)
    seen: list[str] = []

    def look(ran: Any) -> str:
        seen.append(BackupRun.objects.get(pk=run.pk).status)
        return played.remove(ran)

    FakeJobs(played.host).expect("# Remove backup files", look)
    played.finish(USUAL)
    end(run)
    assert seen == ["succeeded"]
    assert run.events.filter(level="info", text__contains="/backups/backup-1-old1.zst").count() == 1


def test_missing_file_is_not_marked_as_removed(played: Played, schedule: BackupSchedule) -> None:
    """The file system may not be mounted, and the file may come back with it."""
    schedule.keep_count = 1
    schedule.save(update_fields=["keep_count"])
    started = timezone.now() - timedelta(days=1)
    old = make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path="/backups/backup-1-old1.zst", started_at=started)
    run = begun(schedule)
    played.play(running())
    drive(run)
    FakeJobs(played.host).expect("# Remove backup files", lambda ran: f"absent {ran.arguments[-1]}\n")
    played.finish(USUAL)
    assert end(run).status == "succeeded"
    assert BackupRun.objects.get(pk=old.pk).removed_at is None
    assert run.events.filter(level="warning", text__contains=old.path).count() == 1


@pytest.mark.parametrize(("path", "mount"), [("/backups/old1.zst", "/backups"), ("/elsewhere/old1.zst", "")])
def test_retention_needs_the_file_system_of_the_last_backup(
    played: Played, schedule: BackupSchedule, path: str, mount: str
) -> None:
    started = timezone.now() - timedelta(days=1)
    evidence = {"mount": "/backups"}
    make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path=path, started_at=started, evidence=evidence)
    run = begun(schedule)
    played.play(running())
    drive(run)
    assert run.checkpoint["plan"]["mount"] == mount
    words = list(played.host.order[-1].arguments)
    assert words[12] == mount


def test_retention_keeps_a_backup_that_a_rebuild_reads(
    played: Played, schedule: BackupSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.keep_count = 1
    schedule.save(update_fields=["keep_count"])
    now = timezone.now()
    old = [
        make_run(
            schedule,
            RunStatus.SUCCEEDED,
            uid=f"old{age}",
            path=f"/backups/backup-1-old{age}.zst",
            started_at=now - timedelta(days=age),
        )
        for age in (1, 2)
    ]
    monkeypatch.setattr(backup_runs, "runs_being_read", lambda: {old[0].pk})
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.finish(USUAL)
    end(run)
    assert played.removed == ["/backups/backup-1-old2.zst"]
    assert [names(event.text, old[0].pk) for event in run.events.filter(text__contains=old[0].path)] == [True]
