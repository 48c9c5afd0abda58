"""The script that stops a server and moves its data, on real servers: whatever is not as the plan saw it, nothing is touched."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.scripts import load
from tests import run_folder
from tests.said import names
from tests.stack import Stack

from .host_state import is_replicating, one

pytestmark = pytest.mark.services

SCRIPT = load("common", "inside", "service", "swap_datadir")
REFUSED = 65


@pytest.fixture
def job_dir(stack: Stack) -> Iterator[Path]:
    """A job's directory with the admin account's option file, as the launcher makes it."""
    account = stack.lab.accounts["admin"]
    with tempfile.TemporaryDirectory(dir=run_folder.parent()) as folder:
        option_file = Path(folder) / "admin.cnf"
        option_file.touch(0o600)
        option_file.write_text(
            flavor_for("10.11.19", "mariadb").credentials_file(account.user, account.password, plugin_dir="")
        )
        yield Path(folder)


def swap_datadir(stack: Stack, job_dir: Path, name: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the script against a lab host as its plan would, but for ``changes``. The stop command only leaves a mark."""
    host = stack.lab.host(name)
    status = host.data_dir.stat()
    arguments = {
        "datadir": str(host.data_dir),
        "identity": f"{status.st_dev}:{status.st_ino}",
        "running": "1",
        "server_id": str(host.server_id),
        "uuid": "",
        "socket": str(host.socket),
        "aside": str(host.data_dir.with_name("data.dbops-old-test")),
        "owner": "mysql",
        "client": "mariadb",
        "run_id": "test",
        "machine": "",
        "tree": "",
        "stop": "/usr/bin/touch",
        "mark": str(job_dir / "stopped"),
    }
    assert set(changes) <= set(arguments)
    return subprocess.run(
        ["bash", "-c", SCRIPT, "swap-datadir", *{**arguments, **changes}.values()],
        env={
            "DBOPS_JOB_DIR": str(job_dir),
            "DBOPS_RUN_DIR": str(job_dir),
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "LC_ALL": "C",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def is_untouched(stack: Stack, job_dir: Path, name: str, pid: int | None) -> bool:
    host = stack.lab.host(name)
    moved = host.data_dir.with_name("data.dbops-old-test").exists()
    return host.server_pid() == pid and host.data_dir.is_dir() and not moved and not (job_dir / "stopped").exists()


CASES = {
    "the primary, which takes writes": ("primary-1", {}, "read_only"),
    "the source, from which a replica of ours could read": ("backup-1", {"server_id": "1"}, "server_id"),
    "another directory under the same name": (
        "replica-1",
        {"identity": "1:1"},
        "data",
    ),
    "another machine with the same directories": (
        "replica-1",
        {"machine": "elsewhere 0123456789abcdef"},
        "elsewhere",
    ),
    "another server id": ("replica-1", {"server_id": "4711"}, "server_id"),
    "a server that the plan saw dead": ("replica-1", {"running": "0"}, ""),
    "a uuid that it does not have": ("replica-1", {"uuid": "6c4c1c3e"}, ""),
    "a socket of another server": ("replica-1", {}, "server_id"),
    "no server on the socket": ("replica-1", {"socket": "/nowhere.sock"}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_swap_datadir_refuses_every_difference_and_touches_nothing(stack: Stack, job_dir: Path, case: str) -> None:
    name, changes, text = CASES[case]
    if case == "a socket of another server":
        changes = {"socket": str(stack.lab.host("backup-1").socket)}
    pid = stack.lab.host(name).server_pid()
    done = swap_datadir(stack, job_dir, name, **changes)
    assert (done.returncode, "REFUSED: " in done.stdout) == (REFUSED, True), done
    assert text in done.stdout
    assert is_untouched(stack, job_dir, name, pid)


def test_swap_datadir_refuses_a_server_with_replicas(stack: Stack, job_dir: Path) -> None:
    """The primary, made read-only: nothing but its replicas tells that it is one."""
    pid = stack.lab.host("primary-1").server_pid()
    one(stack, "primary-1", "SET GLOBAL read_only = 1")
    try:
        done = swap_datadir(stack, job_dir, "primary-1")
    finally:
        one(stack, "primary-1", "SET GLOBAL read_only = 0")
    assert done.returncode == REFUSED
    assert re.search(r"REFUSED: [1-9]", done.stdout), "how many are attached"
    assert is_untouched(stack, job_dir, "primary-1", pid)
    assert is_replicating(stack, "backup-1")


def test_swap_datadir_moves_nothing_when_the_stop_fails(stack: Stack, job_dir: Path) -> None:
    pid = stack.lab.host("replica-1").server_pid()
    done = swap_datadir(stack, job_dir, "replica-1", stop="/bin/false")
    assert done.returncode == 70
    assert names(done.stdout, 1), done.stdout
    assert is_untouched(stack, job_dir, "replica-1", pid)


def test_swap_datadir_refuses_a_system_directory(stack: Stack, job_dir: Path) -> None:
    status = Path("/usr").stat()
    done = swap_datadir(
        stack, job_dir, "replica-1", datadir="/usr", identity=f"{status.st_dev}:{status.st_ino}", running="0"
    )
    assert done.returncode == REFUSED
    assert names(done.stdout, "/usr")
