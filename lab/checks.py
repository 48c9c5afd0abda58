"""Check programs, disk space, ports and folder permissions before anything starts."""

import os
import pwd
import shutil
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from lab.errors import LabError
from lab.processes import command_line
from lab.settings import MIB, Settings

#: directories that a user's PATH often lacks
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SERVER_USER = "mysql"
#: Environment variable with another account for the servers.
SERVER_USER_VARIABLE = "DBOPS_LAB_SERVER_USER"
LISTEN_STATE = "0A"


def is_root() -> bool:
    return os.geteuid() == 0


def current_user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def server_user() -> str:
    """Return the servers' user: ``mysql`` if started by root, so that ownership matters as on a real host."""
    if not is_root():
        return current_user()
    user = os.environ.get(SERVER_USER_VARIABLE, SERVER_USER)
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise LabError(
            f"there is no user {user}. Run as root: useradd --system --no-create-home --shell /usr/sbin/nologin {user}"
        ) from None
    return user


def search_path() -> str:
    return os.environ.get("PATH", "") + ":" + SYSTEM_PATH


def find_program(name: str) -> str | None:
    return shutil.which(name, path=search_path())


def need_programs(packages: dict[str, str]) -> dict[str, str]:
    """Return program name to absolute path. ``LabError`` lists all missing programs with their Debian packages."""
    found = {name: find_program(name) for name in packages}
    missing = [f"{name} (package {packages[name]})" for name, path in found.items() if path is None]
    if missing:
        raise LabError("not installed: " + ", ".join(missing))
    return {name: path for name, path in found.items() if path}


def bytes_needed(settings: Settings) -> int:
    """Return a lab's disk usage: data and redo of each host, one kept data directory, binary logs."""
    hosts = 1 + settings.backups + settings.replicas
    return hosts * (settings.size_bytes * 5 // 4 + settings.redo_bytes + 128 * MIB) + settings.size_bytes + 512 * MIB


def check_space(folder: Path, needed_bytes: int) -> None:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise LabError(
            f"{existing} has {free // MIB} MiB free, but the lab needs about {needed_bytes // MIB} MiB. "
            "Choose a smaller --size or another --folder"
        )


def check_reachable(folder: Path, user: str) -> None:
    """Refuse a folder inside a directory that the servers' user cannot traverse, such as ``/root``."""
    if user == current_user():
        return
    for directory in folder.parents:
        if directory.exists() and not directory.stat().st_mode & stat.S_IXOTH:
            raise LabError(
                f"user {user} cannot traverse {directory}. Choose another --folder, or chmod o+x {directory}"
            )


def check_ports(wanted: Iterable[tuple[str, int]]) -> None:
    """Refuse if one of the (address, port) pairs is in use, and name the process."""
    taken = [(address, port) for address, port in wanted if not is_free(address, port)]
    if taken:
        said = "; ".join(f"{address}:{port} is in use by {who_listens(address, port)}" for address, port in taken)
        raise LabError(f"{said}. Nothing was started. Choose another --network, or stop that program")


def is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        # like the servers: a connection in TIME_WAIT does not block the port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            raise LabError(f"only root can open port {port}") from None
        except OSError:
            return False
    return True


def who_listens(address: str, port: int) -> str:
    """Return the listening program as ``process 123 (command line)``, as far as permissions allow."""
    inodes = listening_inodes(address, port)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and inodes & open_sockets(entry):
            return f"process {entry.name} ({command_line(int(entry.name)) or 'unknown'})"
    return "a process of another user" if inodes else "an open or recently closed connection"


def listening_inodes(address: str, port: int) -> set[str]:
    """Return the inodes of sockets that listen on this address or on all addresses."""
    packed = socket.inet_aton(address)[::-1].hex().upper()
    covering = {packed, "0" * 8, "0" * 32, "0000000000000000FFFF0000" + packed}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            local, _, hex_port = columns[1].partition(":")
            if columns[3] == LISTEN_STATE and int(hex_port, 16) == port and local in covering:
                found.add(columns[9])
    return found


def open_sockets(process: Path) -> set[str]:
    """Return the inodes of a process's sockets; none if it has ended or may not be read."""
    found: set[str] = set()
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue  # closed since
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found
