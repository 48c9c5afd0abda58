"""Break a host's data or server in ways that occur in production."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.hosts import LabHost
from lab.processes import children, end, run, send, working_for

PAGE_BYTES = 16 * 1024
#: pages to overwrite at the start of a file: header, space and inode maps, the first data pages
CORRUPT_PAGES = 8
POWER_OFF_SECONDS = 20.0


def wipe(host: LabHost) -> str:
    """Stop the server and empty its data directory, like a lost disk or a wrong ``rm``."""
    host.stop_server()
    if host.data_dir.is_dir():
        run(["find", str(host.data_dir), "-mindepth", "1", "-delete"], timeout_seconds=600)
    return f"{host.name}: server stopped, {host.data_dir} emptied"


def kill(host: LabHost) -> str:
    """Kill the server with SIGKILL, as the kernel does when memory runs out."""
    if not end(host.server_pid(), host.server_mark, what=f"the server of {host.name}", first=signal.SIGKILL):
        return f"{host.name}: the server was not running"
    return f"{host.name}: server killed"


def power_off(host: LabHost) -> str:
    """Kill every process of the host with SIGKILL, like a power cut: server, sshd and all sessions.

    The machine keeps running, so boot id and uptime do not change: they show dead processes but no restart.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + POWER_OFF_SECONDS
    while found := _processes(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name}: processes {sorted(found)} did not exit after SIGKILL")
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stop all first: no process must observe the end of another
            for pid in found:
                send(pid, number)
        ended |= found
        time.sleep(0.05)
    return f"{host.name}: power off, {len(ended)} processes killed"


def _processes(host: LabHost) -> set[int]:
    """Return the listener and its descendants first: a new session does not show its host yet."""
    listener = host.sshd.pid()
    found: set[int] = set()
    rest = [listener] if listener is not None else []
    while rest:
        found.add(pid := rest.pop())
        rest += children(pid)
    return found | set(working_for(host.folder))


def power_on(host: LabHost) -> str:
    """Start the host's sshd and server, like a boot; other processes do not return."""
    host.sshd.start()
    host.start_server()
    return f"{host.name}: power on"


def corrupt(host: LabHost) -> str:
    """Stop the server and overwrite pages of the system tablespace and of one table, like a failing disk."""
    host.stop_server()
    tables = sorted(host.data_dir.glob("sbtest/*.ibd"))[:1]
    files = [path for path in (host.data_dir / "ibdata1", *tables) if path.is_file()]
    if not files:
        raise LabError(f"{host.name}: {host.data_dir} contains nothing to corrupt; the server is stopped")
    for path in files:
        overwrite(path)
    return f"{host.name}: server stopped, pages of {', '.join(path.name for path in files)} overwritten"


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(min(CORRUPT_PAGES * PAGE_BYTES, path.stat().st_size)))


WAYS: dict[str, Callable[[LabHost], str]] = {"wipe": wipe, "stop": kill, "corrupt": corrupt}


def break_host(host: LabHost, how: str, *, force: bool = False) -> str:
    """Break the host and return a summary; without ``force``, only a replica."""
    if how not in WAYS:
        raise LabError(f"unknown --how {how}. Choose from: {', '.join(WAYS)}")
    if host.role != "replica" and not force:
        raise LabError(f"{host.name} is the lab's {host.role}, not a replica; use --force to break it")
    return WAYS[how](host)
