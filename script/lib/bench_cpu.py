"""Measure processor time and memory of a process and its children, as counted by the kernel."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from script.lib.supervisor import Failed

INTERVAL_SECONDS = 0.25
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    """One sample: time since the epoch, total processor seconds so far, resident bytes of the largest process."""

    at: float
    cpu_seconds: float
    resident_bytes: int


def cost_of(session: int, proc: Path = Path("/proc")) -> Cost:
    """Return the cost of a session's processes, including those that the leader has waited for."""
    ticks = largest = 0
    for stat in proc.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) != session:
            continue
        ticks += int(fields[11]) + int(fields[12])
        if stat.parent.name == str(session):
            ticks += int(fields[13]) + int(fields[14])
        largest = max(largest, int(fields[21]) * PAGE_BYTES)
    return Cost(time.time(), ticks / TICKS, largest)


def cost_between(costs: list[Cost], began: float, ended: float) -> tuple[float, float]:
    """Return processor seconds between the samples nearest to two moments, and the maximum memory (10**6 bytes) until the second.

    Raises:
        Failed: There are no samples near these moments.
    """
    if not costs:
        raise Failed("there are no samples of the worker")
    first = min(costs, key=lambda cost: abs(cost.at - began))
    last = min(costs, key=lambda cost: abs(cost.at - ended))
    resident = max(cost.resident_bytes for cost in costs if cost.at <= last.at)
    return last.cpu_seconds - first.cpu_seconds, resident / 1e6


class Watch(threading.Thread):
    """Sample the processes of a session four times per second."""

    def __init__(self, session: int) -> None:
        super().__init__(name="watch", daemon=True)
        self.session, self.over, self.costs = session, threading.Event(), list[Cost]()

    def run(self) -> None:
        while not self.over.is_set():
            self.costs.append(cost_of(self.session))
            self.over.wait(INTERVAL_SECONDS)

    def end(self) -> None:
        self.over.set()
        self.join(5)

    def between(self, began: float, ended: float) -> tuple[float, float]:
        """See ``cost_between``."""
        return cost_between(self.costs, began, ended)


class Programs(threading.Thread):
    """Sum processor seconds by program name while the block runs; time after a process's last sample is missing."""

    def __init__(self, *names: str, proc: Path = Path("/proc")) -> None:
        super().__init__(name="programs", daemon=True)
        self.names, self.proc, self.over = set(names), proc, threading.Event()
        self.before: dict[tuple[str, str, str], int] = {}
        self.now: dict[tuple[str, str, str], int] = {}

    def __enter__(self) -> "Programs":
        self.before = self._ticks()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(5)

    def run(self) -> None:
        while not self.over.wait(INTERVAL_SECONDS):
            self.now |= self._ticks()

    def seconds(self) -> dict[str, float]:
        """Return processor seconds by program name, for the observed programs."""
        found: dict[str, float] = {}
        for key, ticks in self.now.items():
            found[key[0]] = found.get(key[0], 0.0) + (ticks - self.before.get(key, 0)) / TICKS
        return found

    def _ticks(self) -> dict[tuple[str, str, str], int]:
        """Return the ticks of each process by name, process number and start time."""
        found = {}
        for stat in self.proc.glob("[0-9]*/stat"):
            try:
                head, _, rest = stat.read_text().rpartition(")")
            except OSError:
                continue  # it has just ended
            name, fields = head.partition("(")[2], rest.split()
            if name in self.names:
                found[name, stat.parent.name, fields[19]] = int(fields[11]) + int(fields[12])
        return found
