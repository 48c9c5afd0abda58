"""Starting, watching and ending the demonstration's processes. Standard library only.

Every process gets a session of its own and a record of its number and start time: what a killed demonstration left behind
is found by that record, and a number that has since been given to another process is never touched.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.1
TAIL_LINES = 25


class Failed(Exception):
    """The demonstration cannot go on; the text is for the person at the terminal."""


class Stopped(Exception):
    """Ctrl-C, SIGTERM or a closed terminal."""


class StopFlag:
    """Remembers that the user wants to stop; long waits ask it. A handler that raised could cut a start in two."""

    def __init__(self) -> None:
        self.wanted = self.ending = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._remember)

    def _remember(self, *_: object) -> None:
        self.wanted = True

    def begin_ending(self) -> None:
        """From now on nothing is cut short: what ends the processes must run to its end."""
        self.ending = True

    def check(self) -> None:
        if self.wanted and not self.ending:
            raise Stopped


def start_time(pid: int) -> str | None:
    """Return when the process began, in clock ticks after this machine's boot; ``None`` when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19] + "@" + boot_id()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def end_group(pid: int, seconds: float) -> None:
    """Ask a session's leader to end, wait, and end what is left of its group. The caller knows that it is ours."""
    began = start_time(pid)
    signal_quietly(os.kill, pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while began is not None and start_time(pid) == began and time.monotonic() < deadline:
        reap(pid)
        time.sleep(POLL_SECONDS)
    signal_quietly(os.killpg, pid, signal.SIGKILL)


def signal_quietly(send: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        send(pid, number)
    except ProcessLookupError:
        pass


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


class Process:
    """One long-running process with its log and its record in ``folder``."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name, self.command, self.environment = name, command, environment
        self.log = folder / "log" / f"{name}.log"
        self.record = folder / "pid" / f"{name}.json"
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for path in (self.log, self.record):
            path.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.record.write_text(json.dumps({"pid": self.popen.pid, "began": start_time(self.popen.pid)}))

    def check(self) -> None:
        """Raise ``Failed`` with the log's end when the process has ended by itself."""
        if self.popen is not None and (status := self.popen.poll()) is not None:
            raise Failed(f"{self.name} ended by itself with status {status}. The end of {self.log}:\n{tail(self.log)}")

    def stop(self, seconds: float) -> None:
        if self.popen is not None:
            end_group(self.popen.pid, seconds)
            self.popen.wait()
            self.popen = None
        self.record.unlink(missing_ok=True)


def end_leftovers(folder: Path) -> list[str]:
    """End what an earlier demonstration recorded in ``folder`` and could not end; return the names."""
    ended = []
    for record in sorted((folder / "pid").glob("*.json")):
        try:
            content = json.loads(record.read_text())
            pid, began = int(content["pid"]), content["began"]
        except (ValueError, KeyError, TypeError):
            record.unlink()
            continue
        if began and start_time(pid) == began:
            end_group(pid, 20)
            ended.append(record.stem)
        record.unlink()
    return ended


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    try:
        return "\n".join("    " + line for line in log.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"    ({error})"


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stop: StopFlag,
    *,
    input_text: str = "",
    on_line: Callable[[str], None] | None = None,
    log: IO[bytes] | None = None,
    allowed: Sequence[int] = (0,),
) -> tuple[int, str]:
    """Run a short command to its end and return its status and standard output; standard error goes to ``log``.

    The command has its own session, so that Ctrl-C reaches it through here alone and only once.
    Raises ``Stopped``, after ending the command, and ``Failed`` for a status that is not ``allowed``.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(input_text.encode())
    process.stdin.close()
    os.set_blocking(process.stdout.fileno(), False)
    lines = LineReader(process.stdout, on_line)
    try:
        while process.poll() is None:
            lines.read()
            stop.check()
            time.sleep(POLL_SECONDS)
    except BaseException:
        process.send_signal(signal.SIGINT)  # the lab's commands tidy up on it
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            signal_quietly(os.killpg, process.pid, signal.SIGKILL)
            process.wait()
        raise
    lines.read(last=True)
    if process.returncode not in allowed:
        raise Failed(f"{' '.join(command[:6])} ended with status {process.returncode}")
    return process.returncode, lines.text


class LineReader:
    """Collects what comes out of a pipe that does not block and hands on each whole line as it comes."""

    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None] | None) -> None:
        self.pipe, self.on_line = pipe, on_line
        self.content, self.handed_on = b"", 0

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def read(self, *, last: bool = False) -> None:
        while chunk := self.pipe.read(65536):
            self.content += chunk
        end = len(self.content) if last else self.content.rfind(b"\n") + 1
        if self.on_line is not None:
            for line in self.content[self.handed_on : end].decode(errors="replace").splitlines():
                self.on_line(line)
        self.handed_on = max(end, self.handed_on)


def wait_until(ready: Callable[[], bool], what: str, seconds: float, watch: Sequence[Process], stop: StopFlag) -> None:
    """Wait for ``ready()``; raise ``Failed`` when time is up or one of the watched processes ends."""
    deadline = time.monotonic() + seconds
    while not ready():
        stop.check()
        for process in watch:
            process.check()
        if time.monotonic() > deadline:
            logs = "\n".join(f"The end of {process.log}:\n{tail(process.log)}" for process in watch[-1:])
            raise Failed(f"{what} did not come within {seconds:g} seconds. {logs}")
        time.sleep(POLL_SECONDS)


def is_free(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def free_port(first: int) -> int:
    """Return the first free port from ``first`` on."""
    for port in range(first, first + 200):
        if is_free(port):
            return port
    raise Failed(f"no port is free from {first} to {first + 199}")


def lock(path: Path) -> IO[str] | None:
    """Take the lock file, or return ``None`` when another demonstration holds it. It lasts as long as the file is open."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle
