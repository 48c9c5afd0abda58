"""Backups that dbops makes, for real: published, restored and compared; and never beside a rebuild of the same source."""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.programs import backup_tool, give_back, program_of, put_before
from tests.stack import Stack, running_stack, wait_for

from .host_state import checksums, is_replicating, processes_of
from .restoring import from_dump, from_physical, restored_server

pytestmark = pytest.mark.services

SOURCE = "backup-1"


@contextmanager
def backup_stack(replicas: int, flavor: str = "mariadb", **schedules: str) -> Iterator[Stack]:
    """Run a lab of its own, with schedules by name and method; leases are short, so that a dead worker is soon known to be dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBOPS_LEASE_SECONDS", "8")
        with running_stack(replicas=replicas, flavor=flavor, web=False) as running:
            for name, method in schedules.items():
                make_schedule(running, name, method)
            yield running


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(2, files="physical", statements="dump") as running:
        yield running


def backups_of(stack: Stack) -> Path:
    return stack.lab.host(SOURCE).folder / "backups"


def make_schedule(stack: Stack, name: str, method: str, instance: str = SOURCE) -> None:
    """It is due in half a day: the tests request their backups."""
    far = datetime.now(UTC) + timedelta(hours=12)
    stack.write(
        "INSERT INTO dbops_backupschedule (name, instance_id, method, run_by, cron, time_zone, directory, keep_count,"
        " late_after_seconds, is_enabled) SELECT ?, id, ?, 'dbops', ?, 'UTC', ?, 2, 900, 1"
        " FROM dbops_instance WHERE name = ?",
        name,
        method,
        f"0 {far.hour} * * *",
        str(stack.lab.host(instance).folder / "backups"),
        instance,
    )


def back_up(stack: Stack, schedule: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Run ``manage.py backup --watch`` to the end. Return its exit status and result."""
    done = stack.manage("backup", schedule, "--watch", "--json", *words, check=False, timeout=240)
    assert done.stdout, f"{done.stderr}{stack.tail('worker')}"
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def begin(stack: Stack, schedule: str = "files") -> int:
    """Ask for a backup and wait until its job is on the host."""
    pk = int(json.loads(stack.manage("backup", schedule, "--json").stdout.splitlines()[-1])["backup_run"])
    wait_for("the backup tool", lambda: tool_of(stack, run_of(stack, pk)["uid"]), 60)
    return pk


def run_of(stack: Stack, pk: int) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_backuprun WHERE id = ?", pk)[0]


def wait_for_end(stack: Stack, pk: int, seconds: float = 60) -> dict[str, Any]:
    final = ("succeeded", "failed", "cancelled")
    wait_for(f"the end of backup run {pk}", lambda: run_of(stack, pk)["status"] in final, seconds)
    return run_of(stack, pk)


def job_of(stack: Stack, uid: str) -> Path:
    return stack.lab.host(SOURCE).work_dir / "rebuilds" / uid / "jobs" / "backup"


def tool_of(stack: Stack, uid: str) -> int | None:
    """Return the process of the backup tool while it lives."""
    try:
        pid = int((job_of(stack, uid) / "pid.tool").read_text())
        return pid if b"--backup" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


@contextmanager
def held_program(stack: Stack, host: str, name: str, *, only: str = "") -> Iterator[Path]:
    """Let a program on a host wait until the file is made; with ``only``, just where this is its first argument."""
    place = stack.lab.host(host)
    go, real = place.sshd.programs / "go", program_of(place, name)
    passes = f'[ "$1" != {only} ] || ' if only else ""
    put_before(place, name, f'#!/bin/bash\n{passes}until [ -e {go} ]; do sleep 0.1; done\nexec {real} "$@"\n')
    try:
        yield go
    finally:
        give_back(place, name)
        go.unlink(missing_ok=True)


@contextmanager
def gate(stack: Stack) -> Iterator[Path]:
    """Let no byte through ``zstd`` until the file is made: a backup that lasts as long as a test wants."""
    with held_program(stack, SOURCE, "zstd") as go:
        try:
            yield go
        finally:
            go.touch()
            time.sleep(0.3)


