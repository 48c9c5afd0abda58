"""A stream that is held to a rate, let go again, and cancelled while it is held."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dbops.engine.rebuilds.steps.source.throttle import SHOWN
from tests.slow_process import worker_of
from tests.stack import Stack, running_stack, wait_for

from .cancelling import ask_to_cancel
from .host_state import is_replicating, processes_of, same_data_at_one_gtid

pytestmark = pytest.mark.services
TARGET, SOURCE, MIB = "replica-1", "backup-1", 1024**2


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, size="160M") as running:
        yield running


@pytest.fixture(autouse=True)
def _no_rebuild_runs(stack: Stack) -> Iterator[None]:
    """What a test that failed has left is ended, so that the next one finds the replica free."""
    yield
    for row in stack.rows("SELECT id FROM dbops_rebuild WHERE status IN ('queued', 'running', 'lost')"):
        ask_to_cancel(stack, row["id"])
        wait_for("its end", lambda: last(stack)["status"] not in ("queued", "running", "lost"), 60)


def copied(stack: Stack, key: int) -> int:
    [row] = stack.rows("SELECT progress FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", key)
    return int(json.loads(row["progress"]).get("bytes") or 0)


def is_streaming(stack: Stack, key: int) -> bool:
    rows = stack.rows("SELECT state FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", key)
    return [row["state"] for row in rows] == ["running"]


def held_rate(stack: Stack, key: int, seconds: float = 8.0) -> float:
    """Return the bytes a second of some seconds in the middle."""
    before, began = next_count(stack, key)
    time.sleep(seconds)
    after, ended = next_count(stack, key)
    return (after - before) / (ended - began)


def next_count(stack: Stack, key: int) -> tuple[int, float]:
    """Return the bytes and the time of their measurement, which may be some seconds old."""
    bytes_before = copied(stack, key)
    wait_for("a newer count", lambda: copied(stack, key) != bytes_before, 30)
    return copied(stack, key), time.monotonic()


def last(stack: Stack) -> dict[str, Any]:
    [row] = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    return row


def began_held(stack: Stack, mib: int) -> int:
    """Ask for a rebuild, hold it before it has begun, and wait for bytes of its stream."""
    stack.wait_for_possible_plan(TARGET)
    later = f"at:{datetime.now(UTC) + timedelta(hours=2):%Y%m%dT%H%M00Z}"
    done = stack.manage("rebuild", TARGET, "--reason", "a test", "--json", "--start", later)
    key = int(json.loads(done.stdout.splitlines()[-1])["rebuild"])
    stack.manage("rebuild", TARGET, "--rate", str(mib))
    stack.write("UPDATE dbops_rebuild SET not_before = NULL WHERE id = ?", key)
    wait_for("bytes of the stream", lambda: copied(stack, key) > 0, 60)
    assert copied(stack, key) < 10 * mib * MIB, "it is held from its first byte on"
    return key


def test_stream_is_throttled_and_released(stack: Stack) -> None:
    stack.lab.load_start(tps=20)
    key = began_held(stack, 6)
    wait_for("the limit is logged", lambda: "6.0 MiB/s" in events_of(stack, key, "warning"), 60)
    seen = held_rate(stack, key)
    assert 3 * MIB < seen < 9 * MIB, f"{seen / MIB:.1f} MiB/s"
    assert is_streaming(stack, key)
    stack.manage("rebuild", TARGET, "--rate", "0")
    wait_for("its end", lambda: last(stack)["status"] not in ("queued", "running", "lost"), 120)
    assert last(stack)["status"] == "succeeded", last(stack)["error"]
    assert json.loads(last(stack)["checkpoint"])[SHOWN] is None, "it goes as fast as it can"
    same_data_at_one_gtid(stack, TARGET)
    wait_for("nothing of it runs", lambda: not processes_of(last(stack)["uid"]), 30)


def test_cancelled_throttled_stream_leaves_no_stopped_process(stack: Stack) -> None:
    key = began_held(stack, 2)
    wait_for("the limit is logged", lambda: "2.0 MiB/s" in events_of(stack, key, "warning"), 60)
    reader = worker_of(stack.lab.host(TARGET), "stream/unpack")
    assert reader is not None
    wait_for("the unpacking is stopped", lambda: "T" in [state_of(reader) for _ in range(100)], 60)
    for _ in range(100):  # never ssh: who does not answer keepalives is hung up on
        assert stopped(last(stack)["uid"]) == []
        time.sleep(0.02)
    ask_to_cancel(stack, key)
    wait_for("its end", lambda: last(stack)["status"] == "cancelled", 60)
    wait_for("nothing of it runs", lambda: not processes_of(last(stack)["uid"]) and not state_of(reader), 30)
    wait_for("the source replicates", lambda: is_replicating(stack, SOURCE), 30)


def events_of(stack: Stack, key: int, level: str = "%") -> str:
    rows = stack.rows("SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ? AND level LIKE ?", key, level)
    return "\n".join(row["text"] for row in rows)


def state_of(pid: int) -> str:
    """Return the letter of a process's state, empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stopped(uid: str) -> list[str]:
    """Return which processes that carry the run's id are stopped just now; the unpacking does not carry it."""
    return [line for line in processes_of(uid) if state_of(int(line.partition(":")[0])) == "T"]


def test_brake_slows_a_stream_while_servers_are_slow(stack: Stack) -> None:
    """A tenth of a millisecond is less than any login takes: so the brake finds both servers slow, and halves the rate."""
    stack.environment["DBOPS_AUTO_THROTTLE_LATENCY_MS"] = "0.1"
    stack.stop("worker")
    stack.start("worker")
    try:
        key = began_held(stack, 3)
        try:
            wait_for("the brake", lambda: (json.loads(last(stack)["checkpoint"]).get(SHOWN) or 3 * MIB) < 3 * MIB, 40)
        except AssertionError:
            raise AssertionError(f"{events_of(stack, key)}\n{last(stack)['checkpoint']}") from None
        ask_to_cancel(stack, key)
        wait_for("its end", lambda: last(stack)["status"] == "cancelled", 60)
    finally:
        del stack.environment["DBOPS_AUTO_THROTTLE_LATENCY_MS"]
        stack.stop("worker")
        stack.start("worker")
    wait_for("nothing of it runs", lambda: not processes_of(last(stack)["uid"]), 30)
