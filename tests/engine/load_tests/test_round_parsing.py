"""What the scripts wrote about a round, and how it ended."""

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.load_tests.round_parsing import parse_round
from dbops.engine.load_tests.round_result import RoundResult, Second, WaitShare
from dbops.engine.load_tests.rounds import Round

ONE = Round(number=4, step=2, threads=8, seconds=10, schemas=60)
GOOD = """round 4
ticks 100
server before 1000 1795709847.6
counter before Questions 100
counter before Name with_a_word
wait before wait/io/file/sql/binlog 10 1000000000000
server after 2500 1795709857.6
counter after Questions 5100
counter after Name with_a_word
wait after wait/io/file/sql/binlog 30 5000000000000
wait after wait/synch/mutex/new 4 2000000000000
dbops measuring 1795709847.500 0.500
dbops second 1 300 2 1.5
dbops second 2 0 0 -
dbops end 1795709857.500 5.500
dbops total 500 3 7 60 250
dbops latency 0.5 40.25 1000
dbops bucket 2.0 400
dbops bucket 40.5 100
dbops error 1213 3
dbops message 1213 Deadlock found; try "again"
status 0
words
"""


def test_a_round_is_read_whole() -> None:
    found = parse_round(GOOD, ONE)
    assert (found.number, found.queries, found.errors, found.unserved, found.schemas_visited, found.events) == (
        4,
        500,
        3,
        7,
        60,
        250,
    )
    assert (found.finished_at - found.started_at).total_seconds() == 10
    assert (found.min_ms, found.max_ms, found.average_ms) == (0.5, 40.25, 2.0)
    assert found.buckets == ((2.0, 400), (40.5, 100))
    assert found.seconds == (Second(1, 300, 2, 1.5), Second(2, 0, 0, None))
    assert (found.generator_cores, found.server_cores) == (pytest.approx(0.5), pytest.approx(1.5))
    assert found.counters == {"Questions": 5000}
    assert found.waits == (
        WaitShare("wait/io/file/sql/binlog", 20, 4.0, 0.05),
        WaitShare("wait/synch/mutex/new", 4, 2.0, 0.025),
    )
    assert (found.errors_by_number, found.last_error.split()[:2]) == ({1213: 3}, ["1213", "Deadlock"])


def test_connection_to_another_host_counts_for_the_generator_and_by_its_busiest_process() -> None:
    lines = "dbops tunnel relay-of-generator 0.25\ndbops tunnel relay-of-server 0.5\ndbops tunnel ssh 0.375\nstatus 0\n"
    found, alone = parse_round(GOOD.replace("status 0\n", lines), ONE), parse_round(GOOD, ONE)
    assert alone.generator_cores is not None
    assert (found.generator_cores, found.tunnel_cores) == (alone.generator_cores + 0.25, 0.5)
    assert alone.tunnel_cores is None


def test_a_server_that_was_not_looked_at_is_unknown() -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(("server", "counter", "wait")))
    found = parse_round(text, ONE)
    assert (found.server_cores, found.counters, found.waits) == (None, {}, ())


def ended(status: int, words: str = "", *lines: str) -> str:
    return "\n".join(["round 4", "ticks 100", *lines, f"status {status}", f"words {words}"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ended(137, "dbops measuring 1 1"), "load_test.generator"),
        (ended(124), "load_test.generator"),
        (ended(1, "FATAL: something"), "load_test.generator"),
        (ended(1, "FATAL: error 1040: Too many connections"), "load_test.connections"),
        (ended(1, "", "dbops ended 1040 Too many connections"), "load_test.connections"),
        (ended(1, "", "dbops ended 1146 Table x doesn't exist"), "load_test.statements_fail"),
        (ended(1, "", "dbops ended 1114 The table is full"), "load_test.full"),
        (ended(1, "", "dbops ended 1030 Got error 28 No space left on device"), "load_test.full"),
        (ended(125, "", "dbops ended 2013 Lost connection"), "load_test.server_ended"),
        (ended(0), "load_test.unreadable"),
        ("", "load_test.unreadable"),
        (GOOD.replace("status 0\n", ""), "load_test.unreadable"),
        (GOOD.replace("dbops end 1795709857.500", "dbops end 1795709847.500"), "load_test.unreadable"),
        (GOOD.replace("total 500", "total x"), "load_test.unreadable"),
        (GOOD.replace("dbops measuring", "dbops other"), "load_test.unreadable"),
        (GOOD.replace("total 500 3", "total 0 3"), "load_test.statements_fail"),
    ],
)
def test_each_end_has_its_code(text: str, code: str) -> None:
    with pytest.raises(RemoteFailure) as caught:
        parse_round(text, ONE)
    assert caught.value.code == code


@pytest.mark.parametrize("cut", range(0, len(GOOD), 7))
def test_a_text_that_is_cut_is_never_another_result(cut: int) -> None:
    whole: RoundResult | None = None
    try:
        whole = parse_round(GOOD[:cut], ONE)
    except RemoteFailure:
        return
    assert whole == parse_round(GOOD, ONE)
