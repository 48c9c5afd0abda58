"""The states of a rebuild and of its steps, and the only moves allowed between them."""

from enum import StrEnum


class Role(StrEnum):
    """What an instance is for: one primary a cluster takes writes, replicas serve reads, a backup instance is read from."""

    PRIMARY = "primary"
    REPLICA = "replica"
    BACKUP = "backup"


class Status(StrEnum):
    """Where a rebuild is in its life. A phase is a step, cancel is a column: none of them is a status."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOST = "lost"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.EXPIRED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.LOST}),
    Status.LOST: frozenset({Status.RUNNING, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.EXPIRED: frozenset(),
}

FINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
ACTIVE = frozenset(Status) - FINAL


def may_move(before: Status, after: Status) -> bool:
    """Tell whether a rebuild in ``before`` may become ``after``."""
    return after in TRANSITIONS[before]


class StepState(StrEnum):
    """One unit of work inside a rebuild."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class Approval(StrEnum):
    """What a second person said of a queued rebuild, where its cluster asks for one. Nothing (``""``): nobody was asked."""

    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"
    OVERRIDDEN = "overridden"


STEP_FINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED})


class Severity(StrEnum):
    """How much a finding weighs: a refusal stops the plan, a warning asks the operator to look."""

    OK = "ok"
    WARNING = "warning"
    REFUSAL = "refusal"


class Level(StrEnum):
    """How an event in a rebuild's history is to be read."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
