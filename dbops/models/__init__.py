"""Django models, one file per aggregate."""

from .accounts import ChosenLanguage, ClusterRole, DefaultView, FailedAttempts, GivenPassword, LoginSession
from .attestations import StorageAttestation
from .audit import AuditEntry, AuditHead, AuditName, AuditText
from .audit_segments import AuditSegment
from .audit_sinks import AuditSink
from .availability import CountedDays, GapDay
from .backups import BackupEvent, BackupRun, BackupSchedule, Maintenance
from .capacity import CapacityForecast, CapacityReading, CapacityThreshold
from .clock_steps import ClockStep
from .connection_tests import ConnectionTest
from .digest_readings import DigestReading
from .fleet import Cluster, Host, Instance, InstanceState, StrictPlace
from .heartbeats import ProcessHeartbeat
from .instance_periods import InstancePeriod
from .inventory_sources import IgnoredDifference, InventorySource
from .load_tests import LoadTest, LoadTestEvent, LoadTestRound
from .notifications import (
    NotificationChannel,
    NotificationDelivery,
    NotificationEvent,
    NotificationRule,
    NotificationWatch,
)
from .rebuilds import ExecutedCommand, Hold, Rebuild, RebuildApproval, RebuildEvent, RebuildSample, RebuildStep
from .restore_tests import RestoreTest
from .row_comparisons import RowComparison
from .tokens import AccessToken, KeptAnswer
from .topology import Discovery, ServerIdentity, TopologyDifference
from .wait_readings import WaitReading

__all__ = [
    "AccessToken",
    "AuditEntry",
    "AuditHead",
    "AuditName",
    "AuditSegment",
    "AuditSink",
    "AuditText",
    "BackupEvent",
    "RestoreTest",
    "BackupRun",
    "BackupSchedule",
    "CapacityForecast",
    "CapacityReading",
    "CapacityThreshold",
    "ClockStep",
    "Cluster",
    "ChosenLanguage",
    "ClusterRole",
    "ExecutedCommand",
    "ConnectionTest",
    "Discovery",
    "RebuildApproval",
    "RebuildEvent",
    "Hold",
    "CountedDays",
    "GapDay",
    "Host",
    "Instance",
    "IgnoredDifference",
    "InstancePeriod",
    "InventorySource",
    "InstanceState",
    "KeptAnswer",
    "LoadTest",
    "LoadTestEvent",
    "LoadTestRound",
    "Maintenance",
    "GivenPassword",
    "LoginSession",
    "ProcessHeartbeat",
    "StorageAttestation",
    "StrictPlace",
    "NotificationChannel",
    "NotificationDelivery",
    "NotificationEvent",
    "NotificationRule",
    "NotificationWatch",
    "Rebuild",
    "RebuildSample",
    "RowComparison",
    "ServerIdentity",
    "DefaultView",
    "FailedAttempts",
    "RebuildStep",
    "TopologyDifference",
    "DigestReading",
    "WaitReading",
]
