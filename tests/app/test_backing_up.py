"""Driving a backup run: how its job, failures, silence and cancels become its end. The host is played, the rows are real."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dbops import backing_up, composition, lifecycle, scheduler, ticking
from dbops.engine.backups import RUN_FINAL, RunStatus
from dbops.engine.errors import Refused, Unreachable
from dbops.models import AuditEntry, BackupRun, BackupSchedule, Hold, InstanceState, TopologyDifference
from dbops.operations.backups import give_up_run, run_now, stop_run
from tests.app import rows
from tests.app.backup_rows import make_run, make_schedule
from tests.engine.backing_up import samples
from tests.fakes import FakeHost, FakeJobs, running, vanished

pytestmark = pytest.mark.django_db


#: Bytes of a backup that nobody takes for that of an empty server.
USUAL = 1_000_000


class Played:
    """One host: every driver that comes talks to the same one."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.removed: list[str] = []
        self.withdrawn: list[tuple[str, int]] = []
        self.probe: Exception | None = None
        self.memory_at_start: list[Any] = []

    def jobs_of(self, run: BackupRun, uid: str, stack: Any) -> FakeJobs:
        jobs = FakeJobs(self.host, token=run.host_token, run_id=uid)
        if not getattr(self, "set", False):
            jobs.expect("# Give a whole backup", "published\n")
            jobs.expect("# Remove files of backups", self.remove)
            jobs.expect("# Remove what a run that failed", self.withdraw)
            self.set = True
        return jobs

    def remove(self, ran: Any) -> str:
        paths = [word for word in ran.arguments if word.startswith("/")]
        self.removed += paths
        return "".join(f"removed {path}\n" for path in paths)

    def withdraw(self, ran: Any) -> str:
        self.withdrawn.append((ran.arguments[-2], BackupRun.objects.filter(status="succeeded").count()))
        return "withdrawn\n"

    def look_now(self, instance: Any) -> Any:
        if self.probe:
            raise self.probe
        return InstanceState.objects.get(instance=instance).facts()

    def play(self, *states: Any) -> None:
        FakeJobs(self.host).play("backup", *states)

    def finish(self, size: int = 1000) -> None:
        """Let the job that runs end well."""
        job = self.host.order[-1]
        job.coming.clear()
        job.become(samples.state())
        facts = f"bytes={size}\nidentity=8:77\nsha256={samples.SHA}"
        job.logs["files"] = samples.files(facts=facts).encode()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Played:
    found = Played()
    monkeypatch.setattr("dbops.tasks._publish", lambda *_: None)
    monkeypatch.setattr("dbops.announce.announce", lambda *_: None)
    monkeypatch.setattr("dbops.announce.announce_many", lambda *_: None)
    monkeypatch.setattr(ticking.Renewal, "run", lambda self: None)
    monkeypatch.setattr(composition, "jobs_of", found.jobs_of)
    monkeypatch.setattr(backing_up, "jobs_of", found.jobs_of)
    monkeypatch.setattr("dbops.probing.look_now", found.look_now)
    settings.TICK_SECONDS = 0.3
    return found


@pytest.fixture
def schedule() -> BackupSchedule:
    fleet = rows.make_fleet()
    rows.operator()
    return make_schedule(fleet["backup-1"])


def begun(schedule: BackupSchedule) -> BackupRun:
    run = make_run(schedule)
    scheduler.start_what_can()
    run.refresh_from_db()
    assert run.status == "running"
    return run


def drive(run: BackupRun, ticks: int = 1) -> BackupRun:
    for _ in range(ticks):
        BackupRun.objects.update(next_tick_at=timezone.now())
        backing_up.tick(run.pk)
    run.refresh_from_db()
    return run


def end(run: BackupRun) -> BackupRun:
    """Drive it until it has ended: a tick is short, and a machine may be slow."""
    for _ in range(20):
        if drive(run).status in RUN_FINAL:
            return run
    raise AssertionError(f"it does not end: {run.status}, {list(run.events.values_list('text', flat=True))}")


def operator() -> Any:
    return rows.User.objects.get(username="olga")


def test_a_run_that_is_whole_is_published_and_its_hold_goes(played: Played, schedule: BackupSchedule) -> None:
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


