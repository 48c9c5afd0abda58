"""Read and change the state of the lab's hosts."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.checks import search_path
from lab.flavors.base import ReplicationStatus
from lab.hosts import LabHost
from tests.stack import Stack, wait_for
from tests.sudo_account import gate_finds


def one(stack: Stack, name: str, sql: str, *parameters: object) -> dict[str, Any]:
    connection = stack.lab.connect(name)
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchone() or {}
    finally:
        connection.close()


def link_of(stack: Stack, name: str) -> ReplicationStatus | None:
    """Return the state of a replica's connection, ``None`` if it has none."""
    row = one(stack, name, stack.lab.flavor.show_replication)
    return stack.lab.flavor.parse_replication(row) if row else None


def is_replicating(stack: Stack, name: str) -> bool:
    link = link_of(stack, name)
    return link is not None and link.works


def follows(stack: Stack, name: str, source: str) -> bool:
    """Whether a replica's connection names this member as its source."""
    link, host = link_of(stack, name), stack.lab.host(source)
    return link is not None and link.source == f"{host.address}:{host.port}"


def replicate_again(stack: Stack, name: str) -> None:
    """Start what a lab's server does not start itself after it was stopped."""
    for statement in stack.lab.flavor.resume_statements():
        one(stack, name, statement)


def processes_of(uid: str) -> list[str]:
    """Command lines of processes that carry the run's id."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            cwd = str((path.parent / "cwd").readlink())
        except OSError:
            continue
        if uid in line or uid in cwd:
            found.append(f"{path.parent.name}: {line[:200]} in {cwd}")
    return found


@dataclass(frozen=True, slots=True)
class HostState:
    """State of one host that must not change: its server, data directory, logins, and files of runs."""

    server_pid: int | None
    data_dir: tuple[int, int]
    beside_data: tuple[str, ...]
    authorized_keys: str
    runs: tuple[str, ...]


def host_states(stack: Stack) -> dict[str, HostState]:
    """Return the state of every host of the lab, read on the host itself."""
    found = {}
    for host in stack.lab.hosts:
        status = host.data_dir.stat()
        found[host.name] = HostState(
            server_pid=host.server_pid(),
            data_dir=(status.st_dev, status.st_ino),
            beside_data=tuple(sorted(path.name for path in host.folder.glob("data*"))),
            authorized_keys=(host.folder / "authorized_keys").read_text(),
            runs=tuple(sorted(path.name for path in (host.work_dir / "rebuilds").glob("*"))),
        )
    return found


@contextmanager
def nothing_changes(stack: Stack) -> Iterator[None]:
    """Compare every host, the holds and the rebuilds before and after."""
    before, rebuilds = host_states(stack), stack.rows("SELECT COUNT(*) AS n FROM dbops_rebuild")
    yield
    assert host_states(stack) == before
    assert stack.rows("SELECT COUNT(*) AS n FROM dbops_rebuild") == rebuilds
    assert stack.rows("SELECT * FROM dbops_hold") == []
    assert is_replicating(stack, "backup-1")


@contextmanager
def without_program(host: LabHost, folder: Path, *names: str) -> Iterator[None]:
    """Let sessions of the host's sshd find every program but these, as on a machine where the package is not installed."""
    folder.mkdir()
    for directory in search_path().split(":"):
        for program in Path(directory).glob("*") if directory else ():
            if program.name not in names and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    config, as_it_was = host.sshd.config_file, host.sshd.config_file.read_text()
    kept = [line for line in as_it_was.splitlines() if not line.startswith("SetEnv ")]
    config.write_text("\n".join([*kept, f"SetEnv PATH={folder} SHLVL=2"]) + "\n")
    try:
        host.sshd.stop()
        host.sshd.start()
        with gate_finds(host.sshd.programs, folder):
            yield
    finally:
        config.write_text(as_it_was)
        host.sshd.stop()
        host.sshd.start()
        shutil.rmtree(folder)


