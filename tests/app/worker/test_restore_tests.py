"""Driving a restore test to its end. The host is a stand-in, the rows are real."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.errors import Refused, RemoteFailure, Unreachable
from dbops.engine.ports import CommandResult
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs
from dbops.models import AuditEntry, BackupRun, BackupSchedule, Cluster, Hold, Host, RestoreTest
from dbops.operations.backups import request_restore_test, stop_restore_test
from dbops.worker import due_restore_tests, expected_contents, restore_test_hosts, restore_tests
from tests.app.backup_rows import make_run
from tests.app.factories import make_host, make_instance
from tests.app.played_backups import Played, operator
from tests.app.restore_test_rows import made
from tests.fakes import OK, FakeDatabase, FakeJobs, ended, running, vanished
from tests.said import names

pytestmark = pytest.mark.django_db

STEPS = "begin check 1.0\nend check 1.5\nbegin unpack 1.5\nend unpack 3.5 4000\n"
COUNTS = "shop\torders\t10\nshop\tlines\t20\n"


@pytest.fixture
def run(schedule: BackupSchedule) -> BackupRun:
    return made(schedule)


@pytest.fixture
def host(played: Played, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the played host; ``host.tables`` are those that the source has."""
    database = FakeDatabase()
    database.expect("information_schema.TABLES", [])
    played.host.tables = database  # type: ignore[attr-defined]

    def jobs(self: restore_test_hosts.Hosts, host: Host, uid: str, key: str) -> FakeJobs:
        return FakeJobs(played.host, token=self._restore_test.host_token, run_id=uid)

    monkeypatch.setattr(restore_test_hosts.Hosts, "_jobs_on", jobs)
    monkeypatch.setattr(expected_contents, "open_database", lambda instance: database)
    monkeypatch.setattr(restore_test_hosts.prober, "probe_now", played.probe_now)
    return played.host


@pytest.fixture
def fetched(host: Any, run: BackupRun) -> Host:
    """Return a host of the same cluster, chosen for its restore tests."""
    cluster = run.instance.cluster
    chosen = make_host("tester-1")
    make_instance("replica-9", cluster=cluster, host=chosen, facts=run.instance.state.facts())
    Cluster.objects.filter(pk=cluster.pk).update(restore_test_host="tester-1")
    run.instance.cluster.refresh_from_db()
    return chosen


def play(host: Any, *states: Any, removal: tuple[Any, ...] = (ended(0),)) -> None:
    jobs = FakeJobs(host)
    jobs.play("restore-test", *states)
    jobs.play("restore-test-remove|again-.*", *removal)


def good() -> Any:
    return ended(0, tails={"steps": STEPS, "facts": "checked=12\ntables=2\nrows=30\n"})


def begun(run: BackupRun) -> RestoreTest:
    restore_test = request_restore_test(run, operator())
    assert due_restore_tests.start_what_can() == [restore_test.pk]
    return restore_test


def drive(restore_test: RestoreTest, ticks: int = 1) -> RestoreTest:
    for _ in range(ticks):
        RestoreTest.objects.filter(pk=restore_test.pk).update(next_tick_at=timezone.now())
        restore_tests.RestoreTestDriver.tick(restore_test.pk)
    restore_test.refresh_from_db()
    return restore_test


def end(restore_test: RestoreTest) -> RestoreTest:
    for _ in range(20):
        if drive(restore_test).is_over:
            return restore_test
    raise AssertionError(f"it does not end: {list(restore_test.run.events.values_list('text', flat=True))}")


def counts(host: Any) -> None:
    host.order[0].logs["counts"] = COUNTS.encode()


def code(restore_test: RestoreTest) -> str:
    return str(restore_test.error["code"])


# --- driving ----------------------------------------------------------------------------------------------------------


def test_good_backup_passes_and_leaves_nothing(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    play(host, running(tails={"steps": STEPS}))
    drive(restore_test)
    assert (restore_test.status, [step["name"] for step in restore_test.steps]) == ("running", ["check", "unpack"])
    counts(host)
    host.order[0].coming.clear()
    host.order[0].become(good())
    end(restore_test)
    assert (restore_test.status, restore_test.tables_checked, restore_test.rows_counted) == ("succeeded", 12, 30)
    assert restore_test.result["tables"] == [["shop", "lines", 20], ["shop", "orders", 10]]
    assert (restore_test.run_slot, restore_test.host_slot, restore_test.lease_owner, restore_test.has_leftovers) == (
        None,
        None,
        "",
        False,
    )
    assert [job.name for job in host.order] == ["restore-test", "restore-test-remove"]
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["restore_test.requested", "restore_test.succeeded"]
    [told] = run.events.filter(text__contains="succeeded")
    assert names(told.text, restore_test.pk)
    assert not Hold.objects.exists()


def test_restore_test_fails_when_a_source_table_is_missing(host: Any, run: BackupRun) -> None:
    host.tables.expect("information_schema.TABLES", [{"s": "shop", "t": "gone", "older": 1}])
    restore_test = begun(run)
    play(host, running(), good())
    drive(restore_test)
    assert (end(restore_test).status, code(restore_test)) == ("failed", "restore_test.tables")
    assert "shop.gone" in restore_test.error["cause"]


def test_restore_test_succeeds_when_the_source_does_not_answer(host: Any, run: BackupRun) -> None:
    host.tables.down = Unreachable("mysql.unreachable", "Asking the source")
    restore_test = begun(run)
    play(host, running(), good())
    assert end(restore_test).status == "succeeded"
    [told] = run.events.filter(level="warning")
    assert "Asking the source" in told.text


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (vanished(), "restore_test.vanished"),
        (ended(65, tails={"out": "REFUSED: space 3 MiB are free"}), "restore_test.space"),
        (ended(65, tails={"out": "REFUSED: it is not the backup of run 1"}), "restore_test.refused"),
        (ended(70, tails={"out": "FAILED: damaged checksum"}), "restore_test.damaged"),
    ],
)
def test_restore_test_failure_is_logged_and_cleaned_up(host: Any, run: BackupRun, state: Any, wanted: str) -> None:
    restore_test = begun(run)
    play(host, running(), state)
    assert (end(restore_test).status, code(restore_test)) == ("failed", wanted)
    assert host.order[-1].name == "restore-test-remove"
    assert AuditEntry.objects.get(action="restore_test.failed").detail["code"] == wanted


