"""A slower machine: the program that unpacks is stopped and let go by turns, so that a small copy can be watched.

What the page shows stays true: it is the kernel's count of the bytes that this very process has read, and when.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts import LabHost

PERIOD_SECONDS = 0.2


def unpacker(target: LabHost) -> int | None:
    """Return the process that unpacks a backup on this host, ``None`` while there is none."""
    for file in (target.folder / "dbops" / "rebuilds").glob("*/jobs/stream/pid.unpack"):
        try:
            pid = int(file.read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if str(target.data_dir).encode() in words:
            return pid
    return None


class Brake:
    """``share`` is how much of the time the unpacking may run: 0 holds it, 1 lets it go."""

    def __init__(self, target: LabHost, share: float) -> None:
        self.target, self.share = target, share
        self._ends = threading.Event()

    def release(self) -> None:
        self._ends.set()

    def work(self) -> None:
        while not self._ends.is_set():
            pid = unpacker(self.target)
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
            self._ends.wait(PERIOD_SECONDS * (1 - self.share))
            while self.share == 0 and not self._ends.wait(PERIOD_SECONDS):
                pass
        finally:
            os.kill(pid, signal.SIGCONT)
        self._ends.wait(PERIOD_SECONDS * self.share)


@contextmanager
def braked(target: LabHost, share: float = 0.1) -> Iterator[Brake]:
    """Slow every stream into this host down until the block ends or the brake is released."""
    brake = Brake(target, share)
    thread = threading.Thread(target=brake.work, daemon=True)
    thread.start()
    try:
        yield brake
    finally:
        brake.release()
        thread.join(5)
