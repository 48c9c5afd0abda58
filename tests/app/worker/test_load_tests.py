"""Driving a load test to its end. The host is a stand-in, the rows are real."""

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.errors import Unreachable
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.states import RunStatus
from dbops.fleetfile import stored
from dbops.lifecycle import load_tests as rows
from dbops.lifecycle import restore_tests
from dbops.lifecycle.leases import LeaseLost
from dbops.models import AuditEntry, Cluster, Host, Instance, LoadTest
from dbops.operations.load_tests import cancel_load_test
from dbops.worker import due_load_tests, due_restore_tests, load_test_hosts, load_test_leftovers, load_tests
from tests.app.backup_rows import make_schedule
from tests.app.factories import make_operator
from tests.app.load_test_rows import TOOLS, make_load_test, make_place, make_request, make_source
from tests.app.played_backups import Played
from tests.app.restore_test_rows import made
from tests.engine.load_tests.results import result
from tests.fakes import FakeHost, FakeJobs, ended, running, vanished

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]

STEPS = "begin check 1.0\nend check 1.5\nbegin initialise 1.5\nend initialise 3.5\nbegin rounds 4\n"
ROUND = """round {number}
ticks 100
server before 100 1.0
server after 200 3.0
dbops measuring 1000.0 1.0
dbops second 1 10 0 1.5
dbops total 10 0 0 0 10
dbops latency 0.5 1.5 10.0
dbops bucket 1.0 10
dbops end 1002.0 2.0
status 0
words
"""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    played = Played()

    def jobs(self: load_test_hosts.LoadTestHosts, host: Host, uid: str, key: str) -> FakeJobs:
        return FakeJobs(played.host, token=self._restore_test.host_token, run_id=uid)

    monkeypatch.setattr(load_test_hosts.LoadTestHosts, "_jobs_on", jobs)
    monkeypatch.setattr(load_test_hosts.prober, "probe_now", played.probe_now)
    return played.host


@pytest.fixture(autouse=True)
def short_ticks(settings: Any) -> None:
    """A played job that runs on answers at once, so the driver asks it without a pause to the end of its tick."""
    settings.TICK_SECONDS = 1


@pytest.fixture
def load_test() -> LoadTest:
    return make_load_test(make_request(make_source(), make_place()))


def play(host: FakeHost, *states: Any, removal: tuple[Any, ...] = (ended(0),)) -> FakeJobs:
    jobs = FakeJobs(host)
    jobs.play("load-test", *states)
    jobs.play("load-test-remove", *removal)
    jobs.play("again-.*|sweep-.*", ended(0))
    return jobs


def begun(load_test: LoadTest) -> LoadTest:
    assert due_load_tests.start_what_can() == [load_test.pk]
    return load_test


def drive(load_test: LoadTest, ticks: int = 1) -> LoadTest:
    for _ in range(ticks):
        LoadTest.objects.filter(pk=load_test.pk).update(next_tick_at=timezone.now())
        load_tests.LoadTestDriver.tick(load_test.pk)
    load_test.refresh_from_db()
    return load_test


def test_rounds_are_kept_as_they_end_and_the_report_at_the_end(load_test: LoadTest, host: FakeHost) -> None:
    progress = "".join(f"begin {number} 1\nend {number} 2\n" for number in range(1, 5))
    jobs = play(
        host, ended(0, tails={"steps": STEPS, "progress": progress, "facts": "version=10.11.19\nlimited_by=cgroup2\n"})
    )
    jobs.expect("jobs/load-test/round", lambda ran: ROUND.format(number=ran.arguments[-1]))
    drive(begun(load_test))
    assert (load_test.status, load_test.error, load_test.has_leftovers) == (RunStatus.SUCCEEDED, {}, False)
    assert [one.number for one in load_test.rounds.all()] == [1, 2, 3, 4]
    assert load_test.report["Total"]["QueryCount"] == 40
    assert load_test.report["Facts"]["limited_by"] == "cgroup2"
    assert load_test.host_slot is None
    assert AuditEntry.objects.filter(action="load_test.succeeded").count() == 1


def test_round_that_is_taken_again_is_replaced_and_a_lost_lease_keeps_none(load_test: LoadTest) -> None:
    begun(load_test)
    lease = rows.take_lease(load_test.pk)
    assert lease
    for queries in (1, 2):
        rows.keep_round(lease, replace(result(3), queries=queries))
    LoadTest.objects.update(lease_owner="another")
    with pytest.raises(LeaseLost):
        rows.keep_round(lease, result(4))
    assert [(one.number, one.result["queries"]) for one in load_test.rounds.all()] == [(3, 2)]


