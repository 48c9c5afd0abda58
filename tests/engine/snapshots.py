"""A cluster in which nothing runs, and what may be put into it. No Django here."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dbops.engine.methods import method_named
from dbops.engine.schedule.backup_windows import BackupWindow, Duration, Prediction, window_at
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceStatus, InstanceUse
from dbops.engine.states import BackupMethod, Role, RunBy

NOW = datetime(2026, 3, 2, 1, 0, tzinfo=UTC)
HOUR = 3600.0
MACHINES = (
    InstanceStatus("primary-1", Role.PRIMARY),
    InstanceStatus("backup-1", Role.BACKUP),
    InstanceStatus("replica-1", Role.REPLICA),
    InstanceStatus("replica-2", Role.REPLICA),
)
THREE_HOURS = Prediction(Duration(2.5 * HOUR, 3 * HOUR, 9), "from the last 9 rebuilds of this cluster")


def hours(number: float) -> datetime:
    return NOW + timedelta(hours=number)


def snapshot(**changes: Any) -> ClusterSnapshot:
    values: dict[str, Any] = {"now": NOW, "cluster": "shop", "machines": MACHINES, "prediction": THREE_HOURS}
    return ClusterSnapshot(**{**values, **changes})


def machines(**changes: Any) -> tuple[InstanceStatus, ...]:
    """The usual ones, with backup-1 changed."""
    return tuple(
        InstanceStatus("backup-1", Role.BACKUP, **changes) if item.name == "backup-1" else item for item in MACHINES
    )


def backup(instance: str = "backup-1", **changes: Any) -> ActiveJob:
    """A managed dump that began an hour ago and takes 2 to 4 hours."""
    values: dict[str, Any] = {
        "name": "backup run 7 (nightly)",
        "claims": ((instance, InstanceUse.DUMP),),
        "started_at": hours(-1),
        "duration": Duration(2 * HOUR, 4 * HOUR, 20),
        "can_be_stopped": True,
        "schedule": "nightly",
        "run": 7,
    }
    return ActiveJob(**{**values, **changes})


def rebuild(target: str = "replica-2", source: str = "backup-1", **changes: Any) -> ActiveJob:
    """A rebuild that began an hour ago and takes 2.5 to 3 hours."""
    values: dict[str, Any] = {
        "name": "rebuild 4",
        "claims": ((source, InstanceUse.READ), (target, InstanceUse.REPLACE)),
        "started_at": hours(-1),
        "duration": THREE_HOURS.duration,
        "rebuild": 4,
        "method": "xbstream",
    }
    values |= changes
    return ActiveJob(**{**values, "method": method_named(values["method"])})


def queued(**changes: Any) -> ActiveJob:
    return rebuild(**{"started_at": None, "queued_at": hours(-0.5), **changes})


def window(starts: float = 1.0, **changes: Any) -> BackupWindow:
    """A managed dump of backup-1, due in an hour, 2 to 4 hours long."""
    values: dict[str, Any] = {
        "instance": "backup-1",
        "schedule": "nightly",
        "method": BackupMethod.DUMP,
        "run_by": RunBy.DBOPS,
        "duration": Duration(2 * HOUR, 4 * HOUR, 20),
    }
    return window_at(hours(starts), **{**values, **changes})
