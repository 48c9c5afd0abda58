"""A rebuild whose dashboard loses Redis or a part of its database, or is not the only one."""

import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dbops.engine.catalogue import CATALOGUE
from tests.e2e.host_state import is_replicating, last_rebuild, same_data_at_one_gtid, source_is_given_back, when_step
from tests.faults.scene import binlog_format
from tests.faults.watch import applies
from tests.stack import DATABASE, Stack, wait_for

from .held import SOURCE, TARGET, held_stream, leave_working_replica, row_of, wait_for_end, warnings

pytestmark = pytest.mark.services
PROCESSES = ("worker", "beat", "web", "redis")
#: Limits that the test of Redis waits for: the guard's patience with a paused source, and one tick of the worker.
GUARD_SECONDS, TICK_SECONDS = 20, 5


@pytest.fixture(autouse=True)
def replica_again(stack: Stack) -> Iterator[None]:
    """End each test with a replica that replicates."""
    yield
    leave_working_replica(stack)


@contextmanager
def impatient_guard(stack: Stack) -> Iterator[None]:
    """Pause the source for each copy, under a guard that gives it back after a shorter silence."""

    def restart(settings: dict[str, str]) -> None:
        stack.worker_settings = settings
        stack.stop("worker")
        stack.start("worker")

    restart({"DBOPS_GUARD_HEARTBEAT_SECONDS": str(GUARD_SECONDS), "DBOPS_TICK_SECONDS": str(TICK_SECONDS)})
    try:
        binlog_format(stack, "STATEMENT")
        yield
    finally:
        restart({})
        binlog_format(stack, "ROW")


def is_driven(stack: Stack, key: int, seconds: float) -> None:
    """Observe for that time that a driver works on the rebuild."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        row = row_of(stack, key)
        silence = datetime.now(UTC) - datetime.fromisoformat(f"{row['heartbeat_at']}+00:00")
        assert (row["status"], silence.total_seconds() < GUARD_SECONDS / 2) == ("running", True), silence
        time.sleep(1)


@pytest.mark.situation("G1", "the same worker continues; the source stays paused, and the rebuild succeeds")
def test_rebuild_continues_while_redis_is_away(stack: Stack) -> None:
    with impatient_guard(stack):
        with held_stream(stack) as key:
            wait_for("a paused source", lambda: not applies(stack, SOURCE))
            os.killpg(stack.processes["redis"].pid, signal.SIGSTOP)
            try:
                is_driven(stack, key, GUARD_SECONDS / 2)
                stack.stop("redis", signal.SIGKILL)
                is_driven(stack, key, GUARD_SECONDS / 2 + 2 * TICK_SECONDS)
                assert not applies(stack, SOURCE)
            finally:
                if "redis" in stack.processes:
                    stack.stop("redis", signal.SIGKILL)
                stack.start("redis")
        row = wait_for_end(stack, key)
        assert row["status"] == "succeeded", row["error"]
        taken = stack.rows("SELECT * FROM dbops_auditentry WHERE action = 'rebuild.taken_over'")
        assert [item for item in taken if json.loads(item["detail"])["rebuild"] == key] == []
        source_is_given_back(stack, row["uid"])


def copy_database(stack: Stack, copy: Path) -> bool:
    with closing(sqlite3.connect(stack.folder / DATABASE)) as now, closing(sqlite3.connect(copy)) as kept:
        now.backup(kept)
        kept.execute("UPDATE dbops_rebuild SET not_before = NULL")
        kept.commit()
    return True


@contextmanager
def copied_in(stack: Stack, step: str, copy: Path) -> Iterator[None]:
    """Copy the dashboard's database as it is when a rebuild of the block is in this step."""
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(when_step, stack, step, lambda: copy_database(stack, copy), done)
        try:
            yield
        finally:
            done.set()
            copying.result(60)


def put_back(stack: Stack, copy: Path, key: int) -> None:
    """Kill every process of the dashboard, put an older copy of its database back, and start them again."""
    for name in PROCESSES:
        stack.stop(name, signal.SIGKILL)
    for file in stack.folder.glob(f"{DATABASE}*"):
        file.unlink()
    shutil.copy(copy, stack.folder / DATABASE)
    assert not json.loads(row_of(stack, key)["checkpoint"]).get("touched")
    stack.start(*PROCESSES)


def says_where_the_old_data_is(stack: Stack, row: dict[str, Any]) -> None:
    error = json.loads(row["error"])
    assert row["status"] == "failed", row
    assert error["state"] == CATALOGUE["host.journal_ahead"].state
    assert f"{stack.lab.host(TARGET).folder}/data.dbops-old-{row['uid']}" in row["outcome"], stack.state_of_rebuilds()
    source_is_given_back(stack, row["uid"])


@pytest.mark.situation("F6", "the hosts' journals are read: jobs end, and the outcome says where the old data is")
def test_rebuild_knows_what_an_older_database_does_not(stack: Stack, tmp_path: Path) -> None:
    queued, opened = tmp_path / "queued", tmp_path / "opened"
    with copied_in(stack, "open-access", opened), held_stream(stack, lambda: copy_database(stack, queued)) as key:
        put_back(stack, opened, key)
        row = wait_for_end(stack, key)
        assert json.loads(row["error"])["code"] == "host.journal_ahead"
        says_where_the_old_data_is(stack, row)
    put_back(stack, queued, key)
    row = wait_for_end(stack, key)
    assert json.loads(row["error"])["code"] == "plan.changed"
    says_where_the_old_data_is(stack, row)
    stack.rebuild(TARGET, "--roll-back")
    wait_for("replication", lambda: is_replicating(stack, TARGET), 60)


@contextmanager
def second_dashboard(stack: Stack, state: Path) -> Iterator[Stack]:
    state.mkdir(mode=0o700)
    other = Stack(state, stack.lab)
    # It must not see the first one's backup on the source: it would wait for that.
    other.environment |= {"DBOPS_PROBE_INTERVAL_SECONDS": "600", "DBOPS_FACTS_MAX_AGE_SECONDS": "600"}
    try:
        other.begin(web=False)
        other.manage("fleet", "import", str(stack.lab.fleet_yaml))
        other.wait_for_first_facts()
        yield other
    finally:
        other.stop_all()


@pytest.mark.situation("F4", "the second is refused as busy and names the first, which succeeds")
def test_second_dashboard_does_not_disturb_a_rebuild(stack: Stack, tmp_path: Path) -> None:
    with second_dashboard(stack, tmp_path / "state") as other:
        with held_stream(stack) as key:
            uid = row_of(stack, key)["uid"]
            other.wait_for_facts(TARGET)
            other.rebuild(TARGET, check=False)
            refused = last_rebuild(other)
        row = wait_for_end(stack, key)
    assert row["status"] == "succeeded", row["error"]
    assert (refused["status"], json.loads(refused["error"])["code"]) == ("failed", "host.other_dashboard")
    assert uid in json.loads(refused["error"])["cause"]
    assert warnings(other, refused["id"]) != []
    same_data_at_one_gtid(stack, TARGET)
    source_is_given_back(stack, uid)
