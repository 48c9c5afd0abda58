"""Start, watch and stop the demonstration's processes. Standard library only.

Every process gets its own session and a record of its number and start time. The record identifies processes that a killed
demonstration left behind, and protects other processes that got the same number later.
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
#: A process that ends sooner after its start has a fault: starting it again would not help.
SHORTEST_RUN_SECONDS = 10.0
TAIL_LINES = 25


class Failed(Exception):
    """The demonstration cannot continue; the text is for the person at the terminal."""


class Stopped(Exception):
    """Ctrl-C, SIGTERM or a closed terminal."""


class StopFlag:
    """Record that the user wants to stop; long waits check it. A handler that raises could interrupt a start."""

    def __init__(self) -> None:
        self.wanted = self.ending = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._remember)

    def _remember(self, *_: object) -> None:
        self.wanted = True

    def begin_ending(self) -> None:
        """Ignore further signals, so that the cleanup can finish."""
        self.ending = True

    def check(self) -> None:
        if self.wanted and not self.ending:
            raise Stopped


def start_time(pid: int) -> str | None:
    """Return the process's start in clock ticks after boot; ``None`` if it has exited or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19] + "@" + boot_id()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def end_group(pid: int, seconds: float) -> None:
    """Terminate a session's leader, wait, then kill the rest of its group. The caller knows that it is ours."""
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
        self.started_at = 0.0

    def start(self, *, again: bool = False) -> None:
        """Start the process. ``again`` keeps the log of its earlier run."""
        for path in (self.log, self.record):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.started_at = time.monotonic()
        with self.log.open("ab" if again else "wb") as log:
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
        """Raise ``Failed`` with the end of the log if the process has exited."""
        if self.popen is not None and (status := self.popen.poll()) is not None:
            raise Failed(f"{self.name} exited with status {status}. The end of {self.log}:\n{tail(self.log)}")

    def start_again_if_ended(self) -> bool:
        """Start the process again if it has ended; return whether it had.

        Raises:
            Failed: It ended soon after its start.
        """
        # Not poll(): that would free the number of the process before the rest of its group has ended.
        if self.popen is None or start_time(self.popen.pid) is not None:
            return False
        if time.monotonic() - self.started_at < SHORTEST_RUN_SECONDS:
            self.check()
        self.stop(0)
        self.start(again=True)
        return True

    def stop(self, seconds: float) -> None:
        if self.popen is not None:
            end_group(self.popen.pid, seconds)
            self.popen.wait()
            self.popen = None
        self.record.unlink(missing_ok=True)


def end_leftovers(folder: Path) -> list[str]:
    """Stop processes that an earlier demonstration recorded in ``folder``; return their names."""
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
    """Run a short command; return its status and standard output. Standard error goes to ``log``.

    The command has its own session, so that Ctrl-C reaches it only through this function, and only once.

    Raises:
        Stopped: The user wants to stop; the command has ended.
        Failed: The status is not ``allowed``.
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
        process.send_signal(signal.SIGINT)  # the lab's commands clean up on this signal
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
    """Read a non-blocking pipe and pass on each complete line."""

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
    """Wait for ``ready()``; raise ``Failed`` on timeout or if a watched process exits."""
    deadline = time.monotonic() + seconds
    while not ready():
        stop.check()
        for process in watch:
            process.check()
        if time.monotonic() > deadline:
            logs = "\n".join(f"The end of {process.log}:\n{tail(process.log)}" for process in watch[-1:])
            raise Failed(f"{what}: timeout after {seconds:g} seconds. {logs}")
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
    """Return the first free port at or after ``first``."""
    for port in range(first, first + 200):
        if is_free(port):
            return port
    raise Failed(f"no port is free from {first} to {first + 199}")


def lock(path: Path) -> IO[str] | None:
    """Lock the file, or return ``None`` if another demonstration holds it. The lock lasts while the file is open."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle
