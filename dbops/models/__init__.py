"""The tables, a file for each aggregate."""

from .audit import AuditEntry
from .fleet import Cluster, Host, Instance, InstanceState
from .rebuilds import Command, Event, Hold, Rebuild, Step

__all__ = [
    "AuditEntry",
    "Cluster",
    "Command",
    "Event",
    "Hold",
    "Host",
    "Instance",
    "InstanceState",
    "Rebuild",
    "Step",
]
