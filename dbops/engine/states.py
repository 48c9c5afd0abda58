"""The states of rebuilds, steps and backup runs, and the allowed transitions."""

from enum import StrEnum


class Role(StrEnum):
    """Role of an instance: the primary accepts writes, replicas serve reads, rebuilds read backup instances.

    ``TIDB`` is an SQL node of a TiDB cluster: it keeps no data, and all nodes of the cluster are equal.
    """

    PRIMARY = "primary"
    REPLICA = "replica"
    BACKUP = "backup"
    TIDB = "tidb"


#: Roles of instances that hold a copy of the primary's data: rebuilds replace and read them.
REPLICAS = (Role.REPLICA, Role.BACKUP)


class Status(StrEnum):
    """Status of a rebuild. Phases are steps, and a cancel request is a column."""

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
    """Whether a rebuild can change from ``before`` to ``after``."""
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
    """A second person's decision on a queued rebuild. ``""``: the cluster requires none."""

    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"
    OVERRIDDEN = "overridden"


STEP_FINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED})


class Severity(StrEnum):
    """Severity of a finding: a refusal blocks the plan, a warning needs the operator's attention."""

    OK = "ok"
    WARNING = "warning"
    REFUSAL = "refusal"


class Level(StrEnum):
    """Level of an event."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class BackupMethod(StrEnum):
    """Backup method: a dump by ``mysqldump``/``mariadb-dump``, or a copy of a running server's files."""

    DUMP = "dump"
    PHYSICAL = "physical"


class RunBy(StrEnum):
    """What starts a schedule's runs: dbops or an external cron."""

    DBOPS = "dbops"
    EXTERNAL = "external"


class RunOrigin(StrEnum):
    """Origin of a run. Later values are more reliable: see ``knows_better``."""

    OBSERVED = "observed"
    REPORTED = "reported"
    MANAGED = "managed"


class RunStatus(StrEnum):
    """Status of a backup run.

    ``ended``: dbops detected the run and it is gone, with an unknown result. ``missed``: it was due and was not detected.
    ``lost``: its host does not answer, so its state is unknown.
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


#: States in which a process reads, or may read, the instance.
RUN_AT_WORK = frozenset({RunStatus.RUNNING, RunStatus.LOST})


#: The flag of a run that started late, or still waits after the limit of its schedule.
LATE = "late"


_BY_KNOWLEDGE = tuple(RunOrigin)


def knows_better(one: RunOrigin, other: RunOrigin) -> bool:
    """Return whether ``one`` knows more of a run than ``other``: its starter more than a reporter, a reporter more than a probe."""
    return _BY_KNOWLEDGE.index(one) > _BY_KNOWLEDGE.index(other)


#: The transitions of dbops's own runs. External runs are only recorded, in any order.
MANAGED_TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.MISSED}),
    RunStatus.RUNNING: frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.LOST}),
    # A lost run can be stopped only if its host was not contacted yet: otherwise dbops contacts the host first.
    RunStatus.LOST: frozenset({RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED}),
}


def may_end(before: RunStatus, after: RunStatus) -> bool:
    """Whether one of dbops's own runs can change to ``after``."""
    return after in MANAGED_TRANSITIONS.get(before, frozenset())
