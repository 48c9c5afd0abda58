"""One host of a lab: an address, an sshd and a server, with all files in one folder."""

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.checks import current_user, is_root, server_user
from lab.errors import LabError
from lab.flavors.base import Flavor, ServerPlan
from lab.processes import is_running, read_pid, run
from lab.settings import Settings
from lab.sshd import Sshd

SCRIPTS = Path(__file__).with_name("scripts")
#: maximum path length of a Unix socket on Linux, without the terminating zero
SOCKET_PATH_LENGTH = 107
START_SECONDS = 60
STOP_SECONDS = 120


@dataclass(frozen=True, slots=True)
class LabHost:
    """A host that runs one server. ``role`` is ``primary``, ``backup`` or ``replica``."""

    name: str
    role: str
    address: str
    folder: Path
    settings: Settings

    @property
    def port(self) -> int:
        return self.settings.port

    @property
    def ssh_port(self) -> int:
        return self.settings.ssh_port

    @property
    def server_id(self) -> int:
        """Server id from the address: 127.0.1.13 becomes 1013, so ids are unique on the machine."""
        second, third, last = (int(octet) for octet in self.address.split(".")[1:])
        return second * 1_000_000 + third * 1000 + last

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def tmp_dir(self) -> Path:
        return self.folder / "tmp"

    @property
    def config_file(self) -> Path:
        return self.folder / "my.cnf"

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "server.sock"

    @property
    def pid_file(self) -> Path:
        return self.folder / "run" / "server.pid"

    @property
    def error_log(self) -> Path:
        return self.folder / "log" / "error.log"

    @property
    def work_dir(self) -> Path:
        return self.folder / "dbops"

    @property
    def start_script(self) -> Path:
        return self.folder / "start"

    @property
    def stop_script(self) -> Path:
        return self.folder / "stop"

    @property
    def sshd(self) -> Sshd:
        return Sshd(self.folder, self.address, self.ssh_port, self.folder / "log" / "sshd.log")

    def plan(self) -> ServerPlan:
        return ServerPlan(
            address=self.address,
            port=self.port,
            server_id=self.server_id,
            role=self.role,
            user=server_user(),
            as_root=is_root(),
            config_file=self.config_file,
            data_dir=self.data_dir,
            tmp_dir=self.tmp_dir,
            socket=self.socket,
            pid_file=self.pid_file,
            error_log=self.error_log,
            redo_bytes=self.settings.redo_bytes,
            parallel_appliers=self.settings.parallel_appliers,
        )

    def prepare(self, flavor: Flavor, client_key: str) -> None:
        """Write everything except the data: folders, ``my.cnf``, ``start``, ``stop`` and sshd's files."""
        if len(str(self.socket)) > SOCKET_PATH_LENGTH:
            raise LabError(f"{self.socket} is too long for a socket. Choose a shorter --folder")
        plan = self.plan()
        make_folder(self.folder)
        for folder in (self.tmp_dir, self.socket.parent, self.error_log.parent):
            make_folder(folder, owner=plan.user)
        self.config_file.write_text(flavor.config(plan))
        self.error_log.touch()
        give(self.error_log, plan.user)
        self.sshd.prepare(client_key)
        self.link_programs(flavor.host_programs)
        names: dict[str, str | Path] = {
            "server": flavor.server,
            "admin": flavor.admin,
            "config": self.config_file,
            "socket": self.socket,
            "pid_file": self.pid_file,
            "server_log": self.folder / "log" / "server.out",
            "error_log": self.error_log,
            "owner": plan.user if plan.as_root else "",
        }
        write_script(self.start_script, SCRIPTS / "start.sh", names)
        write_script(self.stop_script, SCRIPTS / "stop.sh", names)

    def link_programs(self, programs: dict[str, str]) -> None:
        """Put these programs first on the PATH of the host's sessions."""
        for name, path in programs.items():
            make_folder(self.sshd.programs)
            link = self.sshd.programs / name
            link.unlink(missing_ok=True)
            link.symlink_to(path)

    def make_data_dir(self) -> None:
        """Recreate the data directory, empty and owned by the server's user."""
        if self.data_dir.exists():
            shutil.rmtree(self.data_dir)
        make_folder(self.data_dir, owner=server_user(), mode=0o750)

    def copy_data(self, source: Path, flavor: Flavor) -> None:
        """Copy a data directory that no server uses."""
        if self.data_dir.exists():
            shutil.rmtree(self.data_dir)
        copy_data_dir(source, self.data_dir, flavor)

    def server_pid(self) -> int | None:
        """Return the server's process number, ``None`` if it does not run."""
        pid = read_pid(self.pid_file)
        return pid if is_running(pid, self.server_mark) else None

    @property
    def server_mark(self) -> str:
        """Text that only the command line of this host's server contains."""
        return f"--defaults-file={self.config_file}"

    def start_server(self, options: Sequence[str] = ()) -> None:
        """Start the server with the host's ``start``; on failure, ``LabError`` with the end of its log."""
        try:
            run([str(self.start_script), *options], timeout_seconds=START_SECONDS + 30)
        except LabError as error:
            raise LabError(f"{self.name}: the server does not start. {error}") from None

    def stop_server(self) -> None:
        if self.stop_script.exists():
            run([str(self.stop_script)], timeout_seconds=STOP_SECONDS + 30)

    def data_bytes(self) -> int:
        """Return the disk usage of the data directory, as ``du`` counts it; 0 if there is none."""
        total = 0
        for folder, _, files in os.walk(self.data_dir):
            for name in files:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:  # a temporary file of the running server
                    continue
        return total


def copy_data_dir(source: Path, copy: Path, flavor: Flavor) -> None:
    """Copy a data directory without server-specific files; share blocks if the file system supports it."""
    run(["cp", "-a", "--reflink=auto", str(source), str(copy)], timeout_seconds=3600)
    for path in flavor.own_files(copy):
        path.unlink(missing_ok=True)


def make_folder(path: Path, owner: str | None = None, mode: int = 0o755) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if owner is not None:
        give(path, owner)


def give(path: Path, user: str) -> None:
    if user != current_user():
        shutil.chown(path, user, user)


def write_script(path: Path, body: Path, names: dict[str, str | Path]) -> None:
    """Write an executable: variable assignments, then the text of ``body``."""
    values = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in names.items())
    path.write_text("#!/bin/sh\n" + values + "\n" + body.read_text())
    path.chmod(0o755)
