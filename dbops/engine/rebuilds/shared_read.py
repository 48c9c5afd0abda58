"""Members and phases of a shared read.

The leader opens the source, pauses it if needed, and runs the backup once. The followers get the same bytes at the same time.
Each member is a separate rebuild with its own plan, steps, key, log and result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from dbops.engine.states import FINAL, Status, StepState

#: The checkpoint key of the leader's followers, by their uid. Once it is set, no rebuild can join.
FOLLOWERS = "shared_read.followers"
#: The checkpoint key that the leader sets when the sending has begun.
BEGUN = "shared_read.begun"


class SharedReadPhase(StrEnum):
    """The phase of a member of a shared read."""

    QUEUED = "queued"
    #: it runs, and has not yet taken over its data directory
    COMING = "coming"
    #: a follower: its data directory is empty; the leader: it waits for its followers
    READY = "ready"
    #: the leader: the followers are fixed, and it sends the backup
    READING = "reading"
    #: it has ended, or is about to end
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class SharedReadMember:
    """Another rebuild of the same shared read. ``followers`` are the uids that it reads for, ``None`` while rebuilds may still join."""

    number: int
    uid: str
    target: str
    phase: SharedReadPhase
    followers: tuple[str, ...] | None = None

    @property
    def can_be_joined(self) -> bool:
        """Return whether it reads, or will read, and its followers are not fixed yet."""
        return self.followers is None and self.phase in (
            SharedReadPhase.QUEUED,
            SharedReadPhase.COMING,
            SharedReadPhase.READY,
        )

    def __str__(self) -> str:
        return f"rebuild {self.number} ({self.target})"


class SharedReadMembers(Protocol):
    """The other members of a rebuild's shared read, loaded on each call."""

    def leader(self) -> SharedReadMember | None:
        """Return the leader of this rebuild, ``None`` if it reads the source itself."""
        ...

    def followers(self) -> Sequence[SharedReadMember]:
        """Return the followers of this rebuild."""
        ...


class _Alone:
    """A rebuild without a shared read."""

    def leader(self) -> SharedReadMember | None:
        return None

    def followers(self) -> Sequence[SharedReadMember]:
        return ()


ALONE = _Alone()


def phase_of_follower(status: Status, pending_status: str, steps: Mapping[str, StepState]) -> SharedReadPhase:
    """Return the phase of a follower. ``steps`` are the states by name."""
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
    """Return the phase of the leader. Its own copy may have failed while it still sends the backup to the others."""
    if status in FINAL or steps.get("stream") is StepState.DONE:
        return SharedReadPhase.GONE
    if checkpoint.get(BEGUN):
        return SharedReadPhase.READING
    if pending_status:
        return SharedReadPhase.GONE
    if status is Status.QUEUED:
        return SharedReadPhase.QUEUED
    return SharedReadPhase.READY if steps.get("swap-datadir") is StepState.DONE else SharedReadPhase.COMING
