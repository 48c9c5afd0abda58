"""Proofs of backups: how one is driven to its end, and who may ask. The host is played, the rows are real."""

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

STEPS = "begin look 1.0\nend look 1.5\nbegin unpack 1.5\nend unpack 3.5 4000\n"
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
        return FakeJobs(played.host, token=self._proof.host_token, run_id=uid)

    monkeypatch.setattr(restore_test_hosts.Hosts, "_jobs_on", jobs)
    monkeypatch.setattr(expected_contents, "open_database", lambda instance: database)
    monkeypatch.setattr(restore_test_hosts.prober, "probe_now", played.look_now)
    return played.host


@pytest.fixture
def fetched(host: Any, run: BackupRun) -> Host:
    """Return a host of the same cluster, chosen for its proofs."""
    cluster = run.instance.cluster
    chosen = make_host("prover-1")
    make_instance("replica-9", cluster=cluster, host=chosen, facts=run.instance.state.facts())
    Cluster.objects.filter(pk=cluster.pk).update(proof_host="prover-1")
    run.instance.cluster.refresh_from_db()
    return chosen


def play(host: Any, *states: Any, removal: tuple[Any, ...] = (ended(0),)) -> None:
    jobs = FakeJobs(host)
    jobs.play("proof", *states)
    jobs.play("proof-remove|again-.*", *removal)


def good() -> Any:
    return ended(0, tails={"steps": STEPS, "facts": "checked=12\ntables=2\nrows=30\n"})


def begun(run: BackupRun) -> RestoreTest:
    proof = request_restore_test(run, operator())
    assert due_restore_tests.start_what_can() == [proof.pk]
    return proof


def drive(proof: RestoreTest, ticks: int = 1) -> RestoreTest:
    for _ in range(ticks):
        RestoreTest.objects.filter(pk=proof.pk).update(next_tick_at=timezone.now())
        restore_tests.tick(proof.pk)
    proof.refresh_from_db()
    return proof


def end(proof: RestoreTest) -> RestoreTest:
    for _ in range(20):
        if drive(proof).is_over:
            return proof
    raise AssertionError(f"it does not end: {list(proof.run.events.values_list('text', flat=True))}")


def counts(host: Any) -> None:
    host.order[0].logs["counts"] = COUNTS.encode()


def code(proof: RestoreTest) -> str:
    return str(proof.error["code"])


# --- driving ----------------------------------------------------------------------------------------------------------


def test_a_good_backup_is_proven_and_everything_is_removed(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    play(host, running(tails={"steps": STEPS}))
    drive(proof)
    assert (proof.status, [step["name"] for step in proof.steps]) == ("running", ["look", "unpack"])
    counts(host)
    host.order[0].coming.clear()
    host.order[0].become(good())
    end(proof)
    assert (proof.status, proof.tables_checked, proof.rows_counted) == ("succeeded", 12, 30)
    assert proof.result["tables"] == [["shop", "lines", 20], ["shop", "orders", 10]]
    assert (proof.run_slot, proof.host_slot, proof.lease_owner, proof.is_left) == (None, None, "", False)
    assert [job.name for job in host.order] == ["proof", "proof-remove"]
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["proof.requested", "proof.succeeded"]
    [told] = run.events.filter(text__contains="succeeded")
    assert names(told.text, proof.pk)
    assert not Hold.objects.exists()


def test_a_table_of_the_source_that_is_missing_fails_it(host: Any, run: BackupRun) -> None:
    host.tables.expect("information_schema.TABLES", [{"s": "shop", "t": "gone", "older": 1}])
    proof = begun(run)
    play(host, running(), good())
    drive(proof)
    assert (end(proof).status, code(proof)) == ("failed", "proof.tables")
    assert "shop.gone" in proof.error["found"]


def test_a_source_that_does_not_answer_spoils_no_proof(host: Any, run: BackupRun) -> None:
    host.tables.down = Unreachable("mysql.unreachable", "Asking the source")
    proof = begun(run)
    play(host, running(), good())
    assert end(proof).status == "succeeded"
    [told] = run.events.filter(level="warning")
    assert "Asking the source" in told.text


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (vanished(), "proof.vanished"),
        (ended(65, tails={"out": "REFUSED: space 3 MiB are free"}), "proof.space"),
        (ended(65, tails={"out": "REFUSED: it is not the backup of run 1"}), "proof.refused"),
        (ended(70, tails={"out": "FAILED: damaged checksum"}), "proof.damaged"),
    ],
)
def test_whatever_goes_wrong_is_told_and_removed(host: Any, run: BackupRun, state: Any, wanted: str) -> None:
    proof = begun(run)
    play(host, running(), state)
    assert (end(proof).status, code(proof)) == ("failed", wanted)
    assert host.order[-1].name == "proof-remove"
    assert AuditEntry.objects.get(action="proof.failed").detail["code"] == wanted


