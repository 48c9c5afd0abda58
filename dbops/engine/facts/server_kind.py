"""What a server is beyond its flavor: its product, the service that operates it, and the group that it writes with."""

from dataclasses import dataclass

GALERA, GROUP_REPLICATION = "Galera", "Group Replication"


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """The group of servers that replicate each other's writes, as one member shows it.

    ``mechanism`` is ``GALERA`` or ``GROUP_REPLICATION``; ``state`` and ``role`` are the member's own (``Synced``; ``ONLINE`` and
    ``PRIMARY``), ``""`` if unknown. ``members`` are addresses, as far as they are known; ``size`` counts the members, ``None`` if
    unknown. ``shares_gtids``: a transaction has the same GTID on each member. ``origins`` are the uuids in these GTIDs.
    """

    mechanism: str
    name: str
    state: str = ""
    role: str = ""
    size: int | None = None
    members: tuple[str, ...] = ()
    shares_gtids: bool = False
    origins: tuple[str, ...] = ()

    def is_of(self, other: "MemberGroup | None") -> bool:
        """Return whether both describe the same group."""
        return other is not None and (self.mechanism, self.name) == (other.mechanism, other.name)

    @property
    def description(self) -> str:
        """Return the group in words, without an article: ``Galera cluster 'shop' (Synced, 3 members)``."""
        noun = "Galera cluster" if self.mechanism == GALERA else "Group Replication group"
        count = "" if self.size is None else f"{self.size} member{'' if self.size == 1 else 's'}"
        known = ", ".join(filter(None, (" ".join(filter(None, (self.state, self.role))), count)))
        return f"{noun} {self.name!r}" + (f" ({known})" if known else "")


@dataclass(frozen=True, slots=True)
class ServerKind:
    """``product`` is the server's name, as its maker writes it. ``managed_by`` is the service that operates it, ``""`` without one: such
    a server has no host that anyone can log in to.
    """

    product: str
    managed_by: str = ""
    group: MemberGroup | None = None
