"""The rest of a full certificate after success: what differs is found, under writes, also if a worker dies. Real MariaDB servers."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cancelling import at_step
from tests.e2e.host_state import is_replicating, last_rebuild, one
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
ROWS, RANGE = 45_000, 20_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Have no time for rows before success, so that all of them are compared after it."""
    with running_stack() as running:
        running.environment |= {"DBOPS_CERTIFICATE_SECONDS": "0", "DBOPS_COMPARISON_PAUSE_SECONDS": "1"}
        running.stop("worker")
        running.start("worker")
        one(running, PRIMARY, "CREATE DATABASE shopping")
        one(running, PRIMARY, "CREATE TABLE shopping.archive (id INT PRIMARY KEY, body VARCHAR(1000))")
        fill = f"INSERT INTO shopping.archive SELECT seq, REPEAT(MD5(seq), 16) FROM shopping.seq_1_to_{ROWS}"
        one(running, PRIMARY, fill)
        last = f"SELECT 1 FROM shopping.archive WHERE id = {ROWS}"
        wait_for("the rows on the source", lambda: one(running, SOURCE, last), 60)
        one(running, SOURCE, "ANALYZE NO_WRITE_TO_BINLOG TABLE shopping.archive")
        yield running


def comparison(stack: Stack) -> dict[str, Any]:
    """Return the newest comparison with its record."""
    [row] = stack.rows("SELECT * FROM dbops_rowcomparison ORDER BY id DESC LIMIT 1")
    return {**row, "record": json.loads(row["checkpoint"]).get("comparison"), "error": json.loads(row["error"])}


def ended(stack: Stack) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        row = comparison(stack)
        return row if row["finished_at"] else None

    row: dict[str, Any] = wait_for("the end of the comparison", found, 90)
    return row


def rebuilt(stack: Stack) -> None:
    stack.wait_for_possible_plan(TARGET, "--full-certificate")
    _, lines = stack.rebuild(TARGET, "--full-certificate", check=False)
    assert lines[-1]["status"] == "succeeded", lines[-1]


@pytest.mark.situation(
    "equal", "full: what the time before success did not suffice for is compared after it, also if a worker dies"
)
def test_changed_byte_is_found_after_success_under_writes_also_if_the_worker_dies(stack: Stack) -> None:
    change = "UPDATE shopping.archive SET body = INSERT(body, 300, 1, '#') WHERE id = 31234"

    def harm() -> None:
        with stack.lab.connect(TARGET) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(change)

    def first_round() -> bool:
        found = comparison(stack)["record"]
        return bool(found and found["rows"]["count"] > RANGE)

    stack.lab.load_start(tps=20)
    try:
        with at_step(stack, "catch-up", harm):
            rebuilt(stack)
        assert last_rebuild(stack)["status"] == "succeeded"
        wait_for("the first round", first_round, 60, every_seconds=0.02)
        stack.stop("worker", signal.SIGKILL)
        assert not comparison(stack)["finished_at"]
        stack.start("worker")
        found = ended(stack)
    finally:
        stack.lab.load_stop()
    assert (found["status"], found["error"]["code"]) == ("failed", "comparison.differs"), found
    assert found["record"]["differences"] == [
        {"table": "shopping.archive", "rows": f"id after {RANGE + 1} up to {2 * RANGE + 2}"}
    ], found["record"]
    # continued where the dead worker stopped: no table and no range is counted twice
    assert found["record"]["rows"]["ranges"] == 2
    assert found["record"]["left_out"] == {}
    assert (found["differing"], found["is_current"], found["is_pausing"]) == (1, 1, 0)
    assert "certify.rows" not in json.loads(found["checkpoint"])
    assert is_replicating(stack, TARGET)
    actions = stack.rows("SELECT action FROM dbops_auditentry WHERE action LIKE 'comparison.%' ORDER BY sequence")
    words = [row["action"].partition(".")[2] for row in actions]
    assert words[:2] == ["queued", "started"]
    assert words[-1] == "failed"
    session = stack.session_key()
    page = stack.get(f"/rebuilds/{found['rebuild_id']}/", session).decode()
    assert 'data-comparison="failed"' in page
    assert 'data-differing="1"' in stack.get("/clusters/test/", session).decode()


@pytest.mark.situation("equal", "full: an equal copy is compared to its end under writes; rebuilding ends the problem")
def test_equal_copy_is_compared_to_the_end_under_writes_and_replaces_the_problem(stack: Stack) -> None:
    stack.lab.load_start(tps=20)
    try:
        rebuilt(stack)
        found = ended(stack)
    finally:
        stack.lab.load_stop()
    assert (found["status"], found["error"], found["differing"]) == ("succeeded", {}, 0), found
    assert found["record"]["rows"]["ranges"] == 3
    assert found["record"]["rows"]["count"] > ROWS
    assert found["record"]["rows"]["tables"] == found["record"]["total"]["tables"]
    assert is_replicating(stack, TARGET)
    assert "data-differing" not in stack.get("/clusters/test/").decode()