def assert_restores(stack: Stack, tmp: Path, result: dict[str, Any], restore: Any) -> None:
    file = Path(result["path"])
    record = json.loads(file.with_name(file.name + ".json").read_text())
    assert (record["bytes"], result["bytes"]) == (file.stat().st_size, file.stat().st_size)
    assert record["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert record["position"]["gtid"], record
    assert file.stat().st_mode & 0o077 == 0
    with restored_server(tmp, stack) as server:
        restore(server, str(file))
        stack.lab.load_stop()
        server.follow_primary(record["position"]["gtid"])
        expected = checksums(stack, "primary-1")
        assert expected
        assert server.checksums() == expected


@pytest.mark.runs("MariaDB 10.11", "backup")
@pytest.mark.parametrize(("schedule", "restore"), [("files", from_physical), ("statements", from_dump)])
def test_backup_under_load_restores_to_the_same_data(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, schedule: str, restore: Any
) -> None:
    stack.lab.load_start(tps=50)
    status, result = back_up(stack, schedule)
    assert (status, result["status"]) == (0, "succeeded"), result
    assert not list(backups_of(stack).glob(".*"))
    assert is_replicating(stack, SOURCE)
    folder = stack.folder.parent / f"restored-{schedule}"
    assert_restores(stack, folder, result, restore)
    assert stack.rows("SELECT * FROM dbops_hold") == []


def test_rebuilds_and_backup_of_one_source_never_overlap(stack: Stack) -> None:
    for replica in ("replica-1", "replica-2"):
        stack.wait_for_possible_plan(replica)
    with watched_tools(stack) as seen, gate(stack) as go:
        pk = begin(stack)
        for replica in ("replica-1", "replica-2"):
            stack.manage("rebuild", replica, "--reason", "a test")
        wait_for(
            "both rebuilds to say why they wait",
            lambda: (
                [
                    row["waiting_for"]
                    for row in stack.rows("SELECT waiting_for FROM dbops_rebuild WHERE status = 'queued'")
                ]
                == [f"{SOURCE} is held by backup run {pk}"] * 2
            ),
            30,
        )
        go.touch()
        assert wait_for_end(stack, pk)["status"] == "succeeded"
        wait_for(
            "both rebuilds",
            lambda: not stack.rows("SELECT 1 FROM dbops_rebuild WHERE status IN ('queued', 'running')"),
            200,
        )
    rebuilds = stack.rows("SELECT status FROM dbops_rebuild ORDER BY id DESC LIMIT 2")
    assert [row["status"] for row in rebuilds] == ["succeeded"] * 2, stack.state_of_rebuilds()
    times = sorted(seen.values())
    assert len(times) == 3, seen
    assert all(before[1] < after[0] for before, after in zip(times, times[1:], strict=False)), times


@contextmanager
def watched_tools(stack: Stack) -> Iterator[dict[str, tuple[float, float]]]:
    """Look at the source host's processes all the while. Give each backup tool's start, as its kernel says, and its last sight."""
    seen: dict[str, tuple[float, float]] = {}
    over = threading.Event()
    tool = backup_tool(stack.lab.host(SOURCE)).encode()
    wanted = f"--datadir={stack.lab.host(SOURCE).data_dir}".encode()
    booted = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line)
    ticks = os.sysconf("SC_CLK_TCK")

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                if not words[0].endswith(tool) or wanted not in words or b"--print-param" in words:
                    continue  # with --print-param it is only tried
                began = int((path / "stat").read_text().rpartition(")")[2].split()[19])
            except OSError:
                continue
            seen[f"{path.name} {began}"] = (booted + began / ticks, time.time())

    def watch() -> None:
        while not over.wait(0.02):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_killed_worker_does_not_repeat_the_backup(stack: Stack) -> None:
    with gate(stack) as go:
        pk = begin(stack)
        uid = run_of(stack, pk)["uid"]
        tool = tool_of(stack, uid)
        stack.stop("worker", signal.SIGKILL)
        go.touch()
        stack.start("worker")
        row = wait_for_end(stack, pk)
    assert row["status"] == "succeeded", row
    found = [event["text"] for event in stack.rows("SELECT text FROM dbops_backupevent WHERE run_id = ?", pk)]
    assert stack.rows("SELECT 1 FROM dbops_auditentry WHERE action = 'backup.taken_over'"), found
    assert sum(text.startswith("Command on") for text in found) == 1, found
    assert int((job_of(stack, uid) / "pid.tool").read_text()) == tool  # the same job: no second one was started
    assert [path.name for path in backups_of(stack).glob(f"*{uid}*")] != []


def test_stopped_backup_leaves_nothing_and_the_next_runs(stack: Stack) -> None:
    with gate(stack):
        pk = begin(stack)
        uid = run_of(stack, pk)["uid"]
        status, result = back_up(stack, "files", "--stop", "--reason", "a test")
    assert (status, result["status"]) == (3, "cancelled"), result
    assert list(backups_of(stack).glob(f"*{uid}*")) == []
    assert list(backups_of(stack).glob(f".*{uid}*")) == []
    wait_for("no process of the run", lambda: not processes_of(uid), 30)
    assert is_replicating(stack, SOURCE)
    assert stack.rows("SELECT * FROM dbops_hold") == []


def test_killed_tool_fails_the_backup(stack: Stack) -> None:
    with gate(stack) as go:
        pk = begin(stack)
        tool = tool_of(stack, run_of(stack, pk)["uid"])
        assert tool is not None
        os.kill(tool, signal.SIGKILL)
        go.touch()
        row = wait_for_end(stack, pk)
    assert (row["status"], json.loads(row["error"])["code"]) == ("failed", "backup.killed")
    assert list(backups_of(stack).glob(f".*{row['uid']}*")) == []


def test_retention_keeps_successes_of_its_schedule(stack: Stack) -> None:
    assert back_up(stack, "files")[0] == 0

    def ended() -> list[dict[str, Any]]:
        return stack.rows(
            "SELECT r.path, r.removed_at FROM dbops_backuprun r JOIN dbops_backupschedule s ON s.id = r.schedule_id"
            " WHERE s.name = 'files' AND r.status = 'succeeded' ORDER BY r.id"
        )

    # a backup has succeeded before it removes what it replaces
    wait_for("two files are left", lambda: sum(not row["removed_at"] for row in ended()) <= 2, 30)
    rows = ended()
    assert len(rows) > 2
    assert [bool(row["removed_at"]) for row in rows] == [True] * (len(rows) - 2) + [False] * 2
    assert [Path(row["path"]).exists() for row in rows] == [False] * (len(rows) - 2) + [True] * 2
    dumps = list(backups_of(stack).glob("*dump*.gz"))
    assert len(dumps) == 1  # another schedule's files are no concern of this one
