"""The tables, a file for each aggregate."""

from .audit import AuditEntry
from .backups import AccessToken, BackupEvent, BackupRun, BackupSchedule, Maintenance
from .fleet import Cluster, Host, Instance, InstanceState
from .people import StartView
from .pulses import Pulse
from .rebuilds import Command, Event, Hold, Rebuild, Sample, Step
from .topology import Discovery, ServerIdentity, TopologyDifference

__all__ = [
    "AccessToken",
    "AuditEntry",
    "BackupEvent",
    "BackupRun",
    "BackupSchedule",
    "Cluster",
    "Command",
    "Discovery",
    "Event",
    "Hold",
    "Host",
    "Instance",
    "InstanceState",
    "Maintenance",
    "Pulse",
    "Rebuild",
    "Sample",
    "ServerIdentity",
    "StartView",
    "Step",
    "TopologyDifference",
]
