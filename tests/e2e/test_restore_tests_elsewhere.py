"""Restore tests on a chosen host, for real: the backup is fetched from the host that has it, and nothing is left on either."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.said import names
from tests.stack import Stack, wait_for

from .test_managed_backup import SOURCE, backup_stack, held_program, run_of
from .test_restore_tests import (
    begin,
    cancel,
    changed,
    command_lines,
    good_backup,
    restore_test_of,
    rows_of,
    run_restore_test,
    slow_prepare,
    unchanged,
    wait_for_end,
)

pytestmark = pytest.mark.services

CHOSEN = "replica-1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical") as running:
        running.write("UPDATE dbops_cluster SET restore_test_host = ?", CHOSEN)
        yield running


@pytest.fixture(scope="module")
def run(stack: Stack) -> int:
    return good_backup(stack)


@pytest.fixture(autouse=True)
def nothing_is_left(stack: Stack) -> Iterator[None]:
    """Every test leaves nothing on either host, and the servers as they were."""
    with unchanged(stack, left):
        yield


def left(stack: Stack) -> list[str]:
    """Return what there is still of any restore test: scratch directories, keys, forced commands, processes."""
    uids = [row["uid"] for row in stack.rows("SELECT uid FROM dbops_restoretest")]
    found = [f"/tmp/dbops-restore-test-{uid}" for uid in uids if Path(f"/tmp/dbops-restore-test-{uid}").exists()]
    for name in (SOURCE, CHOSEN):
        host = stack.lab.host(name)
        found += [str(path) for path in host.folder.rglob(".dbops-restore-test-*")]
        found += [f"key of {uid} on {name}" for uid in uids if is_let_in(stack, uid, name)]
        for uid in uids:
            directory = host.work_dir / "rebuilds" / uid
            found += [str(directory / part) for part in ("serve", "backup.argv", "key") if (directory / part).exists()]
    return found + [" ".join(words) for _, words in command_lines() if any(uid in " ".join(words) for uid in uids)]


def is_let_in(stack: Stack, uid: str, name: str = SOURCE) -> bool:
    return f"dbops-{uid}" in (stack.lab.host(name).folder / "authorized_keys").read_text()


def slow_fetch(stack: Stack) -> AbstractContextManager[Path]:
    """Let the chosen host read nothing of the file until another one is made."""
    return held_program(stack, CHOSEN, "zstd")


def transports(restore_test: dict[str, Any]) -> list[int]:
    return [pid for pid, words in command_lines() if words[0] == "ssh" and restore_test["uid"] in " ".join(words)]


def sender_of(stack: Stack, run: int) -> int | None:
    """Return the process that reads the backup on its host, ``None`` until the transport has started it."""
    file = run_of(stack, run)["path"]
    return next((pid for pid, words in command_lines() if words[0] == "cat" and words[-2] == file), None)


@pytest.mark.runs("MariaDB 10.11", "restore test")
def test_backup_is_fetched_and_tested_on_the_chosen_host(stack: Stack, run: int) -> None:
    status, result = run_restore_test(stack, run)
    assert (status, result["status"], result["error"]) == (0, "succeeded", {}), result
    assert {step["state"] for step in result["steps"]} == {"done"}
    restore_test = restore_test_of(stack, result["restore_test"])
    [host] = stack.rows("SELECT name FROM dbops_host WHERE id = ?", restore_test["host_id"])
    assert host["name"] == CHOSEN
    plan = json.loads(restore_test["checkpoint"])["plan"]
    assert plan["holder"] == SOURCE
    assert plan["place"] == str(stack.lab.host(CHOSEN).work_dir)
    for schema, name, rows in json.loads(restore_test["result"])["tables"]:
        assert rows_of(stack, schema, name) == rows, name
    found = stack.rows("SELECT text FROM dbops_backupevent WHERE run_id = ?", run)
    assert any(names(row["text"], result["restore_test"], CHOSEN, SOURCE) for row in found), found


def test_damaged_file_and_lost_link_have_different_codes(stack: Stack, run: int) -> None:
    file = Path(run_of(stack, run)["path"])
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    with changed(file, bytes(content)):
        status, result = run_restore_test(stack, run)
    assert (status, result["error"]["code"]) == (1, "restore_test.damaged"), result


def test_record_of_another_file_is_refused(stack: Stack, run: int) -> None:
    record = Path(run_of(stack, run)["path"] + ".json")
    with changed(record, record.read_bytes().replace(b'"sha256": "', b'"sha256": "00')):
        status, result = run_restore_test(stack, run)
    assert (status, result["error"]["code"]) == (1, "restore_test.refused"), result
    assert names(result["error"]["cause"], run_of(stack, run)["path"])


def test_cancel_during_the_fetch_leaves_nothing_on_either_host(stack: Stack, run: int) -> None:
    with slow_fetch(stack):
        restore_test = begin(stack, run, "unpack")
        wait_for("the transport", lambda: transports(restore_test), 30)
        assert is_let_in(stack, restore_test["uid"])
        sender = wait_for("who sends the file", lambda: sender_of(stack, run), 30)
        assert os.getpriority(os.PRIO_PROCESS, sender) == 19, "a backup there comes first"
        ended = cancel(stack, restore_test)
    assert (ended["status"], ended["has_leftovers"]) == ("cancelled", 0)


def test_cancel_during_preparation_leaves_nothing_on_either_host(stack: Stack, run: int) -> None:
    with slow_prepare(stack, CHOSEN):
        ended = cancel(stack, begin(stack, run, "prepare"))
    assert (ended["status"], ended["has_leftovers"]) == ("cancelled", 0)


@pytest.mark.parametrize("step", ["unpack", "prepare"])
def test_another_worker_finishes_and_closes_the_connection(stack: Stack, run: int, step: str) -> None:
    with slow_fetch(stack) if step == "unpack" else slow_prepare(stack, CHOSEN) as go:
        restore_test = begin(stack, run, step)
        stack.stop("worker", signal.SIGKILL)
        stack.start("worker")
        wait_for(
            "it is taken over", lambda: restore_test_of(stack, restore_test["id"])["fence"] > restore_test["fence"], 60
        )
        go.touch()
        ended = wait_for_end(stack, restore_test["id"], 180)
    assert ended["status"] == "succeeded", ended["error"]


def test_killed_transport_is_a_lost_link(stack: Stack, run: int) -> None:
    with slow_fetch(stack) as go:
        restore_test = begin(stack, run, "unpack")
        wait_for("the transport", lambda: transports(restore_test), 30)
        for pid in transports(restore_test):
            os.kill(pid, signal.SIGKILL)
        go.touch()
        ended = wait_for_end(stack, restore_test["id"])
    assert (ended["status"], json.loads(ended["error"])["code"]) == ("failed", "restore_test.transport"), ended["error"]


def test_silent_holder_is_retried_at_the_end(stack: Stack, run: int) -> None:
    """What was copied goes at once; the restore test stays open until the key is known to be gone."""
    sshd = stack.lab.host(SOURCE).sshd
    with slow_prepare(stack, CHOSEN) as go:
        restore_test = begin(stack, run, "prepare")
        sshd.stop()
        try:
            go.touch()
            wait_for(
                "the copy is gone", lambda: not any(stack.lab.host(CHOSEN).folder.rglob(".dbops-restore-test-*")), 90
            )
            assert is_let_in(stack, restore_test["uid"])
            assert restore_test_of(stack, restore_test["id"])["finished_at"] is None
        finally:
            sshd.start()
        ended = wait_for_end(stack, restore_test["id"], 180)
    assert (ended["status"], ended["has_leftovers"]) == ("succeeded", 0), ended["error"]
    stack.wait_for_probe("the host", lambda: stack.facts(SOURCE)["host"], SOURCE)


def test_missing_space_is_refused_before_any_write(stack: Stack, run: int) -> None:
    stack.environment["DBOPS_RESTORE_TEST_DIRECTORY"] = "/nowhere"
    try:
        stack.stop("worker")
        stack.start("worker")
        status, result = run_restore_test(stack, run)
    finally:
        del stack.environment["DBOPS_RESTORE_TEST_DIRECTORY"]
        stack.stop("worker")
        stack.start("worker")
    assert (status, result["error"]["code"]) == (1, "restore_test.space"), result
    assert names(result["error"]["cause"], "/nowhere")
