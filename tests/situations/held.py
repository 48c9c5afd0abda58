"""A rebuild that is held in its stream or its preparation, so that something can happen to it there."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.cancelling import ask_to_cancel
from tests.e2e.host_state import is_replicating
from tests.faults.injectors import hosts, tools
from tests.slow_process import braked, worker_of
from tests.stack import Stack, wait_for

SOURCE, TARGET = "backup-1", "replica-1"
PREPARATION = "prepare/prepare"
UNFINISHED = ("queued", "running", "lost")


def row_of(stack: Stack, key: int) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_rebuild WHERE id = ?", key)[0]


def begin(stack: Stack, while_queued: Callable[[], object]) -> int:
    """Request a rebuild of the target as soon as its plan is possible, and let it start; return its id."""
    stack.wait_for_possible_plan(TARGET)
    later = f"at:{datetime.now(UTC) + timedelta(hours=2):%Y%m%dT%H%M00Z}"
    done = stack.manage("rebuild", TARGET, "--reason", "a test", "--json", "--start", later)
    key = int(json.loads(done.stdout.splitlines()[-1])["rebuild"])
    while_queued()
    stack.write("UPDATE dbops_rebuild SET not_before = NULL WHERE id = ?", key)
    return key


@contextmanager
def held_stream(stack: Stack, while_queued: Callable[[], object] = lambda: None) -> Iterator[int]:
    """Begin a rebuild and hold its stream until the block ends; yield its id. ``while_queued`` is called before it starts."""
    with braked(stack.lab.host(TARGET), share=0) as brake:
        key = begin(stack, while_queued)
        wait_for("a stream that is held", lambda: brake.held or ended(stack, key), 90)
        assert not ended(stack, key), row_of(stack, key)["error"]
        hosts.wait_for_backup(stack.lab.host(SOURCE), row_of(stack, key)["uid"])
        yield key


@contextmanager
def held_preparations(stack: Stack) -> Iterator[None]:
    """Hold each preparation at its begin until the block ends."""
    target = stack.lab.host(TARGET)
    tools.install(target)
    tools.order(target, "is held", "prepare")
    try:
        yield
    finally:
        if pid := worker_of(target, PREPARATION):
            os.kill(pid, signal.SIGCONT)
        tools.remove(target)


def wait_for_held_preparation(stack: Stack, key: int) -> None:
    target = stack.lab.host(TARGET)
    wait_for("a preparation that is held", lambda: worker_of(target, PREPARATION) or ended(stack, key), 60)
    assert not ended(stack, key), row_of(stack, key)["error"]


def ended(stack: Stack, key: int) -> bool:
    return row_of(stack, key)["status"] not in UNFINISHED


def wait_for_end(stack: Stack, key: int, seconds: float = 120.0) -> dict[str, Any]:
    wait_for(f"the end of rebuild {key}", lambda: ended(stack, key), seconds)
    return row_of(stack, key)


def holders(stack: Stack, key: int) -> set[str]:
    """Return the instances that the rebuild holds."""
    sql = "SELECT i.name FROM dbops_hold h JOIN dbops_instance i ON i.id = h.instance_id WHERE h.rebuild_id = ?"
    return {row["name"] for row in stack.rows(sql, key)}


def warnings(stack: Stack, key: int) -> list[str]:
    sql = "SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ? AND level IN ('warning', 'error') ORDER BY id"
    return [row["text"] for row in stack.rows(sql, key)]


def leave_working_replica(stack: Stack) -> None:
    """Cancel what a failed test left, and let the old data serve again, or else rebuild the replica."""
    for row in stack.rows("SELECT id FROM dbops_rebuild WHERE status IN ('queued', 'running', 'lost')"):
        ask_to_cancel(stack, row["id"])
        wait_for_end(stack, row["id"])
    if not works(stack) and stack.rebuild(TARGET, "--roll-back", check=False)[0] == 0:
        wait_for("replication", lambda: works(stack), 60)
    if not works(stack):
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)


def works(stack: Stack) -> bool:
    return stack.lab.host(TARGET).server_pid() is not None and is_replicating(stack, TARGET)
