"""The words of regular backups: methods, who runs them, where a run was seen, and how it stands."""

from enum import StrEnum


class BackupMethod(StrEnum):
    """How a backup is made: statements written out by ``mysqldump``/``mariadb-dump``, or the files of a running server."""

    DUMP = "dump"
    PHYSICAL = "physical"


class RunBy(StrEnum):
    """Who starts the runs of a schedule: this product, or somebody else's cron."""

    DBOPS = "dbops"
    EXTERNAL = "external"


class Origin(StrEnum):
    """Who says that a run exists. What is said later in this order is known better: see ``knows_better``."""

    OBSERVED = "observed"
    REPORTED = "reported"
    MANAGED = "managed"


class RunStatus(StrEnum):
    """Where a backup run is in its life.

    ``ended``: it was observed and is gone, and nobody said how it ended. ``missed``: it was due and nobody saw it.
    ``lost``: its host is silent, so nothing is known.
    """

    QUEUED = "queued"
    RUNNING = "running"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ENDED = "ended"
    MISSED = "missed"


RUN_ACTIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.LOST})
RUN_FINAL = frozenset(RunStatus) - RUN_ACTIVE
#: A process reads (or may be reading) the instance.
RUN_AT_WORK = frozenset({RunStatus.RUNNING, RunStatus.LOST})

#: The flag of a run that started, or still waits, later after its due time than its schedule bears.
LATE = "late"

_BY_KNOWLEDGE = tuple(Origin)


def knows_better(one: Origin, other: Origin) -> bool:
    """Tell whether ``one`` knows more of a run than ``other``: who started it more than who was told, who was told more than who saw it."""
    return _BY_KNOWLEDGE.index(one) > _BY_KNOWLEDGE.index(other)


#: The moves of a run that dbops makes. Runs that others make are only told of, in whatever order.
MANAGED_TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.MISSED}),
    RunStatus.RUNNING: frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.LOST}),
    # a lost run is stopped only where nothing was asked of its host yet: else the host is asked first
    RunStatus.LOST: frozenset({RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED}),
}


def may_end(before: RunStatus, after: RunStatus) -> bool:
    """Tell whether a run that dbops makes may become ``after``."""
    return after in MANAGED_TRANSITIONS.get(before, frozenset())
