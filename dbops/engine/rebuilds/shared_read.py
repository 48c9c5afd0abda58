"""Rebuilds that share one read of their source: who they are, and how far each is. Pure.

One of them reads: it opens the source, pauses it where that is needed, and runs the backup once. The others, its branches, get the same
bytes at the same time. Each is a rebuild of its own, with its own plan, steps, key, log and end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from dbops.engine.states import FINAL, Status, StepState

#: Where the one who reads keeps the branches for whom it reads, by their uid: from then on nobody joins.
BRANCHES = "fan_out.branches"
#: Where it keeps that the sending has begun.
BEGUN = "fan_out.begun"


class Phase(StrEnum):
    """How far a rebuild is that shares a read."""

    QUEUED = "queued"
    #: it runs, and its data directory is not taken over yet
    COMING = "coming"
    #: a branch: its data directory is empty; the one who reads: it waits for its branches
    READY = "ready"
    #: the one who reads: the branches are settled, and the backup is being sent
    READING = "reading"
    #: it has ended, or is ending
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Companion:
    """Another rebuild of the same read. ``branches`` are the uids for whom it reads, ``None`` while somebody may still join."""

    number: int
    uid: str
    target: str
    phase: Phase
    branches: tuple[str, ...] | None = None

    @property
    def can_be_joined(self) -> bool:
        """Tell whether it reads, or will, and has not settled yet for whom."""
        return self.branches is None and self.phase in (Phase.QUEUED, Phase.COMING, Phase.READY)

    def __str__(self) -> str:
        return f"rebuild {self.number} ({self.target})"


class Companions(Protocol):
    """Who shares the read with one rebuild; asked anew each time."""

    def reader(self) -> Companion | None:
        """Return the rebuild from whose read this one gets its copy, ``None`` where it reads itself."""
        ...

    def branches(self) -> Sequence[Companion]:
        """Return the rebuilds that get their copy from this one's read."""
        ...


class _Alone:
    """A rebuild that shares its read with nobody."""

    def reader(self) -> Companion | None:
        return None

    def branches(self) -> Sequence[Companion]:
        return ()


ALONE = _Alone()


def phase_of_branch(status: Status, ending: str, steps: Mapping[str, StepState]) -> Phase:
    """Return how far a branch is. ``steps`` are the states by name."""
    if status in FINAL or ending:
        return Phase.GONE
    if status is Status.QUEUED:
        return Phase.QUEUED
    return Phase.COMING if steps.get("stream", StepState.PENDING) is StepState.PENDING else Phase.READY


def phase_of_reader(status: Status, ending: str, steps: Mapping[str, StepState], memory: Mapping[str, Any]) -> Phase:
    """Return how far the one is who reads. Its own copy may have failed already while the backup is still sent to the others."""
    if status in FINAL or steps.get("stream") is StepState.DONE:
        return Phase.GONE
    if memory.get(BEGUN):
        return Phase.READING
    if ending:
        return Phase.GONE
    if status is Status.QUEUED:
        return Phase.QUEUED
    return Phase.READY if steps.get("take-over") is StepState.DONE else Phase.COMING
