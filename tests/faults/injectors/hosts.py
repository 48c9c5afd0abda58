"""Kill, stop or terminate processes of a lab's hosts: only by number, and only after a check of the process with that number."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts import LabHost
from lab.processes import end
from tests.stack import wait_for


def run_directory(host: LabHost, uid: str) -> Path:
    return host.work_dir / "rebuilds" / uid


def backup_process(source: LabHost, uid: str) -> int | None:
    """Return the number of the run's backup process, as the product itself wrote it down; ``None`` while there is none."""
    return _written_down(run_directory(source, uid) / "backup.pid")


def wait_for_backup(source: LabHost, uid: str, *, after_bytes: int = 1024**2, seconds: float = 60.0) -> int:
    """Return the backup process once it has read a first part. (What it writes counts only when its reader has taken it.)"""

    def reading() -> int | None:
        pid = backup_process(source, uid)
        try:
            return pid if pid is not None and _read_bytes(pid) >= after_bytes else None
        except OSError:
            return None

    found: int = wait_for("a backup that reads", reading, seconds)
    return found


def _read_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def guard_process(source: LabHost, uid: str) -> int | None:
    """Return the number of the run's guard, ``None`` where it does not run."""
    return _written_down(run_directory(source, uid) / "guard.pid")


def _written_down(file: Path) -> int | None:
    """Return the process of a file "PID START" while it lives; another process of that number has another start time."""
    try:
        number, started = file.read_text().split()
        fields = _fields(int(number))
    except (OSError, ValueError):
        return None
    return int(number) if fields[19] == started and fields[0] not in "ZX" else None


def job_processes(host: LabHost, uid: str, job: str) -> list[int]:
    """Return every process of a detached job, its wrapper first: those of its session."""
    try:
        leader = int((run_directory(host, uid) / "jobs" / job / "pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return []
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(_fields(int(entry.name))[3]) == leader:
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found, key=lambda pid: pid != leader)


def processes_with(uid: str, name: str) -> list[int]:
    """Return processes of a program (``comm``) that were given the run's id."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() == name and uid.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def kill_all(pids: list[int]) -> None:
    """SIGKILL to all of them at once: first stopped, so that none lives to see how another one ended."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            _send(pid, number)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Hold a process with SIGSTOP: it is there, and answers nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pid, signal.SIGCONT)


def kill_server(host: LabHost) -> None:
    end(host.server_pid(), host.server_mark, what=f"the server of {host.name}", first=signal.SIGKILL)


def restart_sshd(host: LabHost, seconds_down: float = 0.0) -> None:
    """End sshd and every session of it, as stopping the service with its control group does, and start it again."""
    host.sshd.stop()
    time.sleep(seconds_down)
    host.sshd.start()


def restart_listener(host: LabHost, seconds_down: float = 0.0) -> None:
    """End sshd alone, as a package upgrade does, and start it again: its sessions live on."""
    end(host.sshd.pid(), str(host.sshd.config_file), what=f"sshd of {host.name}")
    time.sleep(seconds_down)
    host.sshd.start()


def _fields(pid: int) -> list[str]:
    """The words of ``/proc/PID/stat`` after the name: state, parent, group, session and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
