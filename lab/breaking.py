"""Ways to lose a host's data or server, as they happen in real life."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.hosts import LabHost
from lab.processes import end, run

PAGE_BYTES = 16 * 1024
#: pages that are overwritten at the start of a file: the header, the maps of space and inodes, the first of data
CORRUPT_PAGES = 8


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
