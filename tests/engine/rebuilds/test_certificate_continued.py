"""What is left of a full certificate after the time before success, and how its comparison continues, waits and ends."""

from types import SimpleNamespace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.rebuilds.certificate.key_values import shown_range
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.certificate.ranges import Range
from dbops.engine.rebuilds.certificate.record import RECORD, REST
from dbops.engine.rebuilds.certificate.rows import Compared
from dbops.engine.rebuilds.steps.certify import continued, rows
from dbops.engine.rebuilds.steps.certify.rounds import ComparisonRound
from tests.engine.rebuilds.test_certificate import Answers
from tests.engine.rebuilds.test_certificate_bounded import compared, data, running

MYSQL = flavor_for("8.4.3", "mysql")
SERVER = {"id": 13, "host": "db-13", "port": 3306, "datadir": "/data/"}
MIB = 1024**2


def left(**more: Any) -> dict[str, Any]:
    return {
        "small": ["a", "m"],
        "sized": [["a", "big"]],
        "whole": [["a", "big"]],
        "again": [],
        "server": ["13", "db-13", "3306", "/data/"],
        **more,
    }


def link(**more: Any) -> dict[str, Any]:
    known = {"Slave_IO_Running": "Yes", "Slave_SQL_Running": "Yes", "Seconds_Behind_Master": "0"}
    return {**known, "Master_Host": "primary", "Master_Port": "3306", **more}


def a_run(**more: Any) -> Any:
    """Return the run of a comparison whose servers answer alike, as far as the first pause."""
    known = data(["big", "small", "z"], True)
    answers = {
        "@@hostname": [SERVER],
        "SLAVE": [link()],
        "@@version": [{"version": "10.11.6-MariaDB"}],
        "@@log_bin": [{"logs": 1, "updates": 1}],
        "innodb_table_stats": [{"s": "a", "n": name, "size": 500} for name in ("big", "small", "z")],
        **known,
        **more,
    }
    run = running(lambda: Answers(answers), full_certificate=True, certificate_seconds=0)
    run.plan.source.server_id = run.plan.target.server_id = run.plan.primary.server_id = None
    run.journal.check = lambda: None
    run.followed = run.plan.primary
    run.checkpoint = {REST: left()}
    return run


def going_on(run: Any, in_the_way: str = "") -> Any:
    return continued.continue_comparison(run, lambda: in_the_way, 5.0)


def test_time_that_is_used_up_leaves_whole_tables_without_values_of_keys() -> None:
    server = Answers({"@@hostname": [SERVER]})
    run = running(lambda: server, full_certificate=True, certificate_seconds=1)
    record: dict[str, Any] = {"rows": {"tables": 1, "count": 1, "ranges": 1, "full": True}}
    suspect = {"table": ["a", "seen"], "range": [None, ["a secret"], None], "tries": 1, "error": "", "rows": ""}
    waiting = {"table": ["a", "failed"], "range": None, "tries": 0, "error": "", "rows": ""}
    state = {**left(), "again": [suspect, waiting], "at": ["a secret"]}
    run.checkpoint["certify.rows"] = state
    rows._use_up(run, server, record, state, "the time was used up", "the other tables")  # type: ignore[arg-type]
    assert run.checkpoint == {
        REST: {**left(), "whole": [["a", "big"], ["a", "seen"]], "again": [waiting]},
    }
    assert (record["rows"]["full"], record["continues"], "left_out" in record) == (False, True, False)


def test_without_time_before_success_all_rows_are_left() -> None:
    run = a_run()
    run.checkpoint = {}
    record: dict[str, Any] = {}
    server = run.target.connect(1.0)
    assert rows.equal_rows(run, server, compared(server), record) is None
    assert (run.checkpoint[REST]["small"], run.checkpoint[REST]["whole"]) == (None, [])
    assert record["continues"]


class Counting(Answers):
    """Every range has two rows."""

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if "COUNT(*)" in sql:
            return [{"i": number, "n": 2, "x": 1, "t": 1} for number in range(sql.count("COUNT(*)"))]
        return super().query(sql, parameters)


def test_full_reads_a_part_of_each_large_table_first_and_counts_no_row_twice() -> None:
    server = Counting(data(["t", "u"], True))
    run = running(lambda: server, full_certificate=True)
    record: dict[str, Any] = {"rows": {"tables": 0, "count": 0, "ranges": 0}}
    tables = [["a", "t"], ["a", "u"]]
    state = {"small": None, "large": list(tables), "whole": list(tables), "sampled": {}, "at": None, "again": []}
    state["fraction"] = 0.5
    work = ComparisonRound(run, record, state, server, server, 5.0)  # type: ignore[arg-type]
    assert work._large()
    sampled = dict(record["rows"])
    assert work._whole()
    assert sampled == {"tables": 2, "count": 4, "ranges": 2}
    assert record["rows"] == sampled
    asked = [sql for sql in server.asked if "ORDER BY" in sql and "OFFSET" in sql]
    assert len(asked) == 4  # the end of the first range, for the part and for the whole


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"@@hostname": [{**SERVER, "id": 99}]}, "comparison.other_server"),
        ({"SLAVE": []}, "comparison.replication"),
        ({"SLAVE": [link(Master_Host="another")]}, "comparison.replication"),
        ({"SLAVE": [link(), link(Connection_name="second")]}, "comparison.replication"),
        ({"@@log_bin": [{"logs": 0, "updates": 1}]}, "comparison.not_possible"),
    ],
)
def test_comparison_ends_where_it_can_never_go_on(answer: dict[str, Any], code: str) -> None:
    run = a_run(**answer)
    with pytest.raises(RemoteFailure) as failed:
        going_on(run)
    assert failed.value.code == code


