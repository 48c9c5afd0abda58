"""Meaning of each kind of difference, and whether it stops rebuilds. ``docs/how-to/topology.md`` explains them to users."""

from dataclasses import dataclass

from dbops.engine.phrases import phrase


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a code on pages. ``matters``: rebuilds of the cluster wait until it is accepted or gone; ``why`` is the reason."""

    title: str
    matters: bool
    why: str


MEANINGS = {
    "failover": Meaning(
        phrase("Primary changed"),
        True,
        phrase("A rebuild would make the replica replicate from the former primary."),
    ),
    "two_primaries": Meaning(
        phrase("Two writable servers"),
        True,
        phrase("It is unknown which server has the right data. A rebuild could copy the wrong one."),
    ),
    "primary_read_only": Meaning(
        phrase("The primary is read-only"),
        True,
        phrase("Writes were stopped. A failover may be in progress."),
    ),
    "loop": Meaning(
        phrase("Replication ring"),
        True,
        phrase("Rebuilding one server of a ring interrupts replication for all others."),
    ),
    "outside_source": Meaning(
        phrase("Replicates from outside the cluster"),
        True,
        phrase("The machine may belong to another cluster. Its data may not be this cluster's."),
    ),
    "writes_alone": Meaning(
        phrase("Writable and not replicating"),
        True,
        phrase("A failover may be in progress: this may be a new primary without replicas."),
    ),
    "identity": Meaning(
        phrase("Server identity changed"),
        True,
        phrase("The server was reinstalled, or the address leads to another machine."),
    ),
    "data_replaced": Meaning(
        phrase("Manual restore: data replaced"),
        False,
        phrase("The origin of the data is unknown. Rebuilds of other instances are not stopped."),
    ),
    "history_lost": Meaning(
        phrase("Manual restore: GTID history went back"),
        False,
        phrase("Older data was restored, or the GTID history was reset. The plan lists missing transactions."),
    ),
    "chain": Meaning(
        phrase("Replicates from another replica"),
        False,
        phrase("After a rebuild, this instance replicates from the primary. Other rebuilds are not affected."),
    ),
    "takes_writes": Meaning(
        phrase("Writable replica"),
        False,
        phrase("A rebuild of this replica is rejected. It cannot be a source if it has transactions of its own."),
    ),
    "not_replicating": Meaning(
        phrase("Not replicating"),
        False,
        phrase("A rebuild fixes this. Other rebuilds do not use this instance as their source."),
    ),
    "unknown_replica": Meaning(
        phrase("Unknown replica attached"),
        False,
        phrase("It is not changed. A server with replicas cannot be rebuilt."),
    ),
}
#: Differences that show data not made by a job of dbops.
REPLACED = ("identity", "data_replaced", "history_lost")
#: Differences that a person can accept by changing roles in the inventory, not only as intended.
CHANGES_ROLES = frozenset({"failover", "writes_alone", "two_primaries"})
