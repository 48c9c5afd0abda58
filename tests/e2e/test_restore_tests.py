"""Restore tests, for real: restored beside running servers that notice nothing, and gone again however they end."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import backup_tool, program_of, unpack_tool
from tests.said import numbers
from tests.stack import Stack, wait_for

from .host_state import is_replicating, one
from .test_managed_backup import SOURCE, back_up, backup_stack, backups_of, held_program, run_of

pytestmark = pytest.mark.services
#: What the kernel calls a limit of a process.
ADDRESS_SPACE = "Max address space"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical") as running:
        yield running


@pytest.fixture(scope="module")
def run(stack: Stack) -> int:
    # A client that does not speak utf8mb4 asks for another name, and the server has no such table.
    one(stack, "primary-1", "CREATE TABLE sbtest.`größe-ß 日本` (id INT PRIMARY KEY) ENGINE=InnoDB")
    name = "SELECT COUNT(*) AS tables FROM information_schema.TABLES WHERE TABLE_NAME = 'größe-ß 日本'"
    wait_for("the table on the source", lambda: one(stack, SOURCE, name)["tables"] == 1)
    return good_backup(stack)


@pytest.fixture(autouse=True)
def untouched(stack: Stack) -> Iterator[None]:
    """Every test leaves nothing behind, and the servers as they were: the same processes, replicating."""
    with unchanged(stack, left):
        yield


def good_backup(stack: Stack) -> int:
    """Make a backup. Return its run."""
    status, result = back_up(stack, "files")
    assert status == 0, result
    return int(result["backup_run"])


@contextmanager
def unchanged(stack: Stack, left: Callable[[Stack], list[str]]) -> Iterator[None]:
    """Check that nothing is left behind, and that the same servers run and replicate."""
    before = servers(stack)
    yield
    assert left(stack) == []
    assert servers(stack) == before
    assert is_replicating(stack, SOURCE)


def servers(stack: Stack) -> set[int]:
    """Return the processes of every server of this lab, those of restore tests included."""
    name = Path(stack.lab.flavor.server).name
    return {pid for pid, words in command_lines() if name in words[0] and str(stack.lab.folder) in " ".join(words)}


def command_lines() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield int(path.parent.name), words


def left(stack: Stack) -> list[str]:
    uids = [row["uid"] for row in stack.rows("SELECT uid FROM dbops_restoretest")]
    found = [
        *backups_of(stack).glob(".dbops-restore-test-*"),
        *(Path(f"/tmp/dbops-restore-test-{uid}") for uid in uids),
    ]
    return [str(path) for path in found if path.exists()] + [
        " ".join(words) for _, words in command_lines() if any(uid in " ".join(words) for uid in uids)
    ]


def run_restore_test(stack: Stack, run: int) -> tuple[int, dict[str, Any]]:
    done = stack.manage("backup", "--restore-test", str(run), "--watch", "--json", check=False, timeout=240)
    assert done.stdout, f"{done.stderr}{stack.tail('worker')}"
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def begin(stack: Stack, run: int, step: str) -> dict[str, Any]:
    """Start a restore test and wait until it is in a step."""
    pk = int(
        json.loads(stack.manage("backup", "--restore-test", str(run), "--json").stdout.splitlines()[-1])["restore_test"]
    )
    wait_for(f"step {step}", lambda: step in restore_test_of(stack, pk)["steps"], 40)
    return restore_test_of(stack, pk)


def restore_test_of(stack: Stack, pk: int) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_restoretest WHERE id = ?", pk)[0]


def wait_for_end(stack: Stack, pk: int, seconds: float = 90) -> dict[str, Any]:
    final = ("succeeded", "failed", "cancelled")
    wait_for(f"the end of restore test {pk}", lambda: restore_test_of(stack, pk)["status"] in final, seconds)
    return restore_test_of(stack, pk)


def slow_prepare(stack: Stack, host: str = SOURCE) -> AbstractContextManager[Path]:
    """Let no preparation begin until the file is made."""
    return held_program(stack, host, backup_tool(stack.lab.host(host)), only="--prepare")


def cancel(stack: Stack, restore_test: dict[str, Any]) -> dict[str, Any]:
    stack.write(
        "UPDATE dbops_restoretest SET cancel_requested_at = requested_at, cancel_requested_by = 'olga' WHERE id = ?",
        restore_test["id"],
    )
    return wait_for_end(stack, restore_test["id"])


@contextmanager
def changed(file: Path, content: bytes) -> Iterator[None]:
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


def rows_of(stack: Stack, schema: str, name: str) -> int:
    return int(one(stack, SOURCE, f"SELECT COUNT(*) AS n FROM `{schema}`.`{name}`")["n"])  # noqa: S608 - names of the lab


@pytest.mark.runs("MariaDB 10.11", "restore test")
def test_good_backup_passes_with_the_rows_of_its_source(stack: Stack, run: int) -> None:
    status, result = run_restore_test(stack, run)
    assert (status, result["status"], result["error"]) == (0, "succeeded", {}), result
    steps = {step["name"]: step for step in result["steps"]}
    assert list(steps) == ["check", "unpack", "prepare", "start", "tables", "rows", "stop", "remove"]
    assert {step["state"] for step in steps.values()} == {"done"}
    assert all(step["seconds"] >= 0 for step in steps.values())
    assert steps["unpack"]["bytes"] > 1_000_000
    restore_test = restore_test_of(stack, result["restore_test"])
    tables = {(schema, name): rows for schema, name, rows in json.loads(restore_test["result"])["tables"]}
    assert tables
    # without writes since
    for (schema, name), rows in tables.items():
        assert rows_of(stack, schema, name) == rows, name
    assert result["rows"] == sum(tables.values())
    assert result["tables"] > len(tables)


def test_damaged_file_fails_with_its_code(stack: Stack, run: int) -> None:
    file = Path(run_of(stack, run)["path"])
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    with changed(file, bytes(content)):
        status, result = run_restore_test(stack, run)
    assert (status, result["status"], result["error"]["code"]) == (1, "failed", "restore_test.damaged"), result
    assert result["steps"][-1]["name"] == "remove"
    assert [step["name"] for step in result["steps"] if step["state"] == "failed"] == ["unpack"]


@contextmanager
def published_instead(stack: Stack, run: int, content: bytes) -> Iterator[None]:
    """Put another file there as if it were published: with its size and checksum in record and row."""
    before = run_of(stack, run)
    file = Path(before["path"])
    record = file.with_name(file.name + ".json")
    found = json.loads(record.read_text())
    found |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    evidence = json.loads(before["evidence"]) | {"bytes": found["bytes"], "sha256": found["sha256"]}
    with changed(file, content), changed(record, (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()):
        stack.write("UPDATE dbops_backuprun SET evidence = ? WHERE id = ?", json.dumps(evidence), run)
        try:
            yield
        finally:
            stack.write("UPDATE dbops_backuprun SET evidence = ? WHERE id = ?", before["evidence"], run)


def test_copy_with_external_files_is_never_started(stack: Stack, run: int, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "far.isl").write_text(str(stack.lab.host(SOURCE).data_dir / "ibdata1"))
    pack = program_of(stack.lab.host(SOURCE), unpack_tool(stack.lab.host(SOURCE)))
    done = subprocess.run(
        f"{pack} -c shop/far.isl | zstd -c", shell=True, cwd=tmp_path, capture_output=True, check=True
    )
    with published_instead(stack, run, done.stdout):
        status, result = run_restore_test(stack, run)
    assert (status, result["error"]["code"]) == (1, "restore_test.outside"), result
    assert "shop/far.isl" in result["error"]["cause"]
    assert [step["name"] for step in result["steps"]] == ["check", "unpack", "remove"]


def test_file_that_is_no_backup_fails_to_unpack(stack: Stack, run: int) -> None:
    done = subprocess.run(["zstd", "-c"], input=os.urandom(200_000), capture_output=True, check=True)
    with published_instead(stack, run, done.stdout):
        status, result = run_restore_test(stack, run)
    assert (status, result["error"]["code"]) == (1, "restore_test.unpack"), result


def test_missing_space_is_refused_before_any_write(stack: Stack, run: int) -> None:
    checkpoint = json.loads(run_of(stack, run)["checkpoint"])
    size = checkpoint["plan"]["data_bytes"]
    checkpoint["plan"]["data_bytes"] = 10**18
    stack.write("UPDATE dbops_backuprun SET checkpoint = ? WHERE id = ?", json.dumps(checkpoint), run)
    try:
        status, result = run_restore_test(stack, run)
    finally:
        checkpoint["plan"]["data_bytes"] = size
        stack.write("UPDATE dbops_backuprun SET checkpoint = ? WHERE id = ?", json.dumps(checkpoint), run)
    assert (status, result["error"]["code"]) == (1, "restore_test.space"), result
    assert max(numbers(result["error"]["cause"])) >= 10**18 // 1024**2, "the MiB that are needed"
    assert [step["name"] for step in result["steps"]] == ["check"]


def test_killed_worker_is_replaced_and_the_test_finishes(stack: Stack, run: int) -> None:
    with slow_prepare(stack) as go:
        restore_test = begin(stack, run, "prepare")
        stack.stop("worker", signal.SIGKILL)
        go.touch()
        stack.start("worker")
        restore_test = wait_for_end(stack, restore_test["id"])
    assert restore_test["status"] == "succeeded", restore_test["error"]
    assert stack.rows("SELECT 1 FROM dbops_auditentry WHERE action = 'restore_test.taken_over'")
    job = stack.lab.host(SOURCE).work_dir / "rebuilds" / restore_test["uid"] / "jobs"
    assert sorted(path.name for path in job.iterdir()) == ["restore-test", "restore-test-remove"]


def test_killed_job_fails_the_restore_test(stack: Stack, run: int) -> None:
    with slow_prepare(stack):
        restore_test = begin(stack, run, "prepare")
        assert left(stack)
        job = stack.lab.host(SOURCE).work_dir / "rebuilds" / restore_test["uid"] / "jobs" / "restore-test"
        os.killpg(int((job / "pid").read_text().split()[0]), signal.SIGKILL)
        restore_test = wait_for_end(stack, restore_test["id"])
    assert restore_test["status"] == "failed"
    assert json.loads(restore_test["error"])["code"] == "restore_test.vanished"


def test_killed_preparation_is_inconclusive(stack: Stack, run: int) -> None:
    with slow_prepare(stack):
        restore_test = begin(stack, run, "prepare")
        job = stack.lab.host(SOURCE).work_dir / "rebuilds" / restore_test["uid"] / "jobs" / "restore-test"
        os.kill(int((job / "pid.prepare").read_text()), signal.SIGKILL)
        restore_test = wait_for_end(stack, restore_test["id"])
    assert (restore_test["status"], json.loads(restore_test["error"])["code"]) == ("failed", "restore_test.killed")


def test_stopped_restore_test_leaves_nothing_and_kept_its_limits(stack: Stack, run: int) -> None:
    with slow_prepare(stack):
        restore_test = begin(stack, run, "prepare")
        job = stack.lab.host(SOURCE).work_dir / "rebuilds" / restore_test["uid"] / "jobs" / "restore-test"
        pid = int((job / "pid.prepare").read_text())
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        limits = dict(
            line.split("  ", 1) for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "  " in line
        )
        wanted = json.loads(restore_test["checkpoint"])["plan"]["most_memory_bytes"]
        assert int(limits[ADDRESS_SPACE].split()[0]) == wanted // 1024 * 1024
        restore_test = cancel(stack, restore_test)
    assert (restore_test["status"], restore_test["has_leftovers"]) == ("cancelled", 0)


def test_next_backup_is_tested_automatically_after_a_failure(stack: Stack, run: int) -> None:
    stack.environment["DBOPS_RESTORE_TEST_INTERVAL_SECONDS"] = "604800"
    stack.stop("worker")
    stack.start("worker")
    last = stack.rows("SELECT status FROM dbops_restoretest ORDER BY id DESC LIMIT 1")[0]
    assert last["status"] != "succeeded"
    status, result = back_up(stack, "files")
    assert status == 0, result
    newest = result["backup_run"]
    [restore_test] = wait_for(
        "an automatic restore test",
        lambda: stack.rows("SELECT id, requested_by FROM dbops_restoretest WHERE run_id = ?", newest),
        30,
    )
    assert (restore_test["requested_by"], wait_for_end(stack, restore_test["id"])["status"]) == ("", "succeeded")
