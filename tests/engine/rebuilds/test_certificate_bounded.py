"""What the certificate does where a server is slow, behind, or cannot read: it says what was not compared, and ends."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, Bounded, took_too_long
from dbops.engine.rebuilds.certificate.openable import Table, open_tables
from dbops.engine.rebuilds.steps.certify import looks, reference, step
from dbops.engine.rebuilds.steps.certify.rounds import ComparisonRound
from dbops.engine.rebuilds.steps.certify.snapshots import RELEASE
from dbops.engine.rebuilds.steps.run import StepOutcome
from tests.engine.rebuilds.test_certificate import MARIADB, Answers, at

MYSQL = flavor_for("8.4.3", "mysql")
SLOW = {"mariadb": "1969: interrupted (max_statement_time exceeded)", "mysql": "3024: maximum execution time exceeded"}


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def failure(cause: str) -> RemoteFailure:
    return RemoteFailure("mysql.error", "Reading", cause=cause)


def running(database: Callable[[], Database], **plan: Any) -> Any:
    """Return a run whose servers are all ``database``."""
    connect = SimpleNamespace(connect=lambda seconds: database())
    party = {name: SimpleNamespace(name=name, address=name, port=3306) for name in ("source", "target", "primary")}
    return SimpleNamespace(
        checkpoint={}, clock=Time(), flavor=MARIADB, source=connect, target=connect, primary=connect,
        journal=SimpleNamespace(progress=lambda **known: None, say=lambda *words, **more: None),
        plan=SimpleNamespace(**{"uses_gtid": True, "archive": None, "flavor": "mariadb", **party, **plan}),
    )  # fmt: skip


def compared(database: Database) -> Any:
    party = SimpleNamespace(name="primary")
    return SimpleNamespace(database=database, flavor=MARIADB, is_primary=True, is_copied=False, party=party)


@pytest.mark.parametrize(
    ("flavor", "limit"),
    [(MARIADB, "SET SESSION max_statement_time = 20"), (MYSQL, "SET SESSION max_execution_time = 20000")],
)
def test_server_ends_a_statement_and_none_begins_after_the_time_of_the_call(flavor: Any, limit: str) -> None:
    server, clock = Answers({}), Time()
    bounded = Bounded(server, flavor, clock, longest=20.0, within=26.0)
    for _ in range(2):
        bounded.query("SELECT 1")
    assert server.asked == [limit, "SELECT 1", "SELECT 1"]
    clock.sleep(20.0)
    bounded.query("SELECT 2")
    assert server.asked[-2:] == [limit.replace("20", "6", 1), "SELECT 2"]
    clock.sleep(6.0)
    with pytest.raises(RemoteFailure) as failed:
        bounded.query("SELECT 3")
    assert took_too_long(failed.value)
    assert server.asked[-1] == "SELECT 2"


def a_round(server: Database, names: list[str], *, large: bool, full: bool) -> tuple[Any, dict[str, Any]]:
    tables = [["a", name] for name in names if large]
    state = {
        "small": None,
        "sized": list(tables),
        "large": tables,
        "whole": list(tables) if full else [],
        "sampled": {},
        "at": None,
    }
    state |= {"again": [], "fraction": 0.5}
    record: dict[str, Any] = {"rows": {"tables": 0, "count": 0, "ranges": 0}}
    run = running(lambda: server, full_certificate=full)
    return ComparisonRound(run, record, state, server, server, 5.0), record


def data(names: list[str], key: bool, **more: Any) -> dict[str, Any]:
    tables = [{"s": "a", "n": name, "engine": "InnoDB", "bytes": 0} for name in names]
    columns = [{"n": name, "c": f"{b'id'.hex()}:int::NO:0"} for name in names]
    keys = [{"n": name, "i": "PRIMARY", "name": "id", "prefix": None} for name in names if key]
    known = {"information_schema.TABLES": tables, "COLUMNS": columns, "STATISTICS": keys}
    return {**known, **more}


@pytest.mark.parametrize("cause", SLOW.values())
@pytest.mark.parametrize(("key", "full"), [(True, False), (True, True), (False, True)])
def test_large_table_whose_statement_takes_too_long_is_left_out_at_once(cause: str, key: bool, full: bool) -> None:
    server = Answers(data(["t"], key, **{"COUNT(*)": failure(cause)}))
    work, record = a_round(server, ["t"], large=True, full=full)
    assert work.work()
    assert work.state["large"] == work.state["again"] == []
    assert record["left_out"] == {TOO_LONG: {"count": 1, "examples": ["a.t"]}}
    assert record["rows"]["tables"] == 0
    assert sum("COUNT(*)" in sql for sql in server.asked) == 2  # once on each side


class OneSlow(Answers):
    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if "COUNT(*)" not in sql:
            return super().query(sql, parameters)
        if "`slow`" in sql:
            raise failure(SLOW["mariadb"])
        return [{"i": number, "n": 1, "x": 1, "t": 1} for number in range(sql.count("COUNT(*)"))]


def test_slow_table_among_small_ones_leaves_out_no_other() -> None:
    names = ["a", "b", "slow"]
    work, record = a_round(OneSlow(data(names, True)), names, large=False, full=False)
    work.work()
    assert [one["tries"] for one in work.state["again"]] == [0, 0, 0]
    assert work.work()
    assert work.state["again"] == []
    assert record["left_out"][TOO_LONG]["examples"] == ["a.slow"]
    assert record["rows"]["tables"] == 2


def test_what_is_to_be_looked_at_again_survives_a_lost_connection() -> None:
    lost = Unreachable("mysql.unreachable", "Reading", cause="2013: lost")
    work, _ = a_round(Answers(data(["t"], True, **{"COUNT(*)": lost})), [], large=False, full=False)
    waiting = {"table": ["a", "t"], "range": None, "tries": 1, "error": ""}
    work.state["again"] = [waiting]
    with pytest.raises(Unreachable):
        work.work()
    assert work.state["again"] == [waiting]


def test_savepoint_is_not_asked_of_a_connection_that_still_waits() -> None:
    server = Answers(data(["t"], True, **{"COUNT(*)": TimeoutError()}))
    work, _ = a_round(server, ["t"], large=False, full=False)
    with pytest.raises(TimeoutError):
        work.work()
    assert RELEASE not in server.asked


def test_part_that_a_server_is_too_slow_for_ends_as_not_compared() -> None:
    server = Answers({})
    run = running(lambda: server)
    record: dict[str, Any] = {"unchecked": {}}

    def slow(*_: Any) -> None:
        raise failure(SLOW["mysql"])

    found = [step._bounded(slow, "rows", run, server, compared(server), record) for _ in range(step.SLOW_TIMES)]
    assert [isinstance(one, StepOutcome) for one in found] == [True] * (step.SLOW_TIMES - 1) + [False]
    assert record["unchecked"] == {"rows": TOO_LONG}


def test_slow_table_is_not_unreadable_and_the_rest_is_read_later() -> None:
    slow, good, late = Table("a", "slow"), Table("a", "good"), Table("a", "late")
    turns = iter([True, True, True, False])

    class Reads(Answers):
        def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
            if slow.sql in sql:
                raise failure(SLOW["mariadb"])
            return [{"i": 0}]

    found = open_tables(lambda: Reads({}), [slow, good, late], lambda: next(turns))
    assert (found.slow, found.errors) == ({slow: TOO_LONG}, {})
    assert (found.with_rows, found.unreached) == ({good}, {late})


def test_table_that_neither_server_can_read_is_listed_and_not_counted_as_opened() -> None:
    names = [{"s": "a", "n": f"t{number:03}", "engine": "InnoDB"} for number in range(looks.LISTED + 7)]

    class Broken(Answers):
        def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
            if "LIMIT 1" in sql and "`t" in sql:
                raise failure("1932: no such table in the engine")
            return [{"i": 0}] if "LIMIT 1" in sql else super().query(sql, parameters)

    server = Broken({"information_schema.TABLES": [*names, {"s": "a", "n": "good", "engine": "InnoDB"}]})
    run = running(lambda: server)
    record: dict[str, Any] = {"unchecked": {}}
    assert step.openable(run, server, compared(server), record) is None
    assert record["opened"] == 1
    assert len(record["unchecked"]) == looks.LISTED
    assert record["more_unchecked"] == 7


def test_differences_without_a_common_position_are_not_proven() -> None:
    run = running(lambda: at("0-1-5"))
    record: dict[str, Any] = {"unchecked": {}}

    def settle() -> Any:
        other = compared(at("0-1-9"))
        return looks.settle(run, "x", at("0-1-5"), other, lambda: {"table a.t": "missing"}, record)

    assert isinstance(settle(), StepOutcome)
    assert isinstance(settle(), StepOutcome)
    run.clock.sleep(looks.REACH_SECONDS)
    assert settle() == {}
    assert record["unchecked"] == {"table a.t": looks.NOT_REACHED}
    assert run.checkpoint == {}


@pytest.mark.parametrize(
    ("lag", "gtid", "follows", "measure"),
    [
        ("0", True, "primary", "source"),
        ("60", True, "primary", "source"),
        ("61", True, "primary", "primary"),
        ("3600", True, "primary", "primary"),
        (None, True, "primary", "primary"),
        ("0", False, "primary", "source"),
        ("0", False, "other", "primary"),
    ],
)
def test_source_that_is_behind_is_no_measure(lag: str | None, gtid: bool, follows: str, measure: str) -> None:
    link = {"Slave_IO_Running": "Yes", "Slave_SQL_Running": "Yes", "Seconds_Behind_Master": lag}
    link |= {"Master_Host": follows, "Master_Port": "3306"}
    server = Answers({MARIADB.show_replication: [link], "@@version": [{"version": "10.11.6-MariaDB"}]})
    run = running(lambda: server, uses_gtid=gtid)
    with reference.reference_of(run) as found:
        assert found.party.name == measure


def test_no_values_of_keys_stay_after_the_step_ends_badly() -> None:
    def silent() -> Any:
        raise Unreachable("mysql.unreachable", "Connecting", cause="2003: refused")

    run = running(silent)
    run.checkpoint["certify.rows"] = {"at": 4711}
    with pytest.raises(Unreachable):
        step.Certify().cancel(run)
    assert run.checkpoint == {}