def test_job_gets_its_files_and_the_generator_no_password(load_test: LoadTest, host: FakeHost) -> None:
    play(host, running())
    drive(begun(load_test))
    [job] = [one for one in host.order if one.name == "load-test"]
    assert set(job.secrets) >= {"settings", "rounds", "fill", "load.lua"}
    assert "password" not in job.secrets["rounds"]
    assert len(job.secrets["rounds"].splitlines()) == len(load_test.plan["rounds"])


def test_parts_that_the_copies_lack_are_in_the_report(load_test: LoadTest, host: FakeHost) -> None:
    notes = "foreign-keys 12\ntriggers x\nelsewhere 1\nother 3\n"
    progress = "begin 1 1\nend 1 2\n"
    jobs = play(host, ended(0, tails={"steps": STEPS, "progress": progress, "notes": notes}))
    jobs.expect("jobs/load-test/round", lambda ran: ROUND.format(number=ran.arguments[-1]))
    drive(begun(load_test))
    assert load_test.report["NotCopied"] == {"ForeignKeys": 12, "TablesElsewhere": 1}


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (vanished(), "load_test.vanished"),
        (ended(65, tails={"out": "REFUSED: tool sysbench is not installed on this host."}), "load_test.tool"),
        (ended(65, tails={"out": "REFUSED: space /x has 1 MiB free"}), "load_test.space"),
        (ended(70, tails={"out": "FAILED: fill x\nFAILED: time the test did not end"}), "load_test.time"),
        (ended(70, tails={"out": "FAILED: damaged the file has checksum x"}), "load_test.backup_unusable"),
        (ended(70, tails={"out": "FAILED: out_of_memory the server needed more"}), "load_test.out_of_memory"),
        (ended(1, tails={"out": "bash: what"}), "load_test.failed"),
    ],
)
def test_failed_job_ends_the_load_test_with_its_code(
    load_test: LoadTest, host: FakeHost, state: Any, code: str
) -> None:
    play(host, state)
    drive(begun(load_test))
    assert (load_test.status, load_test.error["code"], load_test.has_leftovers) == (RunStatus.FAILED, code, False)


def test_failed_round_says_what_the_generator_said(load_test: LoadTest, host: FakeHost) -> None:
    jobs = play(host, ended(70, tails={"out": "FAILED: round 1"}))
    jobs.expect("jobs/load-test/round", "round 1\nstatus 137\nwords it was killed\n")
    drive(begun(load_test))
    assert load_test.error["code"] == "load_test.generator"


def test_files_that_stay_are_removed_by_the_sweep(load_test: LoadTest, host: FakeHost) -> None:
    play(host, vanished(), removal=(ended(70, tails={"out": "FAILED: not_removed /x"}),))
    drive(begun(load_test), 2)
    assert (load_test.status, load_test.has_leftovers) == (RunStatus.FAILED, True)
    assert load_test_leftovers.sweep(seconds=5) == 1
    load_test.refresh_from_db()
    assert not load_test.has_leftovers


def test_stop_ends_the_job_and_removes_its_files(load_test: LoadTest, host: FakeHost) -> None:
    play(host, running(), running())
    drive(begun(load_test))
    cancel_load_test(actor=make_operator("otto"), load_test=load_test, reason="enough")
    drive(load_test, 2)
    assert (load_test.status, load_test.has_leftovers) == (RunStatus.CANCELLED, False)


def test_lost_load_test_is_ended_by_a_person_and_leaves_a_note_of_leftovers(
    load_test: LoadTest, host: FakeHost
) -> None:
    begun(load_test)
    LoadTest.objects.filter(pk=load_test.pk).update(status=RunStatus.LOST)
    cancel_load_test(actor=make_operator("otto"), load_test=load_test, reason="host is gone")
    load_test.refresh_from_db()
    assert (load_test.status, load_test.has_leftovers, load_test.host_slot) == (RunStatus.CANCELLED, True, None)


def test_one_load_test_runs_on_a_host(host: FakeHost) -> None:
    source, place = make_source(), make_place()
    olga = make_operator()
    first, second = (make_load_test(make_request(source, place), request_key=key, actor=olga) for key in ("one", "two"))
    assert due_load_tests.start_what_can() == [first.pk]
    second.refresh_from_db()
    assert (second.status, bool(second.waiting_for)) == (RunStatus.QUEUED, True)


