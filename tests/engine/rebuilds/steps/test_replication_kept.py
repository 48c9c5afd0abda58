"""The last settings of the target's replication, on a server that prints filters in an order of its own and may be left stopped."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, server_error


class Replica(FakeDatabase):
    """A server with one connection that START and STOP change, as is what CHANGE and filters set."""

    def __init__(self, **row: Any) -> None:
        super().__init__()
        plan = build_plan(builders.inputs())
        self.row: dict[str, Any] = {
            "Connection_name": "",
            "Master_Host": plan.primary.address,
            "Master_Port": plan.primary.port,
            "Slave_IO_Running": "Yes",
            "Slave_SQL_Running": "Yes",
            "Seconds_Behind_Master": 0,
            "SQL_Delay": 0,
            **row,
        }
        self.dies_after = ""
        self.variables: dict[str, str] = {}
        self.expect("@@server_id", [{"server_id": plan.target.configured_server_id, "read_only": 1}])

    def runs(self) -> bool:
        return (self.row["Slave_IO_Running"], self.row["Slave_SQL_Running"]) == ("Yes", "Yes")

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if "SHOW GLOBAL VARIABLES" in sql and "IN (" in sql:
            return [{"Variable_name": name, "Value": value} for name, value in self.variables.items() if name in sql]
        return [dict(self.row)] if "SLAVES STATUS" in sql else super().query(sql, parameters)

    def execute(self, sql: str, parameters: Any = ()) -> None:
        super().execute(sql, parameters)
        word = sql.split()[0]
        if word in ("START", "STOP"):
            self.row["Slave_IO_Running"] = self.row["Slave_SQL_Running"] = "Yes" if word == "START" else "No"
        elif word == "CHANGE":
            self.row["SQL_Delay"] = int(sql.split("MASTER_DELAY = ")[1].split(",")[0])
        elif word == "SET":
            name, value = sql.removeprefix("SET GLOBAL ").split(" = ")
            if name in self.variables:
                assert not self.runs(), "some variables need stopped replication"
                self.variables[name] = value.strip("'")
                return
            self.row[{known.lower(): known for known in FILTERS}[name]] = value.strip("'")
        if word == self.dies_after:
            raise DriverEnded


FILTERS = (
    *("Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table"),
    *("Replicate_Wild_Do_Table", "Replicate_Wild_Ignore_Table", "Replicate_Rewrite_DB"),
)


class DriverEnded(Exception):
    """A worker that is killed, as the code under test sees it."""


def run_on(server: Replica, kept: KeptReplication) -> Run:
    plan = replace(build_plan(builders.inputs()), replication=kept)
    run = make_run(plan, FakeJobs(), source=server, target=server, journal=RecordedJournal(), clock=FakeClock())
    run.checkpoint["copy_run"] = run.run_id
    return run


def advance(run: Run, times: int = 40) -> bool:
    """Advance the step until it is done; return whether it is."""
    for _ in range(times):
        outcome = Verify().advance(run)
        if outcome.done:
            return True
        run.clock.sleep(outcome.wait_seconds)
    return False


DELAYED = KeptReplication(options={"MASTER_DELAY": "60"})


@pytest.mark.parametrize("statement", ["STOP", "CHANGE"])
def test_driver_that_dies_while_replication_is_stopped_does_not_fail_the_rebuild(statement: str) -> None:
    server = Replica()
    run = run_on(server, DELAYED)
    server.dies_after = statement
    with pytest.raises(DriverEnded):
        advance(run)
    assert not server.runs()
    server.dies_after = ""
    run.checkpoint.pop("kept.begun")  # written at most once a second
    assert advance(run)
    assert server.runs()
    assert server.row["SQL_Delay"] == 60


def test_lag_of_the_delay_that_a_dead_driver_set_is_meant() -> None:
    assert advance(run_on(Replica(SQL_Delay=60, Seconds_Behind_Master=59), DELAYED))


def test_cancelled_rebuild_leaves_replication_running() -> None:
    server = Replica()
    run = run_on(server, DELAYED)
    server.dies_after = "STOP"
    with pytest.raises(DriverEnded):
        advance(run)
    server.dies_after = ""
    Verify().cancel(run)
    assert server.runs()
    server.execute("STOP ALL SLAVES")  # by a person, after the rebuild's own statements
    run.checkpoint["kept.set"] = True
    Verify().cancel(run)
    assert not server.runs()


def test_filters_are_equal_in_any_order_and_set_at_run_time() -> None:
    tables, rewrite = "e.e,b.b,z.a", "a->b"
    kept = KeptReplication(filters={"Replicate_Do_Table": tables, "Replicate_Rewrite_DB": rewrite})
    server = Replica(Replicate_Do_Table="b.b,e.e,z.a")
    assert advance(run_on(server, kept))
    assert server.row["Replicate_Rewrite_DB"] == rewrite
    assert not any(
        "STOP" in sql for sql in statements_of(Replica(**kept.filters | {"Replicate_Do_Table": "z.a,e.e,b.b"}), kept)
    )


def statements_of(server: Replica, kept: KeptReplication) -> list[str]:
    assert advance(run_on(server, kept))
    return server.statements


def test_filter_that_stays_different_fails() -> None:
    class Stubborn(Replica):
        def execute(self, sql: str, parameters: Any = ()) -> None:
            if not sql.startswith("SET"):
                super().execute(sql, parameters)

    with pytest.raises(RemoteFailure) as error:
        advance(run_on(Stubborn(), KeptReplication(filters={"Replicate_Do_Table": "a.b"})))
    assert error.value.code == "replication.not_kept"


def test_variables_are_set_while_replication_is_stopped_and_read_back() -> None:
    kept = KeptReplication(variables={"slave_exec_mode": "IDEMPOTENT", "slave_net_timeout": "9"})
    server = Replica()
    server.variables = {"slave_exec_mode": "STRICT", "slave_net_timeout": "9"}
    statements = statements_of(server, kept)
    assert server.variables == kept.variables
    assert server.runs()
    assert [sql for sql in statements if sql.startswith("SET GLOBAL")] == ["SET GLOBAL slave_exec_mode = 'IDEMPOTENT'"]


def test_variable_that_does_not_come_back_fails() -> None:
    class Stubborn(Replica):
        def execute(self, sql: str, parameters: Any = ()) -> None:
            if not sql.startswith("SET"):
                super().execute(sql, parameters)

    server = Stubborn()
    server.variables = {"slave_exec_mode": "STRICT"}
    with pytest.raises(RemoteFailure) as error:
        advance(run_on(server, KeptReplication(variables={"slave_exec_mode": "IDEMPOTENT"})))
    assert error.value.code == "replication.not_kept"


class Refusing(Replica):
    """A server that refuses the first of two variables, and does not know a third."""

    refusal: Exception = server_error(1227, "Access denied")

    def execute(self, sql: str, parameters: Any = ()) -> None:
        if "slave_exec_mode" in sql:
            raise self.refusal
        super().execute(sql, parameters)


def refusing_run(server: Refusing) -> Run:
    server.variables = {"slave_exec_mode": "STRICT", "slave_net_timeout": "60"}
    wanted = {"slave_exec_mode": "IDEMPOTENT", "rpl_semi_sync_slave_enabled": "ON", "slave_net_timeout": "9"}
    return run_on(server, KeptReplication(options={"MASTER_DELAY": "60"}, variables=wanted))


def test_variables_that_cannot_be_set_are_named_and_do_not_fail_the_rebuild() -> None:
    server = Refusing()
    run = refusing_run(server)
    assert advance(run)
    assert server.runs()
    assert server.variables == {"slave_exec_mode": "STRICT", "slave_net_timeout": "9"}
    assert server.row["SQL_Delay"] == 60
    assert isinstance(run.journal, RecordedJournal)
    for statement in ("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'", "SET GLOBAL rpl_semi_sync_slave_enabled = 'ON'"):
        assert sum(statement in line for line in run.journal.lines) == 1
    assert run.journal.levels.count(Level.WARNING) == 2


def test_server_that_is_gone_while_a_variable_is_set_is_asked_again() -> None:
    server = Refusing()
    server.refusal = Unreachable("mysql.unreachable", "Setting", cause="gone")
    run = refusing_run(server)
    with pytest.raises(Unreachable):
        advance(run)
    assert "kept.set" not in run.checkpoint
