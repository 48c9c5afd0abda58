"""What blockers are found in: one cluster's instances, what runs on them, what waits, what is due. Pure.

``dbops.loaders.cluster_snapshots`` makes it from rows.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dbops.engine.schedule.backup_windows import BackupWindow, Duration, Prediction
from dbops.engine.schedule.conflicts import ONE_INSTANCE, CopySource, MethodTraits
from dbops.engine.states import Role


class InstanceUse(StrEnum):
    """What a job does to an instance."""

    DUMP = "dump"
    PHYSICAL = "physical"
    READ = "read"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One instance. ``problem`` is why it cannot be asked now, ``""`` where it answers; ``stopped`` is why it does not replicate.

    Both are empty while a rebuild replaces it: the rebuild explains it better. ``lag_seconds`` is ``None`` where it is
    unknown. ``has_dump`` and ``has_archive`` tell of complete backups of it that no proof has found bad.
    """

    name: str
    role: Role
    problem: str = ""
    stopped: str = ""
    lag_seconds: float | None = 0.0
    has_dump: bool = False
    has_archive: bool = False

    def has(self, copied: CopySource) -> bool:
        """Tell whether the finished backup that a method reads is there. A server and the target's own data are always."""
        return {CopySource.DUMP: self.has_dump, CopySource.PHYSICAL_BACKUP: self.has_archive}.get(copied, True)


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A rebuild or a backup run that has not ended, with the instances that it uses.

    Args:
        claims: instance and use. A running rebuild's are its holds.
        started_at: ``None`` while it is queued.
        not_before, after_run: when a person wants it to start: not before a moment, or when that backup run has ended.
        duration: of the whole job, ``None`` where nothing is known.
        is_managed: dbops started it and it holds its instances.
        is_lost: its host is silent, so nothing is known.
        can_be_stopped: an operator can end it from here.
        method: of a rebuild; a backup run has none of its own. ``source`` is its source, also where its method does not read it.
        reads_with: the rebuild whose read of the source it shares.
        needs_approval: it starts only when a person has approved it, and keeps nobody in its lines waiting until then.
    """

    name: str
    claims: tuple[tuple[str, InstanceUse], ...]
    started_at: datetime | None
    queued_at: datetime | None = None
    not_before: datetime | None = None
    start_after_run: int | None = None
    priority: int = 0
    duration: Duration | None = None
    is_managed: bool = True
    is_lost: bool = False
    can_be_stopped: bool = False
    needs_approval: bool = False
    schedule: str = ""
    run: int | None = None
    rebuild: int | None = None
    method: MethodTraits = ONE_INSTANCE
    source: str = ""
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """An interval in which a person lets no rebuild of the cluster start. ``ends_at`` is ``None`` while nobody knows."""

    starts_at: datetime
    ends_at: datetime | None
    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class TopologyMismatch:
    """The servers replicate in another way than the inventory says, and nobody has accepted that yet."""

    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One cluster at one moment. ``predictions`` are by source; ``prediction`` is for the others.

    ``unseen`` are the windows of others that are due, and neither met by a run nor late yet.
    """

    now: datetime
    cluster: str
    machines: tuple[InstanceStatus, ...]
    jobs: tuple[ActiveJob, ...] = ()
    windows: tuple[BackupWindow, ...] = ()
    unseen: tuple[BackupWindow, ...] = ()
    stops: tuple[MaintenanceWindow, ...] = ()
    difference: TopologyMismatch | None = None
    prediction: Prediction = Prediction(None, "How long it takes is not known.")
    predictions: dict[str, Prediction] = field(default_factory=dict)
    max_lag_seconds: float = 60.0

    def machine(self, name: str) -> InstanceStatus | None:
        return next((machine for machine in self.machines if machine.name == name), None)

    def queued(self, rebuild: int) -> ActiveJob | None:
        """Return a rebuild that waits, ``None`` where there is none of this number."""
        return next((job for job in self.jobs if job.rebuild == rebuild and job.started_at is None), None)

    def predicted(self, source: str | None) -> Prediction:
        return self.predictions.get(source or "", self.prediction)
