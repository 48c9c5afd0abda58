"""One read of the source for three replicas: all of them whole, one that breaks off, one that reads and is cancelled."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dbops.engine.rebuilds.shared_read import FOLLOWERS
from tests.programs import is_mysql
from tests.slow_process import braked
from tests.stack import Stack, running_stack, wait_for

from .cancelling import ask_to_cancel
from .host_state import is_replicating, one, processes_of, same_data_at_one_gtid

pytestmark = pytest.mark.services

MIB = 1024**2
#: Small against the copy, so that who may be no further ahead is soon there.
BUFFER_BYTES = 16 * MIB
REPLICAS = ("replica-1", "replica-2", "replica-3")
FINAL = "('succeeded', 'failed', 'cancelled', 'expired')"


@contextmanager
def three_replicas(flavor: str = "mariadb") -> Iterator[Stack]:
    with running_stack(web=False, replicas=3, size="96M", flavor=flavor) as running:
        # the pause is what is shared: with statements it is needed
        # MySQL's replicas that write statements refuse the rows of a primary
        names = ("primary-1", "backup-1") if is_mysql(running.lab.primary) else ("backup-1",)
        for name in names:
            one(running, name, "SET GLOBAL binlog_format = STATEMENT")
        running.wait_for_facts("backup-1", answering=True)
        running.environment["DBOPS_SHARED_READ_STALL_SECONDS"] = "4"
        running.environment["DBOPS_SHARED_READ_BUFFER_BYTES"] = str(BUFFER_BYTES)
        running.stop("worker")
        running.start("worker")
        yield running


@pytest.fixture(scope="module")
def three() -> Iterator[Stack]:
    with three_replicas() as running:
        yield running


def ask(stack: Stack, target: str, *words: str) -> int:
    done = stack.manage("rebuild", target, "--reason", "a test", "--json", *words)
    return int(json.loads(done.stdout.splitlines()[-1])["rebuild"])


def ask_for_three(stack: Stack) -> list[int]:
    """The first is to start later, so that the others join it while it waits; then it starts at once."""
    for name in REPLICAS:
        stack.wait_for_possible_plan(name)
    later = f"{datetime.now(UTC) + timedelta(hours=2):at:%Y%m%dT%H%M00Z}"
    first = ask(stack, REPLICAS[0], "--start", later)
    keys = [first, *(ask(stack, name, "--with", REPLICAS[0]) for name in REPLICAS[1:])]
    assert [row["status"] for row in rebuilds(stack, keys)] == ["queued"] * 3
    stack.write("UPDATE dbops_rebuild SET not_before = NULL WHERE id = ?", first)
    return keys


def rebuilds(stack: Stack, keys: list[int]) -> list[dict[str, Any]]:
    marks = ", ".join("?" for _ in keys)
    return stack.rows(f"SELECT * FROM dbops_rebuild WHERE id IN ({marks}) ORDER BY id", *keys)  # noqa: S608


def events(stack: Stack, key: int) -> str:
    return "\n".join(
        row["text"] for row in stack.rows("SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ? ORDER BY id", key)
    )


def followers(stack: Stack, key: int) -> set[str]:
    """Return the targets for which this rebuild read."""
    [row] = rebuilds(stack, [key])
    return set(json.loads(row["checkpoint"])[FOLLOWERS].values())


def pauses(stack: Stack, key: int) -> int:
    """Return how often this rebuild paused the source and left it so for the copy."""
    rows = stack.rows(
        'SELECT "key" AS k FROM dbops_executedcommand WHERE rebuild_id = ? AND "key" LIKE \'pause.%\'', key
    )
    tried_again = sum(row["k"].endswith(".resume") for row in rows)
    return len(rows) - 2 * tried_again


def copies(stack: Stack, key: int) -> frozenset[str]:
    """Return the uuid of each backup in the events of the copy step; before a colon it is a MySQL server's, of its GTIDs."""
    rows = stack.rows("SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ? AND step = 'stream'", key)
    return frozenset(
        found
        for row in rows
        for found in re.findall(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b(?!:)", row["text"])
    )


def wait_for_the_end(stack: Stack, keys: list[int]) -> list[str]:
    def ended() -> bool:
        return all(row["status"] in FINAL for row in rebuilds(stack, keys))

    try:
        wait_for("the end of all", ended, 240)
    except AssertionError:
        found = "\n\n".join(
            f"{row['id']} {row['status']} {row['error']}\n{events(stack, row['id'])}" for row in rebuilds(stack, keys)
        )
        raise AssertionError(f"{found}\n{stack.tail('worker')}") from None
    return [row["status"] for row in rebuilds(stack, keys)]


def copied(stack: Stack, key: int) -> int:
    [row] = stack.rows("SELECT progress FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", key)
    return int(json.loads(row["progress"]).get("bytes") or 0)


def wait_for_bytes(stack: Stack, key: int) -> None:
    wait_for(
        "bytes of the stream",
        lambda: stack.rows(
            "SELECT 1 FROM dbops_rebuildstep s JOIN dbops_rebuild r ON r.id = s.rebuild_id"
            " WHERE r.id = ? AND s.name = 'stream' AND s.state = 'running' AND r.checkpoint LIKE '%stream.bytes%'",
            key,
        ),
        120,
    )


def nothing_is_left(stack: Stack, keys: list[int]) -> None:
    assert stack.rows("SELECT * FROM dbops_hold") == []
    source = stack.lab.host("backup-1")
    keys_file = source.folder / "authorized_keys"
    for row in rebuilds(stack, keys):
        wait_for("its processes end", lambda uid=row["uid"]: not processes_of(uid), 30)
        assert f"dbops-{row['uid']}" not in keys_file.read_text()
    wait_for("the source replicates", lambda: is_replicating(stack, "backup-1"), 30)


@pytest.mark.runs("MariaDB 10.11", "shared read")
def test_shared_read_rebuilds_three_replicas_under_load(three: Stack) -> None:
    three.lab.load_start(tps=100)
    keys = ask_for_three(three)
    assert wait_for_the_end(three, keys) == ["succeeded"] * 3, [row["error"] for row in rebuilds(three, keys)]
    for name in REPLICAS:
        same_data_at_one_gtid(three, name)
    nothing_is_left(three, keys)
    assert followers(three, keys[0]) == {"replica-2", "replica-3"}
    assert [pauses(three, key) for key in keys] == [1, 0, 0]
    [copied] = {copies(three, key) for key in keys}
    assert len(copied) == 1, "one backup, by the uuid that the tool gave it"


@pytest.fixture
def narrow(three: Stack) -> Iterator[Stack]:
    """The same lab, all of whose links were measured to be those of 1 GbE."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    result = json.dumps({"rates": {"aes128-gcm@openssh.com": 112.0 * MIB}, "ciphers_offered": ""})
    hosts = {row["name"]: row["id"] for row in three.rows("SELECT id, name FROM dbops_host")}
    for name in REPLICAS:
        three.write(
            "INSERT INTO dbops_connectiontest (kind, uid, requested_by, requested_at, status, finished_at, result, error,"
            " host_id, source_host_id) VALUES ('stream', ?, 'dbops', ?, 'passed', ?, ?, '{}', ?, ?)",
            *(f"narrow-{name}", now, now, result, hosts[name], hosts["backup-1"]),
        )
    yield three
    three.write("DELETE FROM dbops_connectiontest WHERE uid LIKE 'narrow-%'")


def test_shared_read_compresses_once_for_three_replicas(narrow: Stack) -> None:
    keys = ask_for_three(narrow)
    plans = [json.loads(row["plan"]) for row in rebuilds(narrow, keys)]
    assert [plan["compress_threads"] > 0 and not plan["compresses_itself"] for plan in plans] == [True] * 3
    assert wait_for_the_end(narrow, keys) == ["succeeded"] * 3, [row["error"] for row in rebuilds(narrow, keys)]
    for name in REPLICAS:
        same_data_at_one_gtid(narrow, name)
    nothing_is_left(narrow, keys)
    assert followers(narrow, keys[0]) == {"replica-2", "replica-3"}
    [copied] = {copies(narrow, key) for key in keys}
    assert len(copied) == 1, "one backup, so it was compressed once"
    for key, plan in zip(keys, plans, strict=True):
        [step] = narrow.rows("SELECT result FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", key)
        assert json.loads(step["result"])["bytes"] > 0.8 * plan["bytes_to_copy"], "the logged bytes were unpacked"
        commands = narrow.rows("SELECT text FROM dbops_executedcommand WHERE rebuild_id = ? AND step = 'stream'", key)
        assert any("zstd -q -d -c |" in row["text"] for row in commands), "which reads nothing that is not compressed"


def rebuild_again(stack: Stack, key: int, target: str) -> dict[str, Any]:
    """Let a person repeat a rebuild. Return the row of the new one at its end."""
    assert stack.rows("SELECT 1 FROM dbops_rebuild WHERE follows_id = ?", key) == [], "nothing starts without a person"
    stack.wait_for_possible_plan(target)
    again = int(json.loads(stack.manage("rebuild", target, "--again", "--json").stdout.splitlines()[-1])["rebuild"])
    wait_for_the_end(stack, [again])
    [row] = rebuilds(stack, [again])
    assert (row["follows_id"], row["leader_id"]) == (key, None)
    return row


def drop(stack: Stack, number: int) -> list[int]:
    """Rebuild all three; the link of one of them stalls until the others have ended."""
    keys = ask_for_three(stack)
    others = [key for key in keys if key != keys[number]]
    with braked(stack.lab.host(REPLICAS[number]), share=0) as brake:
        wait_for("the others end", lambda: all(row["status"] in FINAL for row in rebuilds(stack, others)), 240)
    statuses = wait_for_the_end(stack, keys)
    expected = ["failed" if key == keys[number] else "succeeded" for key in keys]
    assert statuses == expected, (brake.held, [row["error"] for row in rebuilds(stack, keys)])
    return keys


def test_stalled_follower_is_dropped_and_rebuilt_again(three: Stack) -> None:
    keys = drop(three, 1)
    assert json.loads(rebuilds(three, keys)[1]["error"])["code"] == "shared.dropped"
    again = rebuild_again(three, keys[1], "replica-2")
    assert again["status"] == "succeeded", again["error"]
    assert json.loads(again["checkpoint"])["incomplete_copy_tree"], "the incomplete copy was identified"
    nothing_is_left(three, [*keys, again["id"]])
    same_data_at_one_gtid(three, "replica-2")


def test_stalled_leader_is_dropped_and_rebuilt_again(three: Stack) -> None:
    keys = drop(three, 0)
    again = rebuild_again(three, keys[0], "replica-1")
    assert again["status"] == "succeeded", again["error"]
    nothing_is_left(three, [*keys, again["id"]])
    same_data_at_one_gtid(three, "replica-1")


def test_file_added_to_an_incomplete_copy_is_detected(three: Stack) -> None:
    """The directory is the same one, with its mark, and no server runs: only its content differs."""
    keys = drop(three, 1)
    note = three.lab.host("replica-2").data_dir / "ibdata1.restored"
    note.write_text("by hand, at four in the morning")
    again = rebuild_again(three, keys[1], "replica-2")
    assert (again["status"], json.loads(again["error"])["code"]) == ("failed", "host.refused"), again["error"]
    assert note.read_text() == "by hand, at four in the morning"
    nothing_is_left(three, [*keys, again["id"]])
    three.wait_for_possible_plan("replica-2")
    by_hand = ask(three, "replica-2")
    assert wait_for_the_end(three, [by_hand]) == ["succeeded"], "a person decides, and may"
    same_data_at_one_gtid(three, "replica-2")


def test_throttled_follower_slows_all_and_is_not_dropped(three: Stack) -> None:
    keys = ask_for_three(three)
    three.manage("rebuild", REPLICAS[1], "--rate", "4")
    wait_for("the limit is logged", lambda: "4.0 MiB/s" in events(three, keys[1]), 120)
    for key in keys:
        wait_for_bytes(three, key)

    def are_ahead() -> bool:
        first, held, third = (copied(three, key) for key in keys)
        return min(first, third) - held >= BUFFER_BYTES

    wait_for("the others are ahead as far as the buffer goes: from there on they are held", are_ahead, 60)
    before, began = [copied(three, key) for key in keys], time.monotonic()
    time.sleep(12)
    seen = [
        (copied(three, key) - old) / (time.monotonic() - began) / MIB for key, old in zip(keys, before, strict=True)
    ]
    assert max(seen) < 8, f"{seen} MiB/s"
    assert all(row["status"] == "running" for row in rebuilds(three, keys))
    three.manage("rebuild", REPLICAS[1], "--rate", "0")
    assert wait_for_the_end(three, keys) == ["succeeded"] * 3
    for name in REPLICAS:
        same_data_at_one_gtid(three, name)
    nothing_is_left(three, keys)


def test_cancelled_leader_lets_followers_finish(three: Stack) -> None:
    keys = ask_for_three(three)
    wait_for_bytes(three, keys[0])
    ask_to_cancel(three, keys[0])
    assert wait_for_the_end(three, keys) == ["cancelled", "succeeded", "succeeded"]
    nothing_is_left(three, keys)


def test_killed_worker_lets_all_three_finish(three: Stack) -> None:
    keys = ask_for_three(three)
    wait_for_bytes(three, keys[1])
    three.stop("worker", signal.SIGKILL)
    three.start("worker")
    assert wait_for_the_end(three, keys) == ["succeeded"] * 3, [row["error"] for row in rebuilds(three, keys)]
    assert three.rows("SELECT 1 FROM dbops_auditentry WHERE action = 'rebuild.taken_over'")
    for name in REPLICAS:
        same_data_at_one_gtid(three, name)
    nothing_is_left(three, keys)


def test_killed_sender_lets_the_source_replicate_again(three: Stack) -> None:
    """All three fail, each says so, and none of them is left waiting."""
    keys = ask_for_three(three)
    with braked(three.lab.host("replica-3"), share=0.02):  # the sender lives until it is killed
        wait_for_bytes(three, keys[0])
        [pid] = [
            int(line.partition(":")[0])
            for line in processes_of(rebuilds(three, keys)[0]["uid"])
            if "shared_read.py send" in line
        ]
        os.kill(pid, signal.SIGKILL)
        statuses = wait_for_the_end(three, keys)
    assert statuses == ["failed"] * 3
    nothing_is_left(three, keys)
    assert three.rows("SELECT 1 FROM dbops_rebuild WHERE follows_id IN (?, ?, ?)", *keys) == []
    for name in REPLICAS:
        three.wait_for_possible_plan(name)
