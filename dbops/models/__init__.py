"""The tables, a file for each aggregate."""

from .audit import AuditEntry, AuditHead, AuditName, AuditText
from .audit_segments import AuditSegment
from .backups import AccessToken, BackupEvent, BackupRun, BackupSchedule, Maintenance
from .connection_tests import ConnectionTest
from .fleet import Cluster, Host, Instance, InstanceState
from .gaps import GapCount, GapDay, SentReport
from .people import StartView
from .periods import InstancePeriod
from .proofs import BackupProof
from .pulses import Pulse
from .rebuilds import Command, Event, Hold, Rebuild, Sample, Step
from .topology import Discovery, ServerIdentity, TopologyDifference

__all__ = [
    "AccessToken",
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
