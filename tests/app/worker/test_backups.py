"""Driving a backup run to its end. The host is a stand-in, the rows are real."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dbops.engine.errors import Refused, Unreachable
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs
from dbops.models import AuditEntry, BackupRun, BackupSchedule, Hold
from dbops.operations.backups import force_fail_run, run_now, stop_run
from dbops.worker import backups, scheduler
from tests.app import rows
from tests.app.backup_rows import make_run, make_schedule
from tests.app.played_backups import Played, begun, drive, end, operator
from tests.engine.backups import samples
from tests.fakes import running, vanished

pytestmark = pytest.mark.django_db


def test_complete_backup_is_published_and_releases_its_lock(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running(), running())
    drive(run)
    assert run.path.endswith(".partial")
    played.finish()
    end(run)
    assert (run.status, run.bytes_written, run.exit_status) == ("succeeded", 1000, 0)
    assert run.path == f"/backups/{run.evidence['file']}"
    assert run.evidence["sha256"] == samples.SHA
    assert not Hold.objects.exists()
    assert AuditEntry.objects.get(action="backup.succeeded").detail["backup_run"] == run.pk
    assert run.lease_owner == ""


def test_driver_starts_no_second_job_after_a_repeat_or_a_crash(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    BackupRun.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    drive(run, 2)
    assert [job.name for job in played.host.order] == ["backup"]
    assert AuditEntry.objects.filter(action="backup.taken_over").count() == 1
    assert run.events.filter(text__contains=run.path).count() == 1, "its command, once"
    BackupRun.objects.update(lease_owner="a living worker", lease_until=timezone.now() + timedelta(minutes=1))
    assert backups.BackupDriver.tick(run.pk) is None


def test_host_restart_fails_the_run_and_removes_its_partial_file(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running(), vanished())
    end(run)
    assert (run.status, run.error["code"], run.path) == ("failed", "backup.vanished", "")
    assert [path.rpartition(".")[2] for path in played.removed] == ["partial"]
    assert not Hold.objects.exists()


def test_silent_host_makes_the_run_lost_and_its_answer_restores_it(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert drive(run).status == "lost"
    assert Hold.objects.count() == 1
    played.host.down = None
    assert drive(run).status == "running"
    played.finish()
    assert end(run).status == "succeeded"


def test_silent_host_fails_the_run_before_anything_started(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    run = begun(schedule)
    played.probe = Unreachable("probe.incomplete", "Reading backup-1 now")
    assert drive(run).status == "running"
    settings.UNREACHABLE_TIMEOUT_SECONDS = -1
    assert end(run).status == "failed"
    assert (run.error["code"], Hold.objects.count(), played.host.order) == ("probe.incomplete", 0, [])


def test_refusal_of_the_host_fails_the_run_with_its_advice(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    said = "zstd is not installed"
    refused = replace(samples.state(), exit_status=65, stages={}, tails={"out": f"REFUSED: {said}"})
    played.play(running(), refused)
    end(run)
    assert (run.status, run.error["code"], run.error["cause"]) == ("failed", "backup.refused", said)


def test_unexpected_error_fails_the_run_as_bug(
    played: Played, schedule: BackupSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("oops")

    run = begun(schedule)
    monkeypatch.setattr(backups, "advance", broken)
    end(run)
    assert (run.status, run.error["code"], run.error["who"]) == ("failed", "bug", "dbops")


def test_database_error_ends_the_tick_and_not_the_run(
    played: Played, schedule: BackupSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> None:
        raise OperationalError("gone")

    run = begun(schedule)
    monkeypatch.setattr(backups, "advance", away)
    assert drive(run).status == "running"
    assert run.error == {}


def test_stop_of_a_run_removes_its_file(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    stop_run(run, operator(), "for a rebuild")
    end(run)
    assert (run.status, "olga" in run.outcome) == ("cancelled", True)
    assert played.host.stopped == ["backup"]
    assert len(played.removed) == 1
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["backup.started", "backup.stop_requested", "backup.cancelled"]


def test_stop_of_a_run_waits_for_a_silent_host(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    stop_run(run, operator(), "for a rebuild")
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert drive(run, 2).status == "running"
    assert Hold.objects.count() == 1
    played.host.down = None
    assert end(run).status == "cancelled"


def test_stop_of_a_lost_run_does_not_mark_it_found(played: Played, schedule: BackupSchedule, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert drive(run).status == "lost"
    stop_run(run, operator(), "for a rebuild")
    assert drive(run, 2).status == "lost"
    assert not AuditEntry.objects.filter(action="backup.found_again").exists()
    played.host.down = None
    assert end(run).status == "cancelled"
    assert AuditEntry.objects.filter(action="backup.found_again").count() == 1


def test_lost_run_without_a_job_is_stopped_without_its_host(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.probe = Unreachable("probe.incomplete", "Reading backup-1 now")
    assert drive(run).status == "lost"
    stop_run(run, operator(), "for a rebuild")
    assert end(run).status == "cancelled"
    assert not AuditEntry.objects.filter(action="backup.found_again").exists()
    assert (run.unreachable_since, Hold.objects.count()) == (None, 0)


def test_force_failed_run_is_cleaned_up_by_the_next(played: Played, schedule: BackupSchedule, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    with pytest.raises(Refused):
        force_fail_run(run, operator(), "the host is gone")
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(run)
    force_fail_run(run, operator(), "the host is gone")
    run.refresh_from_db()
    assert (run.status, Hold.objects.count()) == ("failed", 0)
    assert drive(run).status == "failed"

    played.host.down = None
    other = begun(schedule)
    drive(other)
    run.refresh_from_db()
    assert played.host.stopped == ["backup"]
    assert run.removed_at is not None
    assert run.path in played.removed
    assert [job.state.status for job in played.host.order] == ["ended", "running"]


def test_passwords_are_never_stored(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    assert "backup-secret" in played.host.order[0].secrets["backup.cnf"]
    run.refresh_from_db()
    assert "secret" not in str([run.checkpoint, list(run.events.values()), list(played.host.order[0].arguments)])


# ---- verbs -----------------------------------------------------------------------------------------------------------


def test_run_backup_now_is_refused_while_one_is_active(played: Played, schedule: BackupSchedule) -> None:
    run = run_now(schedule, operator(), "upgrade")
    assert (run.status, run.requested_by, run.due_at) == ("queued", operator(), None)
    with pytest.raises(Refused) as caught:
        run_now(schedule, operator())
    assert caught.value.code == "backup.active"
    assert AuditEntry.objects.get().reason == "upgrade"


def test_backup_operations_refuse_bad_requests(played: Played, schedule: BackupSchedule) -> None:
    viewer = rows.viewer()
    run = make_run(schedule)
    external = make_schedule(schedule.instance, "theirs", run_by="external")
    observed = make_run(external, RunStatus.RUNNING, origin="observed")
    ended = make_run(schedule, RunStatus.FAILED)
    for act, code in (
        (lambda: run_now(schedule, viewer), "access.denied"),
        (lambda: stop_run(run, viewer, "because"), "access.denied"),
        (lambda: run_now(external, operator()), "backup.external"),
        (lambda: stop_run(observed, operator(), "because"), "backup.not_ours"),
        (lambda: stop_run(run, operator(), " "), "backup.reason"),
        (lambda: stop_run(ended, operator(), "because"), "backup.ended"),
        (lambda: force_fail_run(run, operator(), "because"), "backup.not_lost"),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == code
    assert BackupRun.objects.get(pk=run.pk).status == "queued"


def test_cancel_of_a_queued_run_is_immediate(played: Played, schedule: BackupSchedule) -> None:
    run = make_run(schedule)
    stop_run(run, operator(), "not tonight")
    assert (run.status, run.finished_at is not None) == ("cancelled", True)
    assert scheduler.start_what_can() == []
    assert backup_runs.due(timezone.now()) == []
