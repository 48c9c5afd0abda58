"""Meaning of each kind of difference, and whether it stops rebuilds. ``docs/how-to/topology.md`` explains them to users."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a code on pages. ``matters``: rebuilds of the cluster wait until it is accepted or gone; ``why`` is the reason."""

    title: str
    matters: bool
    why: str


MEANINGS = {
    "failover": Meaning(
        "Primary changed",
        True,
        "A rebuild would make the replica replicate from the former primary.",
    ),
    "two_primaries": Meaning(
        "Two writable servers",
        True,
        "It is unknown which server has the right data. A rebuild could copy the wrong one.",
    ),
    "primary_read_only": Meaning(
        "The primary is read-only",
        True,
        "Writes were stopped. A failover may be in progress.",
    ),
    "loop": Meaning(
        "Replication ring",
        True,
        "Rebuilding one server of a ring interrupts replication for all others.",
    ),
    "outside_source": Meaning(
        "Replicates from outside the cluster",
        True,
        "The machine may belong to another cluster. Its data may not be this cluster's.",
    ),
    "writes_alone": Meaning(
        "Writable and not replicating",
        True,
        "A failover may be in progress: this may be a new primary without replicas.",
    ),
    "identity": Meaning(
        "Server identity changed",
        True,
        "The server was reinstalled, or the address leads to another machine.",
    ),
    "data_replaced": Meaning(
        "Manual restore: data replaced",
        False,
        "The origin of the data is unknown. Rebuilds of other instances are not stopped.",
    ),
    "history_lost": Meaning(
        "Manual restore: GTID history went back",
        False,
        "Older data was restored, or the GTID history was reset. The plan lists missing transactions.",
    ),
    "chain": Meaning(
        "Replicates from another replica",
        False,
        "After a rebuild, this instance replicates from the primary. Other rebuilds are not affected.",
    ),
    "takes_writes": Meaning(
        "Writable replica",
        False,
        "A rebuild of this replica is rejected. It cannot be a source if it has transactions of its own.",
    ),
    "not_replicating": Meaning(
        "Not replicating",
        False,
        "A rebuild fixes this. Other rebuilds do not use this instance as their source.",
    ),
    "unknown_replica": Meaning(
        "Unknown replica attached",
        False,
        "It is not changed. A server with replicas cannot be rebuilt.",
    ),
}
#: Differences that show data not made by a job of dbops.
REPLACED = ("identity", "data_replaced", "history_lost")
#: Differences that a person can accept by changing roles in the inventory, not only as intended.
CHANGES_ROLES = frozenset({"failover", "writes_alone", "two_primaries"})
