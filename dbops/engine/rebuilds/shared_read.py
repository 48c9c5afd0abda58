"""Members and phases of a shared read.

The leader opens the source, pauses it if needed, and runs the backup once. The followers get the same bytes at the same time.
Each member is a separate rebuild with its own plan, steps, key, log and result.
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


class SharedReadPhase(StrEnum):
    """The phase of a member of a shared read."""

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
class SharedReadMember:
    """Another rebuild of the same read. ``followers`` are the uids for whom it reads, ``None`` while somebody may still join."""

    number: int
    uid: str
    target: str
    phase: SharedReadPhase
    followers: tuple[str, ...] | None = None

    @property
    def can_be_joined(self) -> bool:
        """Tell whether it reads, or will, and has not settled yet for whom."""
        return self.followers is None and self.phase in (
            SharedReadPhase.QUEUED,
            SharedReadPhase.COMING,
            SharedReadPhase.READY,
        )

    def __str__(self) -> str:
        return f"rebuild {self.number} ({self.target})"


class SharedReadMembers(Protocol):
    """The other members of a rebuild's shared read, loaded on each call."""

    def reader(self) -> SharedReadMember | None:
        """Return the rebuild from whose read this one gets its copy, ``None`` where it reads itself."""
        ...

    def followers(self) -> Sequence[SharedReadMember]:
        """Return the rebuilds that get their copy from this one's read."""
        ...


class _Alone:
    """A rebuild without a shared read."""

    def reader(self) -> SharedReadMember | None:
        return None

    def followers(self) -> Sequence[SharedReadMember]:
        return ()


ALONE = _Alone()


def phase_of_follower(status: Status, pending_status: str, steps: Mapping[str, StepState]) -> SharedReadPhase:
    """Return how far a branch is. ``steps`` are the states by name."""
    if status in FINAL or pending_status:
        return SharedReadPhase.GONE
    if status is Status.QUEUED:
        return SharedReadPhase.QUEUED
    return (
        SharedReadPhase.COMING if steps.get("stream", StepState.PENDING) is StepState.PENDING else SharedReadPhase.READY
    )


def phase_of_leader(
    status: Status, pending_status: str, steps: Mapping[str, StepState], checkpoint: Mapping[str, Any]
) -> SharedReadPhase:
    """Return how far the one is who reads. Its own copy may have failed already while the backup is still sent to the others."""
    if status in FINAL or steps.get("stream") is StepState.DONE:
        return SharedReadPhase.GONE
    if checkpoint.get(BEGUN):
        return SharedReadPhase.READING
    if pending_status:
        return SharedReadPhase.GONE
    if status is Status.QUEUED:
        return SharedReadPhase.QUEUED
    return SharedReadPhase.READY if steps.get("swap-datadir") is StepState.DONE else SharedReadPhase.COMING
