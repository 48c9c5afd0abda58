"""The snapshot of a cluster that blockers are found in: instances, active and queued jobs, and due backups.

``dbops.loaders.cluster_snapshots`` builds it from rows.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import BackupWindow, Duration, Prediction
from dbops.engine.schedule.conflicts import ONE_INSTANCE, CopySource, MethodTraits
from dbops.engine.states import Role


class InstanceUse(StrEnum):
    """The use of an instance by a job."""

    DUMP = "dump"
    PHYSICAL = "physical"
    READ = "read"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One instance. ``problem``: why it does not answer now, ``""`` if it does; ``stopped``: why it does not replicate.

    Both are empty while a rebuild replaces it, because the rebuild is the better reason. ``lag_seconds`` is ``None`` if unknown.
    ``has_dump`` and ``has_archive``: whether it has a complete backup that failed no restore test.
    """

    name: str
    role: Role
    problem: str = ""
    stopped: str = ""
    lag_seconds: float | None = 0.0
    has_dump: bool = False
    has_archive: bool = False

    def has(self, copied: CopySource) -> bool:
        """Return whether the finished backup that a method reads exists. A server and the target's own data always do."""
        return {CopySource.DUMP: self.has_dump, CopySource.PHYSICAL_BACKUP: self.has_archive}.get(copied, True)


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """An active or queued rebuild or backup run, with the instances that it uses.

    Args:
        claims: instance and use. For a running rebuild, its holds.
        started_at: ``None`` while it is queued.
        not_before, after_run: the start that a person chose: not before a moment, or after that backup run.
        duration: of the whole job, ``None`` if unknown.
        is_managed: dbops started it, and it has holds on its instances.
        is_lost: its host does not answer, so its state is unknown.
        can_be_stopped: an operator can end it in dbops.
        method: of a rebuild; a backup run has none. ``source`` is its source, even if its method does not read it.
        reads_with: the rebuild whose shared read it uses.
        needs_approval: it starts only after an approval, and until then delays no job in its queues.
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
    """An interval in which no rebuild of the cluster may start, set by a person. ``ends_at`` is ``None`` if unknown."""

    starts_at: datetime
    ends_at: datetime | None
    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class TopologyMismatch:
    """A topology difference that no person has accepted yet."""

    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One cluster at one moment. ``predictions`` are by source; ``prediction`` is for the others.

    ``unseen``: windows of external backups that are due, without a detected run, and not late yet.
    """

    now: datetime
    cluster: str
    machines: tuple[InstanceStatus, ...]
    jobs: tuple[ActiveJob, ...] = ()
    windows: tuple[BackupWindow, ...] = ()
    unseen: tuple[BackupWindow, ...] = ()
    stops: tuple[MaintenanceWindow, ...] = ()
    difference: TopologyMismatch | None = None
    prediction: Prediction = Prediction(None, phrase("Duration unknown."))
    predictions: dict[str, Prediction] = field(default_factory=dict)
    max_lag_seconds: float = 60.0
    #: the windows of each instance and schedule, the earliest first
    by_schedule: dict[tuple[str, str], list[BackupWindow]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, str], list[BackupWindow]] = {}
        for window in sorted(self.windows, key=lambda item: item.starts_at):
            found.setdefault((window.instance, window.schedule), []).append(window)
        object.__setattr__(self, "by_schedule", found)

    @property
    def is_tidb(self) -> bool:
        """Return whether it is a TiDB cluster, which has nothing to rebuild."""
        return bool(self.machines) and all(machine.role is Role.TIDB for machine in self.machines)

    def machine(self, name: str) -> InstanceStatus | None:
        return next((machine for machine in self.machines if machine.name == name), None)

    def queued(self, rebuild: int) -> ActiveJob | None:
        """Return a queued rebuild, ``None`` if there is none of this number."""
        return next((job for job in self.jobs if job.rebuild == rebuild and job.started_at is None), None)

    def predicted(self, source: str | None) -> Prediction:
        return self.predictions.get(source or "", self.prediction)
