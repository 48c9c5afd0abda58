"""The stored intervals of one cluster that availability is calculated from."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import BackupMethod, Role

HEALTHY = "healthy"


class Cause(StrEnum):
    """The cause of a gap, in the order of a rebuild's phases."""

    DETECTION = phrase("detection")
    APPROVAL = phrase("waiting for approval")
    WINDOW = phrase("waiting for a backup")
    LINE = phrase("waiting for another rebuild")
    QUEUE = phrase("queued")
    STREAM = phrase("stream")
    PREPARE = phrase("prepare")
    CATCH_UP = phrase("catch-up")
    OTHER_STEPS = phrase("other steps")
    RETRY = phrase("failed, not retried yet")
    BACKUP = phrase("backup reads the source")
    REBUILD = phrase("rebuild uses the source")
    SOURCE_DOWN = phrase("source not healthy")
    PRIMARY_ALONE = phrase("no healthy replica")
    MAINTENANCE = phrase("maintenance")
    NO_BACKUP = phrase("no complete backup")
    NOT_PROBED = phrase("no probe")


@dataclass(frozen=True, slots=True)
class StatePeriod:
    """An interval in which an instance had one state."""

    instance: str
    role: Role
    state: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class RebuildPhase:
    """A phase of a rebuild. ``paused``: the source's replication was paused."""

    rebuild: int
    target: str
    source: str
    cause: Cause
    interval: Interval


@dataclass(frozen=True, slots=True)
class OccupiedPeriod:
    """The use of an instance, which blocks rebuilds by ``blocks`` from it.

    ``reference`` is ``run 12`` or ``rebuild 7``. ``pauses``: the instance's replication was paused. ``schedule`` is
    the run's schedule, or empty.
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
    """A complete backup, from its end until it was removed or too old for the source's binary logs."""

    kind: BackupMethod
    interval: Interval


@dataclass(frozen=True, slots=True)
class PlannedMaintenance:
    """Maintenance. ``was_marked``: marked afterwards, so it did not block rebuilds."""

    reference: str
    interval: Interval
    by: str = ""
    reason: str = ""
    was_marked: bool = False


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Everything stored about one cluster in a period.

    ``wanted`` is the target number of healthy replicas; ``None`` means all. ``expected`` is when each instance
    belonged to the cluster: such time without a state is not observed.
    """

    seen: tuple[StatePeriod, ...]
    expected: tuple[tuple[str, Role, Interval], ...]
    occupied: tuple[OccupiedPeriod, ...] = ()
    phases: tuple[RebuildPhase, ...] = ()
    planned: tuple[PlannedMaintenance, ...] = ()
    backups: tuple[UsableBackup, ...] = ()
    wanted: int | None = None

    def boundaries(self) -> Iterator[Interval]:
        """Return all intervals at whose ends the state can change."""
        yield from (item.interval for item in self.seen)
        yield from (interval for _, _, interval in self.expected)
        yield from (item.interval for item in self.occupied)
        yield from (item.interval for item in self.phases)
        yield from (item.interval for item in self.planned)
        yield from (item.interval for item in self.backups)