def test_other_server_at_the_address_of_the_compared_one_is_no_measure() -> None:
    run = a_run()
    run.plan.source.server_id = run.plan.primary.server_id = 14
    with pytest.raises(RemoteFailure) as failed:
        going_on(run)
    assert failed.value.code == "comparison.other_server"


@pytest.mark.parametrize(
    "answer",
    [
        {"SLAVE": [link(Slave_SQL_Running="No")]},
        {"SLAVE": [link(Seconds_Behind_Master="61")]},
        {"SLAVE": [link(Seconds_Behind_Master=None)]},
    ],
)
def test_comparison_waits_for_replication_and_not_forever(answer: dict[str, Any]) -> None:
    run = a_run(**answer)
    found = going_on(run)
    assert (found.done, found.wait_seconds) == (False, continued.WAIT_SECONDS)
    assert found.result["waits"]
    run.clock.sleep(continued.PATIENCE_SECONDS + 1)
    with pytest.raises(RemoteFailure) as failed:
        going_on(run)
    assert failed.value.code == "comparison.not_possible"


def test_comparison_asks_before_it_stops_replication_and_knows_how_much_is_left() -> None:
    asked: list[str] = []
    run = a_run()
    connect = run.target.connect

    def connected(seconds: float) -> Any:
        server = connect(seconds)
        asked.append(server.asked)
        return server

    run.target = SimpleNamespace(connect=connected)
    found = going_on(run, "a rebuild reads it")
    assert found.result == {"waits": "a rebuild reads it"}
    assert run.checkpoint[RECORD]["total"] == {"tables": 3, "rows": 1500}  # big, and two after m
    assert not any("STOP" in sql for statements in asked for sql in statements)


def test_target_that_a_dead_driver_left_stopped_replicates_first() -> None:
    asked: list[list[str]] = []
    run = a_run(SLAVE=[link(Slave_SQL_Running="No")])
    connect = run.target.connect

    def connected(seconds: float) -> Any:
        server = connect(seconds)
        asked.append(server.asked)
        return server

    run.target = SimpleNamespace(connect=connected)
    run.checkpoint["certify.paused"] = True
    going_on(run)
    assert not run.checkpoint["certify.paused"]
    statements = [sql for one in asked for sql in one]
    assert [sql for sql in statements if sql.startswith(("STOP", "START"))] == ["STOP ALL SLAVES", "START ALL SLAVES"]


def differs(number: int, *, tries: int = 3) -> dict[str, Any]:
    return {
        "table": ["a", "big"],
        "range": [[number], [number + 1], None],
        "tries": tries,
        "error": "",
        "rows": f"id {number}",
    }


def test_each_differing_range_is_told_and_a_table_of_many_is_not_read_to_its_end() -> None:
    run = a_run()
    said: list[str] = []
    run.journal.say = lambda text, **more: said.append(text)
    record: dict[str, Any] = {"differences": [], "differing": 0, "left_out": {}}
    ranges = [differs(number) for number in range(continued.RANGES - 1)]
    state = {"again": [*ranges, differs(99, tries=1)], "whole": [["a", "big"]], "at": [1], "number": 7}
    continued._note_differing(run, record, state)
    assert record["differing"] == len(record["differences"]) == len(said) == continued.RANGES - 1
    assert record["differences"][0] == {"table": "a.big", "rows": "id 0"}
    assert (state["again"], state["whole"]) == ([differs(99, tries=1)], [["a", "big"]])
    state["again"] = [differs(99), differs(100, tries=1)]
    continued._note_differing(run, record, state)
    assert (state["again"], state["whole"], state["at"]) == ([], [], None)
    assert record["left_out"][continued.MANY]["count"] == 1


def test_rounds_without_a_common_position_end_it() -> None:
    run = a_run()
    for _ in range(continued.MISSES - 1):
        assert continued._missed(run, "no position").result["waits"] == "no position"
    with pytest.raises(RemoteFailure) as failed:
        continued._missed(run, "no position")
    assert failed.value.code == "comparison.not_possible"


@pytest.mark.parametrize(
    ("after", "until", "text"),
    [
        ((3, 7), (4, 1), "shop, id after 3, 7 up to 4, 1"),
        (None, (4, 1), "shop, id up to 4, 1"),
        (None, None, "all rows"),
        ((3, "a secret"), (4, "more"), "range 5 of 20000 rows each, in the order of shop, id"),
        ((b"\x00",), None, "range 5 of 20000 rows each, in the order of shop, id"),
    ],
)
def test_range_is_told_without_texts_of_keys(after: Any, until: Any, text: str) -> None:
    one = Compared(Table("a", "t"), "", ("shop", "id"))
    assert shown_range(one, Range(after=after, until=until), 5) == text
