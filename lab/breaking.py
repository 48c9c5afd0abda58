"""Ways to lose a host's data or server, as they happen in real life."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.hosts import LabHost
from lab.processes import children, end, run, send, working_for

PAGE_BYTES = 16 * 1024
#: pages that are overwritten at the start of a file: the header, the maps of space and inodes, the first of data
CORRUPT_PAGES = 8
POWER_OFF_SECONDS = 20.0


def wipe(host: LabHost) -> str:
    """Stop the server and remove everything in its data directory, as a lost disk or a wrong ``rm`` does."""
    host.stop_server()
    if host.data_dir.is_dir():
        run(["find", str(host.data_dir), "-mindepth", "1", "-delete"], timeout_seconds=600)
    return f"{host.name}: server stopped, {host.data_dir} emptied"


def kill(host: LabHost) -> str:
    """End the server with SIGKILL, as the kernel does when memory runs out."""
    if not end(host.server_pid(), host.server_mark, what=f"the server of {host.name}", first=signal.SIGKILL):
        return f"{host.name}: its server did not run"
    return f"{host.name}: server killed"


def power_off(host: LabHost) -> str:
    """End every process of the host with SIGKILL, as a power cut does: its server, its sshd and all that runs for sessions.

    The machine itself runs on, so boot id and uptime stay: what looks at those sees processes that died, and no restart.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + POWER_OFF_SECONDS
    while found := _processes(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name}: processes {sorted(found)} are still there after SIGKILL")
        for number in (signal.SIGSTOP, signal.SIGKILL):  # first stopped: none may live to see how another one ended
            for pid in found:
                send(pid, number)
        ended |= found
        time.sleep(0.05)
    return f"{host.name}: power off, {len(ended)} processes killed"


def _processes(host: LabHost) -> set[int]:
    """The listener and its descendants first: a session that has just begun shows nothing of its host yet."""
    listener = host.sshd.pid()
    found: set[int] = set()
    rest = [listener] if listener is not None else []
    while rest:
        found.add(pid := rest.pop())
        rest += children(pid)
    return found | set(working_for(host.folder))


def power_on(host: LabHost) -> str:
    """Start the host's sshd and its server, as a boot does; nothing else that ran there comes back."""
    host.sshd.start()
    host.start_server()
    return f"{host.name}: power on"


def corrupt(host: LabHost) -> str:
    """Stop the server and overwrite pages of the system table space and of one table, as a failing disk does."""
    host.stop_server()
    tables = sorted(host.data_dir.glob("sbtest/*.ibd"))[:1]
    files = [path for path in (host.data_dir / "ibdata1", *tables) if path.is_file()]
    if not files:
        raise LabError(f"{host.name}: there is nothing in {host.data_dir} to corrupt; its server is stopped")
    for path in files:
        overwrite(path)
    return f"{host.name}: server stopped, pages of {', '.join(path.name for path in files)} overwritten"


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(min(CORRUPT_PAGES * PAGE_BYTES, path.stat().st_size)))


WAYS: dict[str, Callable[[LabHost], str]] = {"wipe": wipe, "stop": kill, "corrupt": corrupt}


def break_host(host: LabHost, how: str, *, force: bool = False) -> str:
    """Break the host and return what was done; only a replica without ``force``."""
    if how not in WAYS:
        raise LabError(f"unknown --how {how}; there are: {', '.join(WAYS)}")
    if host.role != "replica" and not force:
        raise LabError(f"{host.name} is the lab's {host.role}, not a replica; --force breaks it all the same")
    return WAYS[how](host)