@contextmanager
def on_a_small_disk(host: LabHost, mebibytes: int) -> Iterator[None]:
    """Stop the server and mount a small, empty file system over its data directory; undone in any case."""
    owner = host.data_dir.stat()
    options = f"size={mebibytes}M,mode=0750,uid={owner.st_uid},gid={owner.st_gid}"
    host.stop_server()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", options, "dbops-test", str(host.data_dir)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        yield
    finally:
        host.stop_server()
        if os.path.ismount(host.data_dir):
            subprocess.run(["umount", str(host.data_dir)], check=True)
        host.start_server()


def last_rebuild(stack: Stack) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]


def when_step(stack: Stack, step: str, act: Callable[[], bool], done: threading.Event) -> None:
    """Call ``act`` from the moment on at which the step runs, until it says that it has done its part."""
    sql = (
        "SELECT 1 FROM dbops_rebuildstep s JOIN dbops_rebuild r ON r.id = s.rebuild_id"
        " WHERE s.name = ? AND s.state = 'running' AND r.status = 'running'"
    )
    while not done.is_set() and not stack.rows(sql, step):
        time.sleep(0.01)
    while not done.is_set() and not act():
        time.sleep(0.005)


def rebuild_and(stack: Stack, target: str, step: str, act: Callable[[], bool]) -> tuple[int, dict[str, Any]]:
    """Rebuild the target and do something to it in a step. Return the exit status and the rebuild's row."""
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        hand = pool.submit(when_step, stack, step, act, done)
        try:
            status, _ = stack.rebuild(target, check=False)
        finally:
            done.set()
        hand.result(60)
    return status, last_rebuild(stack)


def source_is_given_back(stack: Stack, uid: str) -> None:
    source = stack.lab.host("backup-1")
    assert is_replicating(stack, "backup-1")
    assert uid not in (source.folder / "authorized_keys").read_text()
    assert not (source.work_dir / "rebuilds" / uid / "backup.cnf").exists()
    wait_for("no process of the run", lambda: not processes_of(uid), 30)
    assert stack.rows("SELECT * FROM dbops_hold") == []


def stream_result(stack: Stack, rebuild: dict[str, Any]) -> dict[str, Any]:
    row = stack.rows(
        "SELECT state, result FROM dbops_rebuildstep WHERE rebuild_id = ? AND name = 'stream'", rebuild["id"]
    )[0]
    assert row["state"] == "failed"
    result: dict[str, Any] = json.loads(row["result"])
    return result


TABLES = (
    "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') AS name FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA LIKE 'sbtest%' ORDER BY 1"
)


def checksums(stack: Stack, name: str) -> dict[str, tuple[int, int]]:
    """Row count and checksum of every table of the load, and of other schemas of tests (``sbtest...``)."""
    connection = stack.lab.connect(name)
    try:
        with connection.cursor() as cursor:
            cursor.execute(TABLES)
            tables = [row["name"] for row in cursor.fetchall()]
            found = {}
            for table in tables:
                cursor.execute(f"SELECT COUNT(*) AS n FROM {table}")
                count = cursor.fetchone()["n"]
                cursor.execute(f"CHECKSUM TABLE {table}")
                found[table] = (count, cursor.fetchone()["Checksum"])
            return found
    finally:
        connection.close()


def position_of(stack: Stack, name: str) -> str:
    """Return the GTID position or set of a server."""
    [found] = one(stack, name, stack.lab.flavor.gtid_query).values()
    return str(found)


def wait_for_primary(stack: Stack, replica: str, seconds: int = 60) -> str:
    """Wait until a replica has what the primary has now. Return that position."""
    goal = position_of(stack, "primary-1")
    assert goal
    assert list(one(stack, replica, stack.lab.flavor.gtid_wait, goal, seconds).values()) == [0]
    return goal


def same_data_at_one_gtid(stack: Stack, replica: str) -> None:
    """Stop the load, let the replica reach the primary's last GTID, and compare every table."""
    stack.lab.load_stop()
    goal = wait_for_primary(stack, replica)
    assert position_of(stack, replica) == goal
    expected = checksums(stack, "primary-1")
    assert expected
    assert checksums(stack, replica) == expected
