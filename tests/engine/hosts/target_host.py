"""A host on which the data directory swap runs for real: directories, processes and a client program that answers for them.

The directories and processes are real (``mariadbd`` here is a copy of ``sleep``), so that what the script looks at in
``/proc`` and in the file system is what it looks at on a host. Only SQL is played: the client program reads the file that
is in place of the socket. Afterwards the host reports which directories were touched and which server was stopped.
"""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dbops.engine.hosts.scripts import load
from tests import run_folder

SCRIPT = load("common", "inside", "service", "swap_datadir")
REFUSED = 65
SOCKET = "/run/mysqld/mysqld.sock"
ASIDE = ".dbops-old-run"
CLIENT = r"""#!/bin/bash
for word; do
    case $word in --socket=*) socket=${word#*=} ;; esac
    statement=$word
done
declare -A said
[ -f "$socket" ] || { echo "ERROR 2002 (HY000): Can't connect to local server through socket '$socket'" && exit 1; }
while IFS='=' read -r name value; do said[$name]=$value; done <"$socket"
case $statement in
    *PROCESSLIST*) echo "${said[replicas]}" && exit ;;
    "SELECT @@"*) statement=${statement#SELECT } ;;
    *) echo "ERROR 1064 (42000): You have an error in your SQL syntax" && exit 1 ;;
esac
answer=
IFS=', ' read -r -a names <<<"${statement//@@/}"
for name in "${names[@]}"; do
    [ -n "${said[$name]+is set}" ] || { echo "ERROR 1193 (HY000): Unknown system variable '$name'" && exit 1; }
    answer+=${answer:+$'\t'}${said[$name]}
done
printf '%s\n' "$answer"
"""
STOP = """#!/bin/bash
# $1 how it ends: stops, fails, does nothing, or restores a file before it ends
echo asked >"$(dirname "$0")/stopped"
case $1 in
    stops) while read -r pid; do kill -9 "$pid"; done <"$(dirname "$0")/pids" ;;
    fails) exit 3 ;;
    restores) echo restored >"$(dirname "$0")/host/var/lib/mysql/restored" ;;
esac
"""


@dataclass(frozen=True)
class SwapArguments:
    """The arguments of the script, as in the plan: paths as they are on the host that the plan saw."""

    datadir: str
    identity: str
    is_answering: bool
    server_id: str
    server_uuid: str
    socket: str = SOCKET
    keeps_old_data: bool = True
    stop: str = "stops"
    machine: str = ""
    tree: str = ""
    inside: str = ""


@dataclass(frozen=True)
class Ended:
    """How the script ended, and what it did to the host: the names of the directories and processes that it touched."""

    exit_status: int
    output: str
    touched: frozenset[str]
    stopped: frozenset[str]
    asked_to_stop: bool

    @property
    def left_all_alone(self) -> bool:
        return not (self.touched or self.stopped or self.asked_to_stop)


@dataclass
class TargetHost:
    """One host below a temporary directory. ``place`` gives the real path of one of its paths."""

    root: Path
    directories: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def place(self, path: str) -> Path:
        return Path(f"{self.root}/host{path}")

    def add_directory(self, name: str, path: str) -> None:
        """Put a data directory at ``path``; its content names its owner."""
        directory = self.place(path)
        directory.mkdir(parents=True)
        (directory / "ibdata1").write_text(name)
        self.directories[name] = directory

    def add_process(self, name: str, directory: str, program: str = "mariadbd") -> None:
        """Start a process of a server's name in the named directory, as a server runs in its own."""
        self.processes[name] = subprocess.Popen([self.root / program, "600"], cwd=self.directories[directory])

    def answer(self, socket: str = SOCKET, **said: Any) -> None:
        """Let a server answer on a socket: ``server_id``, ``read_only``, ``datadir``, ``replicas`` and so on."""
        file = self.place(socket)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{name}={value}\n" for name, value in said.items()))

    def identity(self, path: str) -> str:
        """Return device and inode of the directory that is at ``path`` now, "" where there is none."""
        try:
            status = self.place(path).stat()
        except FileNotFoundError:
            return ""
        return f"{status.st_dev}:{status.st_ino}"

    def tree(self, path: str) -> str:
        """Return the content of the directory at ``path``, in the form of the scripts."""
        return self._run(load("common") + '\ntree_of "$1"', [str(self.place(path))]).stdout.strip()

    def swap_datadir(self, told: SwapArguments, script: str = SCRIPT) -> Ended:
        """Run the script: the one place that knows its arguments."""
        (self.root / "pids").write_text("".join(f"{process.pid}\n" for process in self.processes.values()))
        jobs = self.root / "run" / "jobs" / "swap-datadir"
        jobs.mkdir(parents=True, exist_ok=True)
        (jobs / "inside").write_text(told.inside)
        datadir = str(self.place(told.datadir))
        arguments = [
            datadir,
            told.identity,
            "1" if told.is_answering else "0",
            told.server_id,
            told.server_uuid,
            str(self.place(told.socket)),
            f"{datadir}{ASIDE}" if told.keeps_old_data else "",
            getpass.getuser(),
            str(self.root / "mariadb"),
            "run",
            told.machine,
            told.tree,
            str(self.root / "stop"),
            told.stop,
        ]
        done = self._run(script, arguments)
        return Ended(
            done.returncode,
            done.stdout + done.stderr,
            touched=frozenset(name for name, path in self.directories.items() if not _is_whole(path, name)),
            stopped=frozenset(name for name, process in self.processes.items() if process.poll() is not None),
            asked_to_stop=(self.root / "stopped").exists(),
        )

    def _run(self, script: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        jobs = self.root / "run" / "jobs" / "swap-datadir"
        jobs.mkdir(parents=True, exist_ok=True)
        environment = {"DBOPS_JOB_DIR": str(jobs), "DBOPS_RUN_DIR": str(self.root / "run"), "LC_ALL": "C"}
        return subprocess.run(
            ["bash", "-c", script, "swap-datadir", *arguments],
            env={**environment, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )


def _is_whole(directory: Path, name: str) -> bool:
    file = directory / "ibdata1"
    return file.is_file() and file.read_text() == name


@contextmanager
def target_host() -> Iterator[TargetHost]:
    """Yield an empty host; its processes are ended afterwards."""
    with TemporaryDirectory(prefix="dbops-host-", dir=run_folder.parent()) as folder:
        host = TargetHost(Path(folder))
        for name, text in (("mariadb", CLIENT), ("stop", STOP)):
            (host.root / name).write_text(text)
            (host.root / name).chmod(0o755)
        for program in ("mariadbd", "mysqld"):
            shutil.copy(shutil.which("sleep") or "/bin/sleep", host.root / program)
        try:
            yield host
        finally:
            for process in host.processes.values():
                process.kill()
                process.wait()


def this_machine() -> str:
    """Return the name and the id of the machine that runs the tests, as a probe reads them."""
    machine_id = Path("/etc/machine-id")
    return f"{socket.gethostname()} {machine_id.read_text().strip() if machine_id.exists() else ''}".strip()
