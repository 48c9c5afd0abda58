"""Settings of a real server that are relaxed while its copy rolls forward, and the effect of a crash during that time."""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from lab.errors import LabError
from tests.faults.injectors.hosts import kill_server
from tests.stack import Stack, wait_for
from tests.whole_file import write_whole

from .cancelling import ask_to_cancel
from .host_state import TABLES, is_replicating, last_rebuild, one, same_data_at_one_gtid, source_is_given_back

pytestmark = pytest.mark.services

#: Unusual values, and what they become.
OWN = {"innodb_flush_log_at_trx_commit": 3, "sync_binlog": 7, "slave_parallel_threads": 1}
READ = "SELECT " + ", ".join(f"@@GLOBAL.{name} AS {name}" for name in OWN)


@pytest.fixture(scope="module")
def own(stack: Stack) -> Iterator[Stack]:
    """The target's option file holds settings of its own."""
    host = stack.lab.host("replica-1")
    text = host.config_file.read_text()
    write_whole(host.config_file, text + "[mysqld]\n" + "".join(f"{name} = {value}\n" for name, value in OWN.items()))
    host.stop_server()
    host.start_server()
    assert settings_of(stack) == OWN
    stack.lab.load_start(tps=50)
    try:
        yield stack
    finally:
        stack.lab.load_stop()
        write_whole(host.config_file, text)
        host.stop_server()
        host.start_server()


def settings_of(stack: Stack) -> dict[str, int]:
    return {name: int(value) for name, value in one(stack, "replica-1", READ).items()}


def commands_of(stack: Stack) -> dict[str, str]:
    rows = stack.rows(
        'SELECT "key" AS k, text FROM dbops_executedcommand WHERE rebuild_id = ?'
        " AND (\"key\" LIKE 'relax.%' OR \"key\" LIKE 'restore.%') AND finished_at IS NOT NULL",
        last_rebuild(stack)["id"],
    )
    return {row["k"]: row["text"] for row in rows}


def events_of(stack: Stack) -> str:
    rows = stack.rows("SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ?", last_rebuild(stack)["id"])
    return "\n".join(row["text"] for row in rows)


def newest(stack: Stack) -> int:
    return int(stack.rows("SELECT coalesce(max(id), 0) AS id FROM dbops_rebuild")[0]["id"])


def is_started(stack: Stack, known: int) -> bool:
    sql = "SELECT 1 FROM dbops_rebuildstep WHERE rebuild_id > ? AND name = 'start' AND state IN ('running', 'done')"
    return bool(stack.rows(sql, known))


def held_tables(stack: Stack) -> Any:
    """Return a connection that locks the tables of the load against writes, ``None`` while the server does not grant that.

    Some may be locked while a transaction that waits to commit after another one has the rest: only the caller can end that.
    """
    try:
        connection = stack.lab.connect("replica-1")
    except (LabError, pymysql.Error):
        return None
    try:
        with connection.cursor() as cursor:
            cursor.execute(TABLES)
            tables = ", ".join(f"{row['name']} READ" for row in cursor.fetchall())
            cursor.execute("SET SESSION lock_wait_timeout = 1")
            cursor.execute(f"LOCK TABLES {tables}")
    except pymysql.OperationalError:  # the second is over, or the server is
        connection.close()
        return None
    return connection


@contextmanager
def while_relaxed(stack: Stack, act: Callable[[], Any]) -> Iterator[None]:
    """Hold the roll-forward from its first transaction on, and do something once everything is relaxed."""
    known = newest(stack)

    def hold() -> dict[str, int]:
        wait_for("the start of the new server", lambda: is_started(stack, known), 120)
        # Less than a second is between its start and the first transaction.
        connection = wait_for("the new server", lambda: held_tables(stack), 60, every_seconds=0.01)
        try:
            wait_for("relaxed settings", lambda: "relax.1.slave_parallel_threads" in commands_of(stack), 60)
            wait_for("replication", lambda: is_replicating(stack, "replica-1"), 30)
            found = settings_of(stack)
            act()
            return found
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        yield
        relaxed = holding.result(120)
    assert (relaxed["innodb_flush_log_at_trx_commit"], relaxed["sync_binlog"]) == (2, 0)
    assert relaxed["slave_parallel_threads"] >= 4


def rebuild(stack: Stack) -> dict[str, Any]:
    stack.rebuild("replica-1", check=False)
    return last_rebuild(stack)


@pytest.mark.runs("MariaDB 10.11", "catch-up")
def test_settings_are_relaxed_and_restored(own: Stack) -> None:
    own.wait_for_possible_plan("replica-1")
    with while_relaxed(own, lambda: None):
        ended = rebuild(own)
    assert ended["status"] == "succeeded", own.state_of_rebuilds()
    assert settings_of(own) == OWN
    assert commands_of(own)["restore.1.sync_binlog"] == "SET GLOBAL sync_binlog = 7"
    assert "sync_binlog = 7" in events_of(own)
    assert not {"relaxed", "undurable"} & set(json.loads(ended["checkpoint"]))


def test_cancel_restores_relaxed_settings(own: Stack) -> None:
    own.wait_for_possible_plan("replica-1")
    with while_relaxed(own, lambda: ask_to_cancel(own, last_rebuild(own)["id"])):
        ended = rebuild(own)
    assert ended["status"] == "cancelled", own.state_of_rebuilds()
    assert settings_of(own) == OWN
    source_is_given_back(own, ended["uid"])


def test_killed_server_continues_with_committed_data(own: Stack) -> None:
    host = own.lab.host("replica-1")

    def kill() -> None:
        kill_server(host)
        host.start_server()

    own.wait_for_possible_plan("replica-1")
    with while_relaxed(own, kill):
        ended = rebuild(own)
    assert ended["status"] == "succeeded", own.state_of_rebuilds()
    assert settings_of(own) == OWN
    # the look found the server gone, or another one in its place
    assert any(word in events_of(own) for word in ("restarted", "no longer runs")), events_of(own)
    same_data_at_one_gtid(own, "replica-1")
    own.lab.load_start(tps=50)


def test_restarted_host_makes_the_copy_worthless(own: Stack) -> None:
    """The hosts of a lab are one machine, so what the rebuild remembers of the boot is changed, not the boot."""

    def another_boot() -> None:
        own.stop("worker", signal.SIGTERM)
        row = last_rebuild(own)
        checkpoint = json.loads(row["checkpoint"])
        checkpoint["undurable"]["boot"] = "another boot"
        own.write("UPDATE dbops_rebuild SET checkpoint = ? WHERE id = ?", json.dumps(checkpoint), row["id"])
        own.start("worker")

    own.wait_for_possible_plan("replica-1")
    with while_relaxed(own, another_boot):
        ended = rebuild(own)
    assert (ended["status"], json.loads(ended["error"])["code"]) == ("failed", "copy.worthless"), (
        own.state_of_rebuilds()
    )
    assert settings_of(own) == OWN
    assert "unusable" in ended["outcome"]
    source_is_given_back(own, ended["uid"])
    again = own.manage("rebuild", "replica-1", "--resume", "--reason", "a test", check=False)
    assert again.returncode != 0
