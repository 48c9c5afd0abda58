"""An account of this machine that may run nothing as root but the gates of its sudoers files."""

import itertools
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from dbops.drivers.gate import DIRECTORY

if TYPE_CHECKING:
    from tests.stack import Stack

SUDOERS, GATES = Path("/etc/sudoers.d"), Path(DIRECTORY)
NAME = re.compile(r"dbops-test-([0-9]+)-[0-9]+")
#: With this variable, every stack of a test run works through gates.
VARIABLE = "DBOPS_TEST_SUDO"
_number = itertools.count(1)


def why_not() -> str:
    """Return why there can be no such account here; empty if there can be one."""
    if os.geteuid() != 0:
        return "only root can make an account with a sudoers file"
    missing = [name for name in ("sudo", "visudo", "useradd", "userdel") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextmanager
def account() -> Iterator[str]:
    """Make a system account for the length of the block; return its name."""
    remove_leftovers()
    name = f"dbops-test-{os.getpid()}-{next(_number)}"
    # a password that none fits: sshd refuses locked accounts
    subprocess.run(
        ["useradd", "--system", "--shell", "/bin/sh", "--home-dir", "/", "--password", "*", name], check=True
    )
    try:
        yield name
    finally:
        remove_account(name)


def remove_account(name: str) -> None:
    """Remove an account and its sudoers files, even while it is logged in."""
    for file in SUDOERS.glob("dbops-gate-*"):
        if f"\n{name} " in file.read_text():
            (GATES / file.name).unlink(missing_ok=True)
            file.unlink()
    subprocess.run(["userdel", "--force", name], check=False, capture_output=True)


def remove_leftovers() -> None:
    """Remove the accounts of killed test runs."""
    for entry in pwd.getpwall():
        if (found := NAME.fullmatch(entry.pw_name)) and not Path(f"/proc/{found[1]}").exists():
            remove_account(entry.pw_name)


@contextmanager
def installed(path: str, program: str, sudoers: str) -> Iterator[None]:
    """Install a gate and its sudoers file as an administrator does, for the length of the block."""
    gate, file = Path(path), SUDOERS / Path(path).name
    gate.parent.mkdir(parents=True, exist_ok=True)
    try:
        for where, text, mode in ((gate, program, 0o755), (file, sudoers, 0o440)):
            draft = where.with_name(f".{where.name}")
            draft.write_text(text)
            draft.chmod(mode)
            if where is file:
                subprocess.run(["visudo", "-c", "-f", draft], check=True, capture_output=True)
            draft.rename(where)
        yield
    finally:
        gate.unlink(missing_ok=True)
        file.unlink(missing_ok=True)


@contextmanager
def gate_finds(programs: Path, folder: Path) -> Iterator[None]:
    """Let the gate of the host with these ``programs``, if there is one, find those in a folder alone."""
    with ExitStack() as parts:
        for gate in GATES.glob("dbops-gate-*"):
            text = gate.read_text()
            line = re.search(rf"^PATH='?{re.escape(str(programs))}:.*$", text, re.MULTILINE)
            if line:
                _exchange(gate, text.replace(line[0], f"PATH={folder}"))
                parts.callback(_exchange, gate, text)
        yield


def _exchange(gate: Path, text: str) -> None:
    """At once: a gate that runs reads on in the old file."""
    draft = gate.with_name(f".{gate.name}")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.rename(gate)


@contextmanager
def through_gates(stack: "Stack") -> Iterator[str]:
    """Log in to every host of a stack as an account with gates alone, for the length of the block; give its name."""
    lab = stack.lab
    content = yaml.safe_load(lab.fleet_yaml.read_text())
    with ExitStack() as parts:
        name = parts.enter_context(account())
        for host in content["hosts"]:
            host["ssh"]["user"], host["sudo"] = name, True
        lab.fleet_yaml.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
        stack.manage("fleet", "import", str(lab.fleet_yaml))
        for host in lab.hosts:
            host.sshd.authorized_keys.chmod(0o644)  # the account reads it
            search_path = f"{host.sshd.programs}:{os.environ['PATH']}"
            gate = stack.manage("host", "gate", host.name, "--path", search_path).stdout
            sudoers = stack.manage("host", "sudoers", host.name).stdout
            parts.enter_context(installed(path_in(sudoers), gate, sudoers))
        yield name


def path_in(sudoers: str) -> str:
    """Return the path of the gate that a sudoers file allows."""
    return sudoers.split("NOPASSWD: ")[1].strip()
