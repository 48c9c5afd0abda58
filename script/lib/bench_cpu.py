"""What a process and those that it started cost over time, as the kernel counts it."""

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
    """At one moment (seconds since the epoch): processor seconds of all so far, bytes in memory of the largest one."""

    at: float
    cpu_seconds: float
    resident_bytes: int


def cost_of(session: int, proc: Path = Path("/proc")) -> Cost:
    """Return what the processes of a session have cost, those included that its leader has seen end."""
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
    """Return processor seconds between the looks nearest to both moments, and the largest megabytes (10**6) seen by the second.

    Raises:
        Failed: nobody looked then.
    """
    if not costs:
        raise Failed("nobody looked at the worker")
    first = min(costs, key=lambda cost: abs(cost.at - began))
    last = min(costs, key=lambda cost: abs(cost.at - ended))
    resident = max(cost.resident_bytes for cost in costs if cost.at <= last.at)
    return last.cpu_seconds - first.cpu_seconds, resident / 1e6


class Watch(threading.Thread):
    """Looks at the processes of a session four times a second."""

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
        """As ``cost_between``."""
        return cost_between(self.costs, began, ended)


class Programs(threading.Thread):
    """Adds up, by name, the processor seconds of programs while the block runs; what ends between two looks is missing by so much."""

    def __init__(self, *names: str, proc: Path = Path("/proc")) -> None:
        super().__init__(name="programs", daemon=True)
        self.names, self.proc, self.over = set(names), proc, threading.Event()
        self.before: dict[tuple[str, str, str], int] = {}
        self.now: dict[tuple[str, str, str], int] = {}

    def __enter__(self) -> "Programs":
        self.before = self._look()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(5)

    def run(self) -> None:
        while not self.over.wait(INTERVAL_SECONDS):
            self.now |= self._look()

    def seconds(self) -> dict[str, float]:
        """Return processor seconds by program's name, of those that were seen."""
        found: dict[str, float] = {}
        for key, ticks in self.now.items():
            found[key[0]] = found.get(key[0], 0.0) + (ticks - self.before.get(key, 0)) / TICKS
        return found

    def _look(self) -> dict[tuple[str, str, str], int]:
        """Return the ticks of each process by name, number and moment of birth."""
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
