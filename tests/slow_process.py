"""A slower machine: the program of one job is stopped and let go by turns, so that a small copy can be watched.

What the page shows stays true: it is the kernel's count of the bytes that this very process has read, and when.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts import LabHost

PERIOD_SECONDS = 0.2
#: A process is known to be this old, a file to the moment.
CLOCK_TICK_SECONDS = 0.05


def worker_of(target: LabHost, stage: str) -> int | None:
    """Return the process that works on this host's data in a stage (``stream/unpack``), ``None`` while there is none."""
    job, _, name = stage.partition("/")
    for file in (target.folder / "dbops" / "rebuilds").glob(f"*/jobs/{job}/pid.{name}"):
        try:
            pid = int(file.read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            wrote_it = born_at(pid) <= file.stat().st_mtime + CLOCK_TICK_SECONDS
        except (OSError, ValueError):
            continue
        if wrote_it and any(word.endswith(str(target.data_dir).encode()) for word in words):
            return pid
    return None


def born_at(pid: int) -> float:
    """Return a process's start time by the clock of files. Numbers are reused: a process younger than its file is another one."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


class Brake:
    """``share`` is how much of the time the process may run: 0 holds it, 1 lets it go. ``held`` tells which ones it was, by their words."""

    def __init__(self, target: LabHost, share: float, stage: str) -> None:
        self.target, self.share, self.stage = target, share, stage
        self.held: list[str] = []
        self._ends = threading.Event()

    def release(self) -> None:
        self._ends.set()

    def work(self) -> None:
        if os.geteuid() == 0:  # of this thread alone, so that nothing short is missed
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -15)
        while not self._ends.is_set():
            pid = worker_of(self.target, self.stage)
            if pid is None:
                self._ends.wait(0.02)
                continue
            try:
                self._brake(pid)
            except ProcessLookupError:
                continue

    def _brake(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        try:
            if not self.held or not self.held[-1].startswith(f"{pid} "):
                self.held.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()}".replace("\0", " "))
            self._ends.wait(PERIOD_SECONDS * (1 - self.share))
            while self.share == 0 and not self._ends.wait(PERIOD_SECONDS):
                os.kill(pid, signal.SIGSTOP)
        finally:
            os.kill(pid, signal.SIGCONT)
        self._ends.wait(PERIOD_SECONDS * self.share)


@contextmanager
def braked(target: LabHost, share: float = 0.1, stage: str = "stream/unpack") -> Iterator[Brake]:
    """Slow every stream into this host (or another stage of its rebuilds) down until the block ends or the brake is released."""
    brake = Brake(target, share, stage)
    thread = threading.Thread(target=brake.work, daemon=True)
    thread.start()
    try:
        yield brake
    finally:
        brake.release()
        thread.join(30)