def test_a_backup_whose_file_was_removed_meanwhile_is_refused(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    BackupRun.objects.update(removed_at=timezone.now())
    assert (end(proof).status, code(proof), host.order) == ("failed", "proof.no_backup", [])


def test_a_second_message_and_a_dead_worker_start_no_second_job(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    play(host, running())
    drive(proof)
    RestoreTest.objects.update(lease_owner="a living worker", lease_until=timezone.now() + timedelta(minutes=1))
    assert restore_tests.tick(proof.pk) is False
    RestoreTest.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    drive(proof, 2)
    assert [job.name for job in host.order] == ["proof"]
    assert AuditEntry.objects.filter(action="proof.taken_over").count() == 1
    host.order[0].become(good())
    assert end(proof).status == "succeeded"
    assert restore_tests.tick(proof.pk) is False
    assert AuditEntry.objects.filter(action="proof.succeeded").count() == 1


def test_a_worker_that_died_in_the_end_is_replaced_there(host: Any, run: BackupRun) -> None:
    """What was proven is written before the removal begins: whoever comes goes on with that."""
    proof = begun(run)
    play(host, good(), removal=(running(), running()))
    drive(proof)
    assert "ending" in proof.memory
    RestoreTest.objects.update(lease_owner="a dead worker", lease_until=timezone.now() - timedelta(seconds=1))
    host.order[-1].become(ended(0))
    assert (end(proof).status, proof.rows_counted) == ("succeeded", 30)


def test_a_silent_host_is_lost_and_its_answer_brings_it_back(host: Any, run: BackupRun, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    proof = begun(run)
    play(host, running())
    drive(proof)
    host.down = Unreachable("ssh.unreachable", "Asking the host")
    assert (drive(proof).status, proof.host_slot) == ("lost", proof.host_id)
    host.down = None
    assert drive(proof).status == "running"


def test_a_lost_proof_is_stopped_without_its_host_and_the_next_one_removes_what_is_left(
    host: Any, run: BackupRun, settings: Any
) -> None:
    settings.LOST_AFTER_SECONDS = -1
    proof = begun(run)
    play(host, running())
    drive(proof)
    host.down = Unreachable("ssh.unreachable", "Asking the host")
    drive(proof)
    stop_restore_test(proof, operator(), "the machine burnt")
    proof.refresh_from_db()
    assert (proof.status, proof.is_left, proof.host_slot) == ("cancelled", True, None)
    host.down = None
    play(host, good())
    following = begun(run)
    end(following)
    proof.refresh_from_db()
    assert not proof.is_left
    assert (proof.uid, f"again-{following.uid}") in host.jobs


def test_what_cannot_be_removed_is_said(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    play(host, good(), removal=(ended(70, tails={"out": "FAILED: not_removed /backups/.dbops-proof-x"}),))
    assert (end(proof).status, proof.is_left) == ("succeeded", True)
    assert run.events.filter(text__contains="proof.not_removed").exists()


def test_stopping_ends_the_job_and_removes(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    play(host, running())
    drive(proof)
    stop_restore_test(proof, operator(), "too much load")
    assert (end(proof).status, host.stopped) == ("cancelled", ["proof"])
    assert host.order[-1].name == "proof-remove"
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["proof.requested", "proof.stop_requested", "proof.cancelled"]
    with pytest.raises(Refused) as refused:
        stop_restore_test(proof, operator(), "again")
    assert refused.value.code == "proof.ended"


def test_an_error_that_nobody_foresaw_is_ours(host: Any, run: BackupRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("oops")

    proof = begun(run)
    monkeypatch.setattr(restore_tests, "advance", broken)
    assert (end(proof).status, code(proof)) == ("failed", "bug")


def test_a_proof_that_hangs_is_ended(host: Any, run: BackupRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(_: Any) -> None:
        raise RemoteFailure("proof.stalled", "Proving the backup")

    proof = begun(run)
    play(host, running())
    drive(proof)
    monkeypatch.setattr(restore_tests, "advance", stalled)
    assert (end(proof).status, host.stopped) == ("failed", ["proof"])


# --- a chosen host, and who may ask ---------------------------------------------------------------------------------------


def test_a_chosen_host_fetches_it_and_closes_the_way(host: Any, run: BackupRun, fetched: Host) -> None:
    proof = begun(run)
    assert (proof.host, proof.source.host.name) == (fetched, run.instance.host.name)
    play(host, good())
    ended_well = end(proof)
    assert (ended_well.status, ended_well.is_left) == ("succeeded", False), ended_well.error
    plan = ended_well.memory["plan"]
    assert plan["transport"][0] == "ssh"
    assert plan["place"] == fetched.work_dir
    asked = [str(act) for act in host.acts]
    opened = next(number for number, script in enumerate(asked) if "restrict,command=" in script)
    closed = next(number for number, script in enumerate(asked) if "Give the source back now" in script)
    assert opened < closed
    assert any(re.search(r"\brm -f key\b", script) for script in asked[opened:])
    assert any(names(event.text, fetched.name, proof.source.host.name) for event in run.events.all())


def test_a_way_that_cannot_be_closed_keeps_no_copy_and_the_next_proof_closes_it(
    host: Any, run: BackupRun, fetched: Host
) -> None:
    proof = begun(run)
    play(host, good())
    full = CommandResult(1, "", "ENOSPC")
    host.answers.add("Give the source back now", full, full, OK)
    assert (end(proof).status, proof.is_left) == ("succeeded", True)
    assert (proof.uid, "proof-remove") in host.jobs, "what was copied is removed all the same"
    assert run.events.filter(text__contains="ENOSPC").exists()
    play(host, good())
    following = begun(run)
    end(following)
    proof.refresh_from_db()
    assert (proof.is_left, following.is_left) == (False, False)


def test_a_holder_that_stays_silent_withholds_no_verdict(
    host: Any, run: BackupRun, fetched: Host, settings: Any
) -> None:
    settings.UNREACHABLE_PATIENCE_SECONDS = -1
    proof = begun(run)
    play(host, good())
    host.answers.add("Give the source back now", Unreachable("ssh.timeout", "Closing the source", found="no answer"))
    assert (end(proof).status, proof.is_left, proof.host_slot) == ("succeeded", True, None)
    told = run.events.filter(level="warning", text__contains=proof.memory["plan"]["path"])
    assert any(names(event.text, proof.memory["plan"]["holder"]) for event in told)


def test_a_holder_that_cannot_be_opened_ends_the_proof_as_nothing_was_begun(
    host: Any, run: BackupRun, fetched: Host, settings: Any
) -> None:
    settings.UNREACHABLE_PATIENCE_SECONDS = -1
    proof = begun(run)
    host.answers.add("restrict,command=", Unreachable("ssh.timeout", "Opening the source", found="no answer"))
    assert (end(proof).status, code(proof)) == ("failed", "ssh.timeout")
    assert (proof.uid, "proof") not in host.jobs


def test_it_waits_for_who_works_on_either_host(played: Played, run: BackupRun, fetched: Host) -> None:
    proof = request_restore_test(run, operator())
    other = make_run(run.schedule, RunStatus.RUNNING)  # type: ignore[arg-type]
    assert due_restore_tests.start_what_can() == [], "it would read beside a backup run"
    proof.refresh_from_db()
    assert names(proof.waiting_for, other.pk, run.instance.name)


def test_a_chosen_host_that_is_never_read_is_refused(host: Any, run: BackupRun, fetched: Host) -> None:
    fetched.instances.all().delete()
    proof = end(begun(run))
    assert (proof.status, code(proof)) == ("failed", "proof.no_host")
    assert not host.jobs


def test_a_chosen_host_that_is_gone_is_told(host: Any, run: BackupRun, fetched: Host) -> None:
    Cluster.objects.update(proof_host="gone-1")
    proof = request_restore_test(BackupRun.objects.get(pk=run.pk), operator())
    assert proof.host == proof.source.host
    [told] = run.events.filter(level="warning")
    assert names(told.text, "gone-1", proof.host.name)


def test_a_second_click_finds_the_first_proof(played: Played, run: BackupRun) -> None:
    proof = request_restore_test(run, operator())
    assert request_restore_test(run, operator()) == proof
    assert AuditEntry.objects.filter(action="proof.requested").count() == 1


@pytest.mark.parametrize(
    "values", [{"removed_at": timezone.now()}, {"path": ""}, {"method": "dump"}, {"origin": "reported"}]
)
def test_what_has_no_file_is_refused(played: Played, schedule: BackupSchedule, values: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        request_restore_test(made(schedule, **values), operator())
    assert refused.value.code == "proof.no_backup"


def test_retention_leaves_what_is_being_proven(host: Any, run: BackupRun) -> None:
    proof = begun(run)
    assert backup_runs.runs_being_read() == {run.pk}
    play(host, running(), good())
    end(proof)
    assert backup_runs.runs_being_read() == set()
