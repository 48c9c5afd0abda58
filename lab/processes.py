"""Run commands, and end processes that the lab started.

A process is ended by its recorded number, after its command line has confirmed that the number still belongs to it:
numbers are reused, names are shared.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError

POLL_SECONDS = 0.05


def run(command: Sequence[str], *, stdin: str = "", timeout_seconds: float = 120) -> str:
    """Run a command and return its standard output; on failure, ``LabError`` with its output."""
    try:
        done = subprocess.run(
            command, check=False, input=stdin, capture_output=True, text=True, timeout=timeout_seconds
        )
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{command[0]} did not end within {timeout_seconds:g} seconds") from None
    if done.returncode != 0:
        said = (done.stderr.strip() + "\n" + done.stdout.strip()).strip()
        raise LabError(f"{command[0]} ended with status {done.returncode}:\n{tail(said)}")
    return done.stdout


def tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.splitlines()[-lines:])


def start_detached(command: Sequence[str], log: Path) -> int:
    """Start a command in its own session with its output in ``log``, and return its process number.

    An intermediate shell adopts it out of this process, so that a long-lived caller keeps no zombie.
    """
    script = 'log=$1; shift; setsid "$@" </dev/null >"$log" 2>&1 & echo $!'
    return int(run(["sh", "-c", script, "sh", str(log), *command]))


def read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_running(pid: int | None, mark: str) -> bool:
    """Whether the process is alive and has ``mark``, a path unique to it, in its command line."""
    return pid is not None and mark in command_line(pid)


def command_line(pid: int) -> str:
    """Return a process's arguments joined by spaces, ``""`` if it has exited or is a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Return the process numbers of direct children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(after_name[1]) == pid:
                found.append(int(entry.name))
    return found


def working_for(folder: Path) -> list[int]:
    """Return processes with a folder as working directory, or with a path of it in arguments or environment."""
    mark = f"{folder}/".encode()
    return [pid for pid in _all_pids() if pid != os.getpid() and mark in _traces(pid)]


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _traces(pid: int) -> bytes:
    """Read a file of /proc; ``b""`` if the process has exited, is a zombie, or belongs to another user."""
    try:
        place = os.fsencode(os.readlink(f"/proc/{pid}/cwd")) + b"/"
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"\0".join([place, words, Path(f"/proc/{pid}/environ").read_bytes()])
    except OSError:
        return b""


def end(pid: int | None, mark: str, *, what: str, timeout_seconds: float = 30, first: int = signal.SIGTERM) -> bool:
    """End the process and wait; ``False`` if it was not running. ``LabError`` if it does not exit."""
    if pid is None or not is_running(pid, mark):
        return False
    send(pid, first)
    if not wait_gone(pid, timeout_seconds):
        raise LabError(f"{what} (process {pid}) did not exit within {timeout_seconds:g} seconds")
    return True


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise LabError(f"process {pid} belongs to another user. Stop the lab as the user who started it") from None


def is_gone(pid: int) -> bool:
    """Whether the process has exited completely: no entry, or a zombie without threads.

    The command line disappears before files, locks and ports are released, so it is no indication.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


def wait_gone(pid: int, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not is_gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
