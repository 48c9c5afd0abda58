"""The topology as it is against the inventory: each possible difference is there, is not there, or cannot be judged now.

Only fresh facts judge. What rests on a server that was not read, or that our own rebuild is working on, is ``None``: it neither
makes a difference nor ends one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.facts import Attached, InstanceFacts, ReplicationFacts, ServerFacts
from dbops.engine.states import Role
from dbops.engine.topology.nodes import seen_from


@dataclass(frozen=True, slots=True)
class Stored:
    """One instance of the inventory with the latest facts. ``aliases`` are other hosts' names for its address.

    ``known_as`` is the identity that it had when a person or a rebuild of ours last said that it is right; ``is_ours`` tells that
    a rebuild of ours changes it right now.
    """

    name: str
    role: str
    address: str
    port: int
    facts: InstanceFacts | None
    aliases: tuple[str, ...] = ()
    known_as: str = ""
    is_ours: bool = False

    @property
    def server(self) -> ServerFacts | None:
        return self.facts.server if self.facts else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one look says of one possible difference.

    ``is_there`` is ``None`` where nothing can be said now. ``about`` is what the difference is about besides its subject (the other
    server): another one is another difference. ``rests_on`` are the times at which the servers were read that it rests on.
    """

    code: str
    subject: str
    is_there: bool | None
    about: str = ""
    detail: str = ""
    matters: bool = False
    why: str = ""
    rests_on: tuple[datetime, ...] = ()


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
#: Those that a person can accept by changing roles in the inventory, and not only by saying that they are meant so.
CHANGES_ROLES = frozenset({"failover", "writes_alone", "two_primaries"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's instances, and from when on facts count as fresh. ``addresses`` is where applications write (``host[:port]``)."""

    members: tuple[Stored, ...]
    fresh_since: datetime
    addresses: tuple[str, ...] = ()

    @property
    def primary(self) -> Stored | None:
        return next((item for item in self.members if item.role == Role.PRIMARY), None)

    def is_read(self, member: Stored) -> bool:
        """Tell whether the server was read, freshly, and is not in the hands of a rebuild of ours."""
        facts = member.facts
        return bool(facts and facts.server and facts.observed_at >= self.fresh_since and not member.is_ours)

    def server(self, member: Stored) -> ServerFacts | None:
        return member.server if self.is_read(member) else None

    def is_silent(self, member: Stored) -> bool:
        """Tell whether the server was asked, freshly, and did not answer."""
        facts = member.facts
        return bool(facts and facts.server is None and facts.server_problem and facts.observed_at >= self.fresh_since)

    def source_of(self, member: Stored, link: ReplicationFacts) -> Stored | None:
        """Return the member that a connection leads to: because both of its ends say so, else by address."""
        others = [other for other in self.members if other is not member]
        if link.io_running == "Yes" and (
            found := next((one for one in others if self._is_end(one, member, link)), None)
        ):
            return found
        host = seen_from(member.address, link.source_host).casefold()
        for other in others:
            names = {other.address.casefold(), *(alias.casefold() for alias in other.aliases)}
            if host in names and link.source_port == other.port:
                return other
        primary = self.primary
        return primary if primary is not member and self._is_write_address(host, link.source_port) else None

    def _is_end(self, one: Stored, member: Stored, link: ReplicationFacts) -> bool:
        """A uuid is proof. A server id is none, as clusters use the same ones, unless the other end tells of this replica too."""
        server = self.server(one)
        if server is None or member.server is None:
            return False
        if server.server_uuid or link.source_uuid:
            return server.server_uuid == link.source_uuid
        is_attached = member.server.server_id in {item.server_id for item in server.replicas}
        return is_attached and link.source_server_id == server.server_id

    def could_be(self, member: Stored, link: ReplicationFacts) -> bool:
        """Tell whether a member that was not read now may be where a connection leads, by what was known of it before."""
        config = member.facts.config if member.facts else None
        known = {member.known_as, f"server id {config.server_id}" if config and config.server_id else ""} - {""}
        return not known or bool(known & {link.source_uuid, f"server id {link.source_server_id}"})

    def _is_write_address(self, host: str, port: int) -> bool:
        words = {address.casefold() for address in self.addresses}
        return bool({host, f"{host}:{port}", f"[{host}]:{port}"} & words)

    def owner_of(self, attached: Attached) -> Stored | None:
        """Return the member that an attached replica is, also by what was known of it before."""
        for member in self.members:
            config = member.facts.config if member.facts else None
            ids = {member.server.server_id if member.server else None, config.server_id if config else None}
            if attached.server_id in ids - {None} or (attached.host, attached.port) == (member.address, member.port):
                return member
        return None


def compare(cluster: Cluster) -> tuple[Judgement, ...]:
    """Return a judgement for every difference that these members could have. What is not listed cannot be any more."""
    return tuple(item for rule in RULES for item in rule(cluster))


def identity_of(server: ServerFacts) -> str:
    """Return what a server is known by: its uuid, or on MariaDB its server id."""
    return server.server_uuid or f"server id {server.server_id}"


def _times(*members: Stored | None) -> tuple[datetime, ...]:
    return tuple(member.facts.observed_at for member in members if member and member.facts)


def _judge(
    code: str,
    member: Stored,
    is_there: bool | None,
    detail: str = "",
    *,
    about: str = "",
    rests_on: Sequence[Stored | None] = (),
) -> Judgement:
    meaning = MEANINGS[code]
    return Judgement(
        code, member.name, is_there, about, detail, meaning.matters, meaning.why, _times(member, *rests_on)
    )


def _others(cluster: Cluster) -> list[Stored]:
    return [member for member in cluster.members if member.role != Role.PRIMARY]


def _is_top(server: ServerFacts) -> bool:
    return not server.read_only and not server.replication


def _followers(cluster: Cluster, leader: Stored) -> list[Stored]:
    """Return the members that were read and replicate from ``leader``."""
    return [
        member
        for member in cluster.members
        if (server := cluster.server(member))
        and any(cluster.source_of(member, link) is leader for link in server.replication)
    ]


def leaders(cluster: Cluster) -> Iterator[Judgement]:
    """A member that takes writes, replicates from nobody and is followed is a primary: the one, or one more.

    Rests on itself, on whoever follows it, and on the stored primary where that answers. Where it does not, the failover stands all
    the same: that it is gone is why there was one.
    """
    primary = cluster.primary
    for member in _others(cluster):
        server = cluster.server(member)
        if server is None:
            for code in ("failover", "two_primaries", "writes_alone"):
                yield _judge(code, member, None)
            continue
        followers = _followers(cluster, member) if _is_top(server) else []
        was = primary.name if primary else ""
        told = f"{member.name} takes writes and {_names(followers)} from it"
        rests_on = (*followers, primary)
        state = _state_of_old(cluster, primary, member, followers)
        there = bool(followers) and (None if state is None else state != "")
        yield _judge("failover", member, there, f"{told}; {was} {state}.".strip(), about=was, rests_on=rests_on)
        is_silent = primary is not None and not cluster.is_read(primary)
        both = bool(followers) and (None if is_silent else state == "")
        yield _judge("two_primaries", member, both, f"{told}; {was} takes writes too.", about=was, rests_on=rests_on)
        alone = _is_top(server) and not followers
        detail = f"read_only is off on the {member.role} {member.name}, and it replicates from nobody."
        yield _judge("writes_alone", member, alone, detail, about=was)


def _state_of_old(cluster: Cluster, primary: Stored | None, new: Stored, followers: Sequence[Stored]) -> str | None:
    """Return why the stored primary is none any more; ``""`` where it still is one, ``None`` where that is not known."""
    if primary is None:
        return "(no primary is stored)"
    if server := cluster.server(primary):
        if primary in followers:
            return f"replicates from {new.name}"
        return "takes no writes" if server.read_only else ""
    return "does not answer" if cluster.is_silent(primary) else None


def _names(followers: Sequence[Stored]) -> str:
    return f"{', '.join(item.name for item in followers)} replicate{'s' if len(followers) == 1 else ''}"


def primary_takes_writes(cluster: Cluster) -> Iterator[Judgement]:
    if primary := cluster.primary:
        server = cluster.server(primary)
        there = server.read_only if server else None
        yield _judge("primary_read_only", primary, there, f"read_only is on on the primary {primary.name}.")


def rings(cluster: Cluster) -> Iterator[Judgement]:
    """A ring is told once, for the stored primary where it stands in it, else for the first of its members."""
    arrows: dict[str, set[str]] = {}
    unread = [member for member in cluster.members if not cluster.is_read(member)]
    for member in cluster.members:
        server = cluster.server(member)
        links = server.replication if server else ()
        arrows[member.name] = {source.name for link in links if (source := cluster.source_of(member, link))}
    told: set[str] = set()
    for member in sorted(cluster.members, key=lambda item: (item.role != Role.PRIMARY, item.name)):
        ring = {name for name in _reach(arrows, member.name) if member.name in _reach(arrows, name)}
        is_first = member.name in ring and not ring & told
        told |= ring
        inside = [item for item in cluster.members if item.name in ring]
        there: bool | None = True if is_first else (None if unread else False)
        names = ", ".join(sorted(ring))
        yield _judge("loop", member, there, f"They replicate from each other: {names}.", about=names, rests_on=inside)


def _reach(arrows: dict[str, set[str]], start: str) -> set[str]:
    waiting, seen = list(arrows.get(start, ())), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += arrows.get(name, ())
    return seen


def sources(cluster: Cluster) -> Iterator[Judgement]:
    """Where each member reads: from the primary, from another replica, from outside, or from nobody."""
    for member in cluster.members:
        server = cluster.server(member)
        codes = ["outside_source"] + (
            [] if member.role == Role.PRIMARY else ["chain", "not_replicating", "takes_writes"]
        )
        if server is None:
            for code in codes:
                yield _judge(code, member, None)
            continue
        yield _outside(cluster, member, server)
        if member.role != Role.PRIMARY:
            yield _chain(cluster, member, server)
            is_idle = not server.replication and server.read_only
            yield _judge("not_replicating", member, is_idle, f"{member.name} replicates from nobody.")
            writes = bool(server.replication) and not server.read_only
            yield _judge(
                "takes_writes",
                member,
                writes,
                f"read_only is off on the {member.role} {member.name}, which replicates.",
            )


def _outside(cluster: Cluster, member: Stored, server: ServerFacts) -> Judgement:
    """An unknown address whose connection is not up may be another name of a member: nobody has said who answers there."""
    strange = [link for link in server.replication if cluster.source_of(member, link) is None]
    said = [link for link in strange if link.io_running == "Yes"]
    where = ", ".join(f"{link.source_host}:{link.source_port}" for link in said or strange)
    told = f"{member.name} replicates from {where}, which is no instance of this cluster."
    there = True if said else None if strange else False
    unread = [other for other in cluster.members if other is not member and not cluster.is_read(other)]
    if any(cluster.could_be(other, link) for other in unread for link in said):
        there = None
    return _judge("outside_source", member, there, told, about=where)


def _chain(cluster: Cluster, member: Stored, server: ServerFacts) -> Judgement:
    found = [cluster.source_of(member, link) for link in server.replication]
    middle = [source for source in found if source and source.role != Role.PRIMARY]
    names = ", ".join(source.name for source in middle)
    told = f"{member.name} replicates from {names}, not from the primary."
    return _judge("chain", member, bool(middle), told, about=names)


def strangers(cluster: Cluster) -> Iterator[Judgement]:
    """Replicas that are attached to a member and are no instance. A member that was never read could be the one."""
    never_read = any(member.facts is None for member in cluster.members)
    for member in cluster.members:
        server = cluster.server(member)
        if server is None:
            yield _judge("unknown_replica", member, None)
            continue
        strange = [item for item in server.replicas if cluster.owner_of(item) is None]
        words = ", ".join(sorted(_stranger(item) for item in strange))
        there: bool | None = None if strange and never_read else bool(strange)
        yield _judge("unknown_replica", member, there, f"Attached to {member.name}: {words}.", about=words)


def _stranger(attached: Attached) -> str:
    place = (
        f"{attached.host}:{attached.port}" if attached.host and attached.port else attached.host or "no address given"
    )
    return f"server id {attached.server_id} ({place})"


def identities(cluster: Cluster) -> Iterator[Judgement]:
    for member in cluster.members:
        server = cluster.server(member)
        if server is None:
            yield _judge("identity", member, None)
            continue
        now = identity_of(server)
        changed = bool(member.known_as) and now != member.known_as
        yield _judge("identity", member, changed, f"{member.name} was {member.known_as}, now {now} answers.", about=now)


RULES: tuple[Callable[[Cluster], Iterator[Judgement]], ...] = (
    leaders,
    primary_takes_writes,
    rings,
    sources,
    strangers,
    identities,
)
