"""What availability is counted from: stored intervals of one cluster, each with where it comes from. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import BackupMethod, Role

HEALTHY = "healthy"


class Cause(StrEnum):
    """What a gap was waiting for, in the order of a rebuild's life."""

    DETECTION = "detection"
    APPROVAL = "waiting for approval"
    WINDOW = "waiting for a backup"
    LINE = "waiting for another rebuild"
    QUEUE = "waiting in the queue"
    STREAM = "stream"
    PREPARE = "prepare"
    CATCH_UP = "catch-up"
    OTHER_STEPS = "other steps"
    RETRY = "failed, until the next try"
    BACKUP = "a backup reads the source"
    REBUILD = "a rebuild uses the source"
    SOURCE_DOWN = "the source is not healthy"
    PRIMARY_ALONE = "no healthy replica"
    MAINTENANCE = "maintenance"
    NO_BACKUP = "no complete backup"
    NOT_LOOKED = "no probe"


@dataclass(frozen=True, slots=True)
class StatePeriod:
    """An instance was seen in one state, all through an interval."""

    instance: str
    role: Role
    state: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class RebuildPhase:
    """A part of a rebuild's life. ``paused``: the source's replication stood still meanwhile."""

    rebuild: int
    target: str
    source: str
    cause: Cause
    interval: Interval


@dataclass(frozen=True, slots=True)
class OccupiedPeriod:
    """Something used an instance, so that no rebuild by ``blocks`` could start from it.

    ``reference`` says what it was, ``run 12`` or ``rebuild 7``. ``pauses``: replication of the instance stood still meanwhile.
    ``schedule`` is that of a run, empty where it has none.
    """

    instance: str
    interval: Interval
    cause: Cause
    reference: str
    blocks: frozenset[str]
    pauses: bool = False
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class UsableBackup:
    """A complete backup that could be read, from its end until it was removed or could no more be rolled forward."""

    kind: BackupMethod
    interval: Interval


@dataclass(frozen=True, slots=True)
class PlannedMaintenance:
    """Maintenance. ``was_marked``: a person said so afterwards, and it kept nothing from starting."""

    reference: str
    interval: Interval
    by: str = ""
    reason: str = ""
    was_marked: bool = False


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """All that is stored of one cluster about a time.

    ``wanted`` is how many healthy replicas the cluster is to have; ``None``: all that it has at each moment. ``expected``
    is when each instance belonged to the cluster: time of it without anything seen is not observed.
    """

    seen: tuple[StatePeriod, ...]
    expected: tuple[tuple[str, Role, Interval], ...]
    occupied: tuple[OccupiedPeriod, ...] = ()
    phases: tuple[RebuildPhase, ...] = ()
    planned: tuple[PlannedMaintenance, ...] = ()
    backups: tuple[UsableBackup, ...] = ()
    wanted: int | None = None

    def boundaries(self) -> Iterator[Interval]:
        """Return every interval at whose ends something may change."""
        yield from (item.interval for item in self.seen)
        yield from (interval for _, _, interval in self.expected)
        yield from (item.interval for item in self.occupied)
        yield from (item.interval for item in self.phases)
        yield from (item.interval for item in self.planned)
        yield from (item.interval for item in self.backups)
