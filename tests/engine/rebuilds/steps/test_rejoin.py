"""The way back to an intermediate replica, and to the primary where that fails."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import CommandResult
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.replicate.replication import SERVER_GONE_SECONDS
from dbops.engine.rebuilds.steps.run import Run, Server
from dbops.engine.states import Level
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, server_error

PLAN = build_plan(builders.inputs())
PRIMARY, UPSTREAM = PLAN.primary, PLAN.source


class Member(FakeDatabase):
    """A replica with one connection, which CHANGE, START and STOP change; ``refuses`` is a server that it cannot follow."""

    def __init__(self, server_id: int, *, position: str = "0-11-100", refuses: str = "") -> None:
        super().__init__()
        self.position, self.refuses, self.is_away = position, refuses, False
        self.row: dict[str, Any] = {
            "Connection_name": "",
            "Master_Host": PRIMARY.address,
            "Master_Port": PRIMARY.port,
            "Slave_IO_Running": "Yes",
            "Slave_SQL_Running": "Yes",
            "Seconds_Behind_Master": 0,
            "SQL_Delay": 0,
        }
        #: what its binary log contains by server, what it replicated, and where its oldest log begins
        self.listed = self.replicated = self.oldest = ""
        self.expect("@@server_id", [{"server_id": server_id, "read_only": 1}])

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if self.is_away:
            raise Unreachable("mysql.unreachable", "Connecting", cause="gone")
        if "SLAVES STATUS" in sql:
            return [dict(self.row)]
        if "gtid_current_pos" in sql:
            return [{"executed": self.position, "logged": self.position}]
        if "gtid_binlog_state" in sql:
            return [{"value": self.listed}]
        if "gtid_slave_pos" in sql:
            return [{"value": self.replicated}]
        if "SHOW BINARY LOGS" in sql:
            return [{"Log_name": "mysql-bin.000007"}]
        if "BINLOG_GTID_POS" in sql:
            return [{"gtid": self.oldest}]
        return super().query(sql, parameters)

    def execute(self, sql: str, parameters: Any = ()) -> None:
        super().execute(sql, parameters)
        words = sql.split()
        if words[0] == "STOP":
            self.row |= {"Slave_IO_Running": "No", "Slave_SQL_Running": "No", "Last_IO_Error": ""}
        elif words[0] == "CHANGE":
            self.row["Master_Host"] = parameters[0]
        elif words[0] == "START":
            fails = self.row["Master_Host"] == self.refuses
            self.row |= {"Slave_IO_Running": "No" if fails else "Yes", "Slave_SQL_Running": "Yes"}
            self.row["Last_IO_Error"] = "1236: the replica is ahead" if fails else ""


def run_of(target: Member, upstream: Member, primary_position: str = "0-11-200") -> Run:
    plan = replace(PLAN, upstream=UPSTREAM, replication=KeptReplication(options={"MASTER_DELAY": "0"}))
    run = make_run(plan, FakeJobs(), source=upstream, target=target, journal=RecordedJournal(), clock=FakeClock())
    run.primary = Server(PRIMARY, lambda _: Member(11, position=primary_position))
    run.upstream = Server(UPSTREAM, lambda _: upstream)
    run.checkpoint["copy_run"] = run.run_id
    return run


def verify(run: Run, times: int = 400) -> bool:
    """Advance the step until it is done; return whether it is."""
    for _ in range(times):
        outcome = Verify().advance(run)
        if outcome.done:
            return True
        run.clock.sleep(max(outcome.wait_seconds, 0.1))
    return False


def members(**of_target: Any) -> tuple[Member, Member]:
    configured = PLAN.target.configured_server_id
    assert configured is not None
    return Member(configured, **of_target), Member(12)


def runs(server: Member) -> bool:
    return (server.row["Slave_IO_Running"], server.row["Slave_SQL_Running"]) == ("Yes", "Yes")


def test_target_returns_after_it_was_verified_at_the_primary() -> None:
    target, upstream = members()
    run = run_of(target, upstream)
    assert verify(run)
    assert (target.row["Master_Host"], runs(target)) == (UPSTREAM.address, True)
    assert run.followed == UPSTREAM
    assert not run.is_rejoining


def test_target_waits_until_the_intermediate_replica_has_what_it_has() -> None:
    target, upstream = members(position="0-11-150")
    run = run_of(target, upstream)
    assert not verify(run, 20)
    assert target.row["Master_Host"] == PRIMARY.address
    assert run.is_rejoining
    upstream.position = "0-11-151"
    assert verify(run)
    assert target.row["Master_Host"] == UPSTREAM.address


@pytest.mark.parametrize(
    ("listed", "returns"),
    [("0-1-90,0-3-100,0-11-500", True), ("0-1-90,0-3-100,0-12-400,0-11-500", False), ("7-12-1,0-11-500", False)],
)
def test_older_history_of_the_intermediate_replica_is_not_taken_for_errant(listed: str, returns: bool) -> None:
    target, upstream = members(position="0-11-500")
    upstream.position, upstream.listed = "0-11-500", listed
    run, primary = run_of(target, upstream), Member(11, position="0-11-500")
    primary.listed, primary.replicated, primary.oldest = "0-11-500", "0-3-100", "0-11-300"
    run.primary = Server(PRIMARY, lambda _: primary)
    assert verify(run)
    assert (target.row["Master_Host"] == UPSTREAM.address) is returns


def stays(run: Run, target: Member) -> bool:
    assert isinstance(run.journal, RecordedJournal)
    return (target.row["Master_Host"], runs(target), run.followed) == (PRIMARY.address, True, PRIMARY)


@pytest.mark.parametrize("wrong", ["behind", "away", "errant", "stopped", "another", "writes"])
def test_target_stays_at_the_primary_where_the_intermediate_replica_is_unfit(wrong: str) -> None:
    target, upstream = members(position="0-11-150" if wrong == "behind" else "0-11-100")
    if wrong == "errant":
        upstream.position = "0-12-300"
    elif wrong == "stopped":
        upstream.row["Slave_SQL_Running"] = "No"
    elif wrong in ("another", "writes"):
        row = {"server_id": 12 + (wrong == "another"), "read_only": int(wrong != "writes")}
        upstream.expect("@@server_id", [row])
    run = run_of(target, upstream)
    upstream.is_away = wrong == "away"
    run.checkpoint["verify.steady_since"] = 0.0
    assert verify(run)
    assert stays(run, target)


def test_target_that_is_refused_there_follows_the_primary_again() -> None:
    target, upstream = members(refuses=UPSTREAM.address)
    run = run_of(target, upstream)
    assert verify(run)
    assert stays(run, target)


def test_target_that_neither_server_takes_fails() -> None:
    target, upstream = members(refuses=UPSTREAM.address)
    run = run_of(target, upstream)
    target.execute("CHANGE MASTER", (PRIMARY.address,))
    run.checkpoint["rejoin"] = {"phase": "back", "why": "a test"}
    target.refuses = PRIMARY.address
    target.execute("START ALL SLAVES")
    with pytest.raises(RemoteFailure) as error:
        verify(run)
    assert error.value.code == "replication.error"


def test_rebuild_that_ends_on_the_way_leaves_replication_running() -> None:
    target, upstream = members(position="0-11-150")
    run = run_of(target, upstream)
    assert not verify(run, 20)
    assert not runs(target)
    Verify().cancel(run)
    assert runs(target)


def stopped_on_the_way() -> tuple[Run, Member]:
    target, upstream = members(position="0-11-150")
    run = run_of(target, upstream)
    assert not verify(run, 20)
    assert not runs(target)
    return run, target


def server_process(run: Run, pid: str) -> None:
    """Let the target's host say which process runs on the data, empty for none."""
    jobs = run.target.jobs
    assert isinstance(jobs, FakeJobs)
    jobs.expect("pids=", CommandResult(0, f"pids={pid}\n", ""))


