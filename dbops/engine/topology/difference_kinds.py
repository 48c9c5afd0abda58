"""What each kind of difference means, and whether it stops rebuilds. Described for people in ``docs/how-to/topology.md``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means on pages. ``matters``: rebuilds of the cluster wait until it is accepted or gone, because ``why``."""

    title: str
    matters: bool
    why: str


MEANINGS = {
    "failover": Meaning(
        "The primary is another one",
        True,
        "A rebuild ends by replicating from the stored primary: it would leave the replica on the wrong side.",
    ),
    "two_primaries": Meaning(
        "Two servers take writes",
        True,
        "Which of them has the right data is not known, and a copy of the wrong one would be handed on.",
    ),
    "primary_read_only": Meaning(
        "The primary takes no writes",
        True,
        "Somebody has stopped writes there: a failover may be going on.",
    ),
    "loop": Meaning(
        "Servers replicate in a ring",
        True,
        "Whoever is replaced in a ring interrupts it for all others.",
    ),
    "outside_source": Meaning(
        "Replicates from outside of the cluster",
        True,
        "The machine may belong to another cluster by now: its data is not this cluster's.",
    ),
    "writes_alone": Meaning(
        "Takes writes and replicates from nobody",
        True,
        "It may be half of a failover: a new primary that nobody follows yet.",
    ),
    "identity": Meaning(
        "Another server answers here than before",
        True,
        "Somebody has made it anew, or the address leads elsewhere: it may be the wrong machine.",
    ),
    "data_replaced": Meaning(
        "Hand-made rebuild found: the data was replaced",
        False,
        "Whose copy it is, no job tells. Rebuilds of others go on: what a plan reads of it is read anew each time.",
    ),
    "history_lost": Meaning(
        "Hand-made rebuild found: its GTID history went back",
        False,
        "Older data was put in its place, or its history was reset. A replica catches up; what is missing elsewhere, the plan tells.",
    ),
    "chain": Meaning(
        "Replicates from another replica",
        False,
        "A rebuild of it ends with the primary as its source; rebuilds of others are not touched by it.",
    ),
    "takes_writes": Meaning(
        "A replica takes writes",
        False,
        "Its own plan refuses to replace it, and to read it where it holds transactions of its own.",
    ),
    "not_replicating": Meaning(
        "Does not replicate",
        False,
        "That is what a rebuild of it mends; rebuilds of others do not read it.",
    ),
    "unknown_replica": Meaning(
        "An unknown replica is attached",
        False,
        "Nothing is done to it. The plan refuses to replace a server that has replicas.",
    ),
}
#: Those by which data shows that no job of ours made it.
REPLACED = ("identity", "data_replaced", "history_lost")
#: Those that a person can accept by changing roles in the inventory, and not only by saying that they are meant so.
CHANGES_ROLES = frozenset({"failover", "writes_alone", "two_primaries"})
