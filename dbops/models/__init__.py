"""The tables, a file for each aggregate."""

from .accounts import StartView
from .audit import AuditBlock, AuditEntry, AuditHead, AuditName, AuditText
from .audit_segments import AuditSegment
from .availability import GapCount, GapDay, SentReport
from .backups import AccessToken, BackupEvent, BackupRun, BackupSchedule, Maintenance
from .connection_tests import ConnectionTest
from .fleet import Cluster, Host, Instance, InstanceState
from .heartbeats import Pulse
from .instance_periods import InstancePeriod
from .rebuilds import Command, Event, Hold, Rebuild, Sample, Step
from .restore_tests import BackupProof
from .topology import Discovery, ServerIdentity, TopologyDifference

__all__ = [
    "AccessToken",
    "AuditBlock",
    "AuditEntry",
    "AuditHead",
    "AuditName",
    "AuditSegment",
    "AuditText",
    "BackupEvent",
    "BackupProof",
    "BackupRun",
    "BackupSchedule",
    "Cluster",
    "Command",
    "ConnectionTest",
    "Discovery",
    "Event",
    "Hold",
    "GapCount",
    "GapDay",
    "Host",
    "Instance",
    "InstancePeriod",
    "InstanceState",
    "Maintenance",
    "Pulse",
    "Rebuild",
    "Sample",
    "SentReport",
    "ServerIdentity",
    "StartView",
    "Step",
    "TopologyDifference",
]