def test_rebuild_does_not_end_while_nothing_says_whether_the_target_replicates() -> None:
    run, target = stopped_on_the_way()
    server_process(run, "4711")
    target.is_away = True
    for _ in range(3):
        with pytest.raises(Unreachable):
            Verify().cancel(run)
        run.clock.sleep(SERVER_GONE_SECONDS)
    target.is_away = False
    Verify().cancel(run)
    assert runs(target)


@pytest.mark.parametrize("why", ["refuses", "is dead"])
def test_rebuild_ends_with_an_error_when_replication_cannot_be_started(why: str) -> None:
    run, target = stopped_on_the_way()
    if why == "refuses":
        target.expect("START", server_error(1227, "Access denied"))
    else:
        server_process(run, "")
        target.is_away = True
        with pytest.raises(Unreachable):  # a service manager can restart it
            Verify().cancel(run)
        run.clock.sleep(SERVER_GONE_SECONDS + 1)
    assert isinstance(run.journal, RecordedJournal)
    assert Level.ERROR not in run.journal.levels
    Verify().cancel(run)
    assert run.journal.levels.count(Level.ERROR) == 1
    assert not runs(target)


def test_resume_continues_on_the_way() -> None:
    target, upstream = members()
    run = run_of(target, upstream)
    target.execute("CHANGE MASTER", (UPSTREAM.address,))
    run.checkpoint["rejoin"] = {"phase": "follows", "since": run.clock.now()}
    assert verify(run)
    assert target.row["Master_Host"] == UPSTREAM.address


@pytest.mark.parametrize("phase", ["waits", "follows"])
def test_time_in_which_no_driver_looked_does_not_count(phase: str) -> None:
    target, upstream = members(position="0-11-150")
    run = run_of(target, upstream)
    if phase == "follows":
        upstream.position = "0-11-150"
        while run.checkpoint.get("rejoin", {}).get("phase") != phase:
            assert not verify(run, 1)
        target.row["Seconds_Behind_Master"] = 900
    assert not verify(run, 20)
    assert run.checkpoint["rejoin"]["phase"] == phase
    run.clock.sleep(3600.0)
    assert not verify(run, 20)
    assert run.checkpoint["rejoin"]["phase"] == phase
    upstream.position, target.row["Seconds_Behind_Master"] = "0-11-150", 0
    assert verify(run)
    assert target.row["Master_Host"] == UPSTREAM.address