def test_load_test_and_restore_test_of_a_host_wait_for_each_other(host: FakeHost) -> None:
    source, place = make_source(), make_place()
    Cluster.objects.update(restore_test_host=place.name)
    source.cluster.refresh_from_db()
    run = made(make_schedule(source))
    restore_test = restore_tests.queue(run, "due")
    assert restore_test is not None
    load_test = make_load_test(make_request(source, place))
    assert due_load_tests.start_what_can() == [load_test.pk]
    assert due_restore_tests.start_what_can() == []
    assert not restore_tests.start(restore_test)
    LoadTest.objects.filter(pk=load_test.pk).update(host_slot=None, status=RunStatus.QUEUED)
    assert due_restore_tests.start_what_can() == [restore_test.pk]
    assert due_load_tests.start_what_can() == []


def make_generator(name: str = "loader-1") -> Host:
    return make_place(name, tools=("sysbench", "python3"))


def make_tunnelled(source: Instance, place: Host, generator: Host, **changes: Any) -> LoadTest:
    return make_load_test(make_request(source, place, generator_host=generator.name), **changes)


def test_generators_host_takes_part_in_no_other_test(host: FakeHost) -> None:
    source, first, second, generator, olga = (
        make_source(),
        make_place(tools=(*TOOLS, "python3")),
        make_place("tester-2"),
        make_generator(),
        make_operator(),
    )
    tunnelled = make_tunnelled(source, first, generator, actor=olga)
    assert due_load_tests.start_what_can() == [tunnelled.pk]
    # neither a scratch server there, nor another generator
    for number, request in enumerate(
        (make_request(source, generator), make_request(source, second, generator_host=generator.name))
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LoadTestPlan, "refusals", ())
            waiting = make_load_test(request, request_key=f"key-{number}", actor=olga)
        assert due_load_tests.start_what_can() == []
        assert not rows.start(waiting)
        waiting.refresh_from_db()
        assert waiting.waiting_for
    Cluster.objects.update(restore_test_host=generator.name)
    source.cluster.refresh_from_db()
    restore_test = restore_tests.queue(made(make_schedule(source)), "due")
    assert restore_test is not None
    assert due_restore_tests.start_what_can() == []
    assert not restore_tests.start(restore_test)


def test_generators_host_of_a_running_test_is_in_use_for_the_fleet_file(host: FakeHost) -> None:
    generator = make_generator()
    load_test = make_tunnelled(make_source(), make_place(tools=(*TOOLS, "python3")), generator)
    assert generator.pk not in stored.load().tests
    begun(load_test)
    assert stored.load().tests[generator.pk] == stored.load().tests[load_test.host_id]


def test_generators_host_gets_a_key_and_files_that_are_taken_away(host: FakeHost) -> None:
    load_test = make_tunnelled(make_source(), make_place(tools=(*TOOLS, "python3")), make_generator())
    jobs = play(host, running(), ended(70, tails={"out": "FAILED: connection ssh ended"}))
    drive(begun(load_test), 2)
    assert (load_test.status, load_test.error["code"], load_test.has_leftovers) == (
        RunStatus.FAILED,
        "load_test.connection",
        False,
    )
    [job] = [one for one in host.order if one.name == "load-test"]
    assert {"tunnel.words", "load_relay.py"} <= set(job.secrets)
    assert "load.lua" not in job.secrets
    assert jobs


def test_unreachable_host_before_the_job_ends_nothing_at_once(
    load_test: LoadTest, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_: Any) -> Any:
        raise Unreachable("ssh.unreachable", "Probing", cause="no route")

    monkeypatch.setattr(load_test_hosts.prober, "probe_now", probe)
    drive(begun(load_test))
    assert (load_test.status, load_test.unreachable_since is not None) == (RunStatus.RUNNING, True)


def test_result_that_cannot_be_read_fails_the_test(load_test: LoadTest, host: FakeHost) -> None:
    jobs = play(host, running(tails={"progress": "begin 1 1\nend 1 2\n"}))
    jobs.expect("jobs/load-test/round", "nothing")
    drive(begun(load_test), 2)
    assert (load_test.status, load_test.error["code"]) == (RunStatus.FAILED, "load_test.unreadable")


def test_host_that_became_a_primarys_while_the_test_was_queued_is_refused(load_test: LoadTest, host: FakeHost) -> None:
    Instance.objects.filter(host=load_test.host).update(role="primary")
    jobs = play(host, running())
    drive(begun(load_test), 2)
    assert (load_test.status, load_test.error["code"]) == (RunStatus.FAILED, "load_test.refused")
    assert not [one for one in jobs.host.order if one.name == "load-test"]
