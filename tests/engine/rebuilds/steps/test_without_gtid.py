"""Replication by position: pausing the source, and attaching the copy."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from dbops.engine.errors import DbopsError, Refused, RemoteFailure
from dbops.engine.ports import CommandResult
from dbops.engine.rebuilds.steps.preflight.resume_check import ResumeCheck
from dbops.engine.rebuilds.steps.replicate.repoint_by_position import ATTEMPTS, PAUSE_SECONDS, repoint_by_position
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.access import have_guard, keep_open, rearm
from dbops.engine.rebuilds.steps.source.release import GUARD, start_guard
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, ended, running

SOURCE, PRIMARY = "10.0.0.12", "10.0.0.11"


def link_row(host: str, position: int, running: str = "Yes") -> dict[str, Any]:
    return {
        "Master_Host": host,
        "Master_Port": 3306,
        "Slave_IO_Running": running,
        "Slave_SQL_Running": running,
        "Relay_Master_Log_File": "binlog.000001",
        "Exec_Master_Log_Pos": position,
        "Seconds_Behind_Master": 0,
        "Using_Gtid": "No",
        "Last_IO_Error": "",
        "Last_SQL_Error": "",
    }


@dataclass
class World:
    run: Run
    jobs: FakeJobs
    target: FakeDatabase
    journal: RecordedJournal

    @property
    def pauses(self) -> int:
        return len([key for key in self.journal.commands if key.startswith("repoint.pause.")])

    @property
    def resumes(self) -> int:
        return len([key for key in self.journal.commands if key.startswith("repoint.resume.")])


@pytest.fixture
def world() -> World:
    plan = replace(build_plan(builders.inputs()), uses_gtid=False)
    jobs, source, target, journal, clock = FakeJobs(), FakeDatabase(), FakeDatabase(), RecordedJournal(), FakeClock()
    jobs.expect("echo paused", CommandResult(0, "paused\n", ""))
    jobs.expect("beat\n", CommandResult(0, "guard=1\ngiven_back=\npaused=1\n", ""))
    source.expect("SHOW (ALL )?SLAVE", [link_row(PRIMARY, 500)])
    source.expect("SHOW MASTER|SHOW BINLOG|SHOW BINARY", [{"File": "binlog.000001", "Position": 900}])

    run = make_run(plan, jobs, source=source, target=target, journal=journal, clock=clock)
    return World(run, jobs, target, journal)


def repoint_for_an_hour(world: World, pauses: list[float]) -> None:
    """Try as the runner does; note in ``pauses`` how long the source's applier was stopped each time."""
    clock, since = world.run.clock, world.run.clock.now()
    while clock.now() < since + 3600:
        before, paused_at = world.resumes, world.run.checkpoint.get("repoint.paused_at", since)
        outcome = repoint_by_position(world.run, world.target)
        if world.resumes > before:
            pauses.append(clock.now() - paused_at)
        clock.sleep(outcome.wait_seconds)


def test_repoint_resumes_the_source_when_the_point_is_never_reached(world: World) -> None:
    """The source was written to itself, or has rotated its log: the target goes past the point without being seen there."""
    world.target.expect("SLAVE", [link_row(SOURCE, 901)])
    pauses: list[float] = []
    with pytest.raises(DbopsError) as failed:
        repoint_for_an_hour(world, pauses)
    assert failed.value.code == "repoint.no_common_point"
    assert world.pauses == world.resumes == ATTEMPTS
    assert max(pauses) < PAUSE_SECONDS + 1


def test_rearm_needs_no_key_before_access_is_opened(world: World) -> None:
    world.jobs.play("guard.*", ended())
    rearm(world.run, "no heartbeat for 50 s")
    assert not [key for key in world.journal.commands if key.startswith("open.")]
    world.run.checkpoint["let_in"] = True
    world.jobs.expect("ssh-keygen", CommandResult(0, "ssh-ed25519 AAAA\n", ""))
    rearm(world.run, "no heartbeat for 50 s")
    assert [key for key in world.journal.commands if key.startswith("open.")]


@pytest.mark.parametrize("is_over", [True, False])
def test_rearm_starts_a_new_guard_only_after_the_copy(world: World, is_over: bool) -> None:
    """To pause the source once more it needs a guard; but a backup that the guard has ended is not begun again."""
    world.jobs.expect("beat\n", CommandResult(0, "guard=\ngiven_back=no heartbeat for 50 s\npaused=\n", ""))
    world.run.checkpoint |= {"source_opened": True, "let_in": True, "stream.began": 1.0}
    world.run.checkpoint |= {"checkpoints": {"backup_type": "full-backuped"}} if is_over else {}
    have_guard(world.run)
    assert world.jobs.started == (["guard-2"] if is_over else [])
    assert not [key for key in world.journal.commands if key.startswith("open.")]


def test_waiting_for_an_earlier_guard_arms_no_second_one(world: World) -> None:
    earlier = FakeJobs(world.jobs.host, run_id="earlier")
    world.jobs.play("guard.*", running())
    earlier.start("guard", "", lock="guard")
    world.jobs.expect("beat\n", CommandResult(0, "guard=\ngiven_back=\npaused=\n", ""))
    with pytest.raises(RemoteFailure) as busy:
        start_guard(world.run, GUARD)
    assert busy.value.code == "host.busy"
    earlier.job("guard").become(ended())
    keep_open(world.run)
    start_guard(world.run, GUARD)
    assert [name for run, name in world.jobs.host.jobs if run == world.jobs.run_id] == ["guard"]


def recheck(world: World, host: str, **checkpoint: Any) -> str:
    """Return what a retry finds changed, "" where nothing is."""
    world.run.checkpoint |= {"new_identity": "1:2", "copy_run": "another", **checkpoint}
    world.jobs.expect("datadir=", CommandResult(0, "datadir=1:2\nnew=1\npids=77 \n", ""))
    world.target.expect("read_only", [{"server_id": world.run.plan.target.configured_server_id, "read_only": 1}])
    world.target.expect("PROCESSLIST", [{"replicas": 0}])
    world.target.expect("SLAVE", [link_row(host, 901)])
    try:
        ResumeCheck().advance(world.run)
    except Refused as refused:
        return refused.cause
    return ""


def test_recheck_refuses_a_copy_attached_to_the_primary(world: World) -> None:
    assert recheck(world, PRIMARY)


def test_recheck_accepts_a_copy_attached_to_the_source(world: World) -> None:
    assert recheck(world, SOURCE) == ""


def test_recheck_accepts_the_primary_after_catch_up(world: World) -> None:
    assert recheck(world, PRIMARY, done_before=["catch-up"]) == ""