def test_a_second_message_and_a_dead_worker_start_no_second_job(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    BackupRun.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    drive(run, 2)
    assert [job.name for job in played.host.order] == ["backup"]
    assert run.events.filter(text__startswith="Re-attached after").count() == 1
    assert run.events.filter(text__startswith="Runs on").count() == 1
    BackupRun.objects.update(lease_owner="a living worker", lease_until=timezone.now() + timedelta(minutes=1))
    assert backing_up.tick(run.pk) is False


def test_a_host_that_was_restarted_fails_the_run_and_its_partial_file_goes(
    played: Played, schedule: BackupSchedule
) -> None:
    run = begun(schedule)
    played.play(running(), vanished())
    end(run)
    assert (run.status, run.error["code"], run.path) == ("failed", "backup.vanished", "")
    assert [path.rpartition(".")[2] for path in played.removed] == ["partial"]
    assert not Hold.objects.exists()


def test_a_silent_host_is_lost_keeps_its_hold_and_its_answer_brings_it_back(
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


def test_a_host_that_is_silent_before_anything_was_started_ends_the_run(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    run = begun(schedule)
    played.probe = Unreachable("probe.incomplete", "Reading backup-1 now")
    assert drive(run).status == "running"
    settings.UNREACHABLE_PATIENCE_SECONDS = -1
    assert end(run).status == "failed"
    assert (run.error["code"], Hold.objects.count(), played.host.order) == ("probe.incomplete", 0, [])


def test_a_refusal_of_the_host_fails_the_run_with_its_advice(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    refused = replace(samples.state(), exit_status=65, stages={}, tails={"out": "REFUSED: zstd is not installed"})
    played.play(running(), refused)
    end(run)
    assert (run.status, run.error["code"], run.error["found"]) == ("failed", "backup.refused", "zstd is not installed")


def test_an_error_that_nobody_foresaw_is_ours(
    played: Played, schedule: BackupSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("oops")

    run = begun(schedule)
    monkeypatch.setattr(backing_up, "advance", broken)
    end(run)
    assert (run.status, run.error["code"], run.error["who"]) == ("failed", "bug", "dbops")


def test_a_database_that_goes_away_ends_the_tick_and_never_the_run(
    played: Played, schedule: BackupSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> None:
        raise OperationalError("gone")

    run = begun(schedule)
    monkeypatch.setattr(backing_up, "advance", away)
    assert drive(run).status == "running"
    assert run.error == {}


def test_stopping_a_run_removes_its_file(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    stop_run(run, operator(), "for a rebuild")
    end(run)
    assert (run.status, run.outcome) == ("cancelled", "Stopped by olga. Nothing of it is left on the host.")
    assert played.host.stopped == ["backup"]
    assert len(played.removed) == 1
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["backup.stop_requested", "backup.cancelled"]


def test_a_stop_waits_until_the_work_on_a_silent_host_is_known_to_have_ended(
    played: Played, schedule: BackupSchedule
) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    stop_run(run, operator(), "for a rebuild")
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert drive(run, 2).status == "running"
    assert Hold.objects.count() == 1
    played.host.down = None
    assert end(run).status == "cancelled"


def test_a_stop_of_a_lost_run_does_not_say_that_its_host_answers(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert drive(run).status == "lost"
    stop_run(run, operator(), "for a rebuild")
    assert drive(run, 2).status == "lost"
    assert not run.events.filter(text__startswith="The hosts answer again").exists()
    played.host.down = None
    assert end(run).status == "cancelled"
    assert run.events.filter(text__startswith="The hosts answer again").count() == 1


def test_a_lost_run_that_asked_for_nothing_is_stopped_without_its_host(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.probe = Unreachable("probe.incomplete", "Reading backup-1 now")
    assert drive(run).status == "lost"
    stop_run(run, operator(), "for a rebuild")
    assert end(run).status == "cancelled"
    assert not run.events.filter(text__startswith="The hosts answer again").exists()
    assert (run.unreachable_since, Hold.objects.count()) == (None, 0)


def test_a_lost_run_is_given_up_and_the_next_one_cleans_up_after_it(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    with pytest.raises(Refused):
        give_up_run(run, operator(), "the host is gone")
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(run)
    give_up_run(run, operator(), "the host is gone")
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


def test_what_a_given_up_run_may_have_published_goes_only_after_the_next_success(
    played: Played, schedule: BackupSchedule, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    run = begun(schedule)
    played.play(running())
    drive(run)
    memory = {**run.memory, "publishing": True, "final": {"bytes": 1000, "sha256": samples.SHA}}
    BackupRun.objects.update(memory=memory)
    played.host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(run)
    give_up_run(run, operator(), "the host is gone")
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


def test_that_it_is_published_is_written_before_it_is_done(played: Played, schedule: BackupSchedule) -> None:
    """A driver that dies in it, and a person who then stops the run, would leave a file that no row knows."""
    known: list[dict[str, Any]] = []

    def die(ran: Any) -> str:
        known.append(BackupRun.objects.get(status="running").memory)
        raise lifecycle.LeaseLost

    run = begun(schedule)
    played.play(running(), running())
    drive(run)
    FakeJobs(played.host).expect("# Give a whole backup", die, "published\n")
    played.finish()
    drive(run)
    assert known[0]["final"] == {"bytes": 1000, "sha256": samples.SHA}
    assert known[0]["publishing"] is True
    BackupRun.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    stop_run(run, operator(), "for a rebuild")
    assert end(run).status == "succeeded"


def test_older_backups_go_by_number_after_a_success_and_never_before(played: Played, schedule: BackupSchedule) -> None:
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
    assert run.events.filter(text__contains="the newest 2 are kept").count() == 2


@pytest.mark.parametrize(("size", "is_another"), [(1000, False), (USUAL, True)])
def test_nothing_goes_after_a_backup_that_may_be_of_an_emptied_or_a_wrong_server(
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
    assert run.events.filter(text__startswith="No older backup is removed: ").count() == 1


def test_older_backups_go_only_when_the_new_one_is_recorded(played: Played, schedule: BackupSchedule) -> None:
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

    FakeJobs(played.host).expect("# Remove files of backups", look)
    played.finish(USUAL)
    end(run)
    assert seen == ["succeeded"]
    assert run.events.filter(text__startswith="Removed /backups/backup-1-old1.zst").count() == 1


def test_what_was_not_there_is_not_taken_for_removed(played: Played, schedule: BackupSchedule) -> None:
    """The file system may not be mounted, and the file may come back with it."""
    schedule.keep_count = 1
    schedule.save(update_fields=["keep_count"])
    started = timezone.now() - timedelta(days=1)
    old = make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path="/backups/backup-1-old1.zst", started_at=started)
    run = begun(schedule)
    played.play(running())
    drive(run)
    FakeJobs(played.host).expect("# Remove files of backups", lambda ran: f"absent {ran.arguments[-1]}\n")
    played.finish(USUAL)
    assert end(run).status == "succeeded"
    assert BackupRun.objects.get(pk=old.pk).removed_at is None
    assert run.events.filter(text__startswith=f"{old.path} of backup run {old.pk} was not there").count() == 1


@pytest.mark.parametrize(("path", "mount"), [("/backups/old1.zst", "/backups"), ("/elsewhere/old1.zst", "")])
def test_the_file_system_of_the_last_backup_must_be_there_again(
    played: Played, schedule: BackupSchedule, path: str, mount: str
) -> None:
    started = timezone.now() - timedelta(days=1)
    evidence = {"mount": "/backups"}
    make_run(schedule, RunStatus.SUCCEEDED, uid="old1", path=path, started_at=started, evidence=evidence)
    run = begun(schedule)
    played.play(running())
    drive(run)
    assert run.memory["plan"]["mount"] == mount
    words = list(played.host.order[-1].arguments)
    assert words[12] == mount


def test_no_password_is_kept(played: Played, schedule: BackupSchedule) -> None:
    run = begun(schedule)
    played.play(running())
    drive(run)
    assert "backup-secret" in played.host.order[0].secrets["backup.cnf"]
    run.refresh_from_db()
    assert "secret" not in str([run.memory, list(run.events.values()), list(played.host.order[0].arguments)])


# ---- verbs -----------------------------------------------------------------------------------------------------------


def test_a_run_is_asked_for_once(played: Played, schedule: BackupSchedule) -> None:
    run = run_now(schedule, operator(), "before the upgrade")
    assert (run.status, run.requested_by, run.due_at) == ("queued", operator(), None)
    with pytest.raises(Refused) as caught:
        run_now(schedule, operator())
    assert caught.value.code == "backup.active"
    assert AuditEntry.objects.get().detail["reason"] == "before the upgrade"


def test_verbs_refuse_what_they_must(played: Played, schedule: BackupSchedule) -> None:
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
        (lambda: give_up_run(run, operator(), "because"), "backup.not_lost"),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == code
    assert BackupRun.objects.get(pk=run.pk).status == "queued"


def test_a_queued_run_is_cancelled_at_once(played: Played, schedule: BackupSchedule) -> None:
    run = make_run(schedule)
    stop_run(run, operator(), "not tonight")
    assert (run.status, run.finished_at is not None) == ("cancelled", True)
    assert scheduler.start_what_can() == []
    assert lifecycle.due_runs(timezone.now()) == []