def test_restore_test_fails_when_the_file_was_removed(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    BackupRun.objects.update(removed_at=timezone.now())
    assert (end(restore_test).status, code(restore_test), host.order) == ("failed", "restore_test.no_backup", [])


def test_driver_starts_no_second_job_after_a_repeat_or_a_crash(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    play(host, running())
    drive(restore_test)
    RestoreTest.objects.update(lease_owner="a living worker", lease_until=timezone.now() + timedelta(minutes=1))
    assert restore_tests.RestoreTestDriver.tick(restore_test.pk) is None
    RestoreTest.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    drive(restore_test, 2)
    assert [job.name for job in host.order] == ["restore-test"]
    assert AuditEntry.objects.filter(action="restore_test.taken_over").count() == 1
    host.order[0].become(good())
    assert end(restore_test).status == "succeeded"
    assert restore_tests.RestoreTestDriver.tick(restore_test.pk) is None
    assert AuditEntry.objects.filter(action="restore_test.succeeded").count() == 1


def test_restore_test_is_finished_by_another_worker(host: Any, run: BackupRun) -> None:
    """The result is written before the removal begins: the next driver continues from it."""
    restore_test = begun(run)
    play(host, good(), removal=(running(), running()))
    while host.order[-1:] == [] or host.order[-1].name != "restore-test-remove":
        drive(restore_test)
    assert "pending_status" in restore_test.checkpoint
    RestoreTest.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    host.order[-1].become(ended(0))
    assert (end(restore_test).status, restore_test.rows_counted) == ("succeeded", 30)


def test_silent_host_makes_the_test_lost_and_its_answer_restores_it(host: Any, run: BackupRun, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    restore_test = begun(run)
    play(host, running())
    drive(restore_test)
    host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert (drive(restore_test).status, restore_test.host_slot) == ("lost", restore_test.host_id)
    host.down = None
    assert drive(restore_test).status == "running"


def test_lost_test_is_stopped_and_cleaned_up_by_the_next(host: Any, run: BackupRun, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    restore_test = begun(run)
    play(host, running())
    drive(restore_test)
    host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(restore_test)
    stop_restore_test(restore_test, operator(), "the machine burnt")
    restore_test.refresh_from_db()
    assert (restore_test.status, restore_test.has_leftovers, restore_test.host_slot) == ("cancelled", True, None)
    host.down = None
    play(host, good())
    following = begun(run)
    end(following)
    restore_test.refresh_from_db()
    assert not restore_test.has_leftovers
    assert (restore_test.uid, f"again-{following.uid}") in host.jobs


def test_restore_test_logs_data_that_cannot_be_removed(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    play(host, good(), removal=(ended(70, tails={"out": "FAILED: not_removed /backups/.dbops-restore-test-x"}),))
    assert (end(restore_test).status, restore_test.has_leftovers) == ("succeeded", True)
    assert run.events.filter(text__contains="restore_test.not_removed").exists()


def test_stop_ends_the_job_and_removes_data(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    play(host, running())
    drive(restore_test)
    stop_restore_test(restore_test, operator(), "too much load")
    assert (end(restore_test).status, host.stopped) == ("cancelled", ["restore-test"])
    assert host.order[-1].name == "restore-test-remove"
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["restore_test.requested", "restore_test.stop_requested", "restore_test.cancelled"]
    with pytest.raises(Refused) as refused:
        stop_restore_test(restore_test, operator(), "again")
    assert refused.value.code == "restore_test.ended"


def test_unexpected_error_fails_the_restore_test_as_bug(
    host: Any, run: BackupRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("oops")

    restore_test = begun(run)
    monkeypatch.setattr(restore_tests, "advance", broken)
    assert (end(restore_test).status, code(restore_test)) == ("failed", "bug")


def test_stalled_restore_test_is_ended(host: Any, run: BackupRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(_: Any) -> None:
        raise RemoteFailure("restore_test.stalled", "Running the restore test")

    restore_test = begun(run)
    play(host, running())
    drive(restore_test)
    monkeypatch.setattr(restore_tests, "advance", stalled)
    assert (end(restore_test).status, host.stopped) == ("failed", ["restore-test"])


# --- a chosen host, and who may ask ---------------------------------------------------------------------------------------


def test_chosen_host_fetches_the_backup_and_closes_the_connection(host: Any, run: BackupRun, fetched: Host) -> None:
    restore_test = begun(run)
    assert (restore_test.host, restore_test.source.host.name) == (fetched, run.instance.host.name)
    play(host, good())
    ended_well = end(restore_test)
    assert (ended_well.status, ended_well.has_leftovers) == ("succeeded", False), ended_well.error
    plan = ended_well.checkpoint["plan"]
    assert plan["transport"][0] == "ssh"
    assert plan["place"] == fetched.work_dir
    asked = [str(act) for act in host.acts]
    opened = next(number for number, script in enumerate(asked) if "restrict,command=" in script)
    closed = next(number for number, script in enumerate(asked) if "Release the source now" in script)
    assert opened < closed
    assert any(re.search(r"\brm -f key\b", script) for script in asked[opened:])
    assert any(names(event.text, fetched.name, restore_test.source.host.name) for event in run.events.all())


def test_restore_test_closes_an_open_connection_later(host: Any, run: BackupRun, fetched: Host) -> None:
    restore_test = begun(run)
    play(host, good())
    full = CommandResult(1, "", "ENOSPC")
    host.answers.add("Release the source now", full, full, OK)
    assert (end(restore_test).status, restore_test.has_leftovers) == ("succeeded", True)
    assert (restore_test.uid, "restore-test-remove") in host.jobs, "what was copied is removed all the same"
    assert run.events.filter(text__contains="ENOSPC").exists()
    play(host, good())
    following = begun(run)
    end(following)
    restore_test.refresh_from_db()
    assert (restore_test.has_leftovers, following.has_leftovers) == (False, False)


def test_restore_test_ends_when_the_holder_is_silent(host: Any, run: BackupRun, fetched: Host, settings: Any) -> None:
    settings.UNREACHABLE_TIMEOUT_SECONDS = -1
    restore_test = begun(run)
    play(host, good())
    host.answers.add("Release the source now", Unreachable("ssh.timeout", "Closing the source", cause="no answer"))
    assert (end(restore_test).status, restore_test.has_leftovers, restore_test.host_slot) == ("succeeded", True, None)
    told = run.events.filter(level="warning", text__contains=restore_test.checkpoint["plan"]["path"])
    assert any(names(event.text, restore_test.checkpoint["plan"]["holder"]) for event in told)


def test_restore_test_fails_when_the_holder_cannot_be_opened(
    host: Any, run: BackupRun, fetched: Host, settings: Any
) -> None:
    settings.UNREACHABLE_TIMEOUT_SECONDS = -1
    restore_test = begun(run)
    host.answers.add("restrict,command=", Unreachable("ssh.timeout", "Opening the source", cause="no answer"))
    assert (end(restore_test).status, code(restore_test)) == ("failed", "ssh.timeout")
    assert (restore_test.uid, "restore-test") not in host.jobs


def test_restore_test_waits_for_work_on_either_host(played: Played, run: BackupRun, fetched: Host) -> None:
    restore_test = request_restore_test(run, operator())
    other = make_run(run.schedule, RunStatus.RUNNING)  # type: ignore[arg-type]
    assert due_restore_tests.start_what_can() == [], "it would read beside a backup run"
    restore_test.refresh_from_db()
    assert names(restore_test.waiting_for, other.pk, run.instance.name)


def test_restore_test_fails_when_the_chosen_host_has_no_facts(host: Any, run: BackupRun, fetched: Host) -> None:
    fetched.instances.all().delete()
    restore_test = end(begun(run))
    assert (restore_test.status, code(restore_test)) == ("failed", "restore_test.no_host")
    assert not host.jobs


def test_restore_test_logs_a_missing_chosen_host(host: Any, run: BackupRun, fetched: Host) -> None:
    Cluster.objects.update(restore_test_host="gone-1")
    restore_test = request_restore_test(BackupRun.objects.get(pk=run.pk), operator())
    assert restore_test.host == restore_test.source.host
    [told] = run.events.filter(level="warning")
    assert names(told.text, "gone-1", restore_test.host.name)


def test_second_request_returns_the_first_test(played: Played, run: BackupRun) -> None:
    restore_test = request_restore_test(run, operator())
    assert request_restore_test(run, operator()) == restore_test
    assert AuditEntry.objects.filter(action="restore_test.requested").count() == 1


@pytest.mark.parametrize(
    "values", [{"removed_at": timezone.now()}, {"path": ""}, {"method": "dump"}, {"origin": "reported"}]
)
def test_request_restore_test_refuses_a_run_without_file(
    played: Played, schedule: BackupSchedule, values: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as refused:
        request_restore_test(made(schedule, **values), operator())
    assert refused.value.code == "restore_test.no_backup"


def test_retention_keeps_a_backup_under_test(host: Any, run: BackupRun) -> None:
    restore_test = begun(run)
    assert backup_runs.runs_being_read() == {run.pk}
    play(host, running(), good())
    end(restore_test)
    assert backup_runs.runs_being_read() == set()
