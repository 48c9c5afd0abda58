"""Compare the topology with the inventory: each possible difference exists, does not exist, or is unknown.

Only fresh facts count. A difference that depends on a server without facts, or on one that dbops is rebuilding, is ``None``: it
neither starts nor ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.facts.instance import Attached, ServerFacts
from dbops.engine.phrases import Phrase, joined, phrase, phrases
from dbops.engine.states import REPLICAS, Role
from dbops.engine.topology.difference_kinds import MEANINGS
from dbops.engine.topology.members import KnownCluster, StoredInstance, identity_of


@dataclass(frozen=True, slots=True)
class Judgement:
    """Result of one comparison for one possible difference.

    ``is_there`` is ``None`` if unknown. ``about`` is the other server of the difference; another one makes another difference.
    ``rests_on`` are the probe times of the servers that the result depends on.
    """

    code: str
    subject: str
    is_there: bool | None
    about: str = ""
    detail: str = ""
    matters: bool = False
    why: str = ""
    rests_on: tuple[datetime, ...] = ()


def compare(cluster: KnownCluster) -> tuple[Judgement, ...]:
    """Return a judgement for every possible difference of these members. A difference that is not listed cannot exist any more."""
    return tuple(item for rule in RULES for item in rule(cluster))


def _times(*members: StoredInstance | None) -> tuple[datetime, ...]:
    return tuple(member.facts.observed_at for member in members if member and member.facts)


def _judge(
    code: str,
    member: StoredInstance,
    is_there: bool | None,
    detail: str = "",
    *,
    about: str = "",
    rests_on: Sequence[StoredInstance | None] = (),
) -> Judgement:
    meaning = MEANINGS[code]
    return Judgement(
        code, member.name, is_there, about, detail, meaning.matters, meaning.why, _times(member, *rests_on)
    )


def _others(cluster: KnownCluster) -> list[StoredInstance]:
    return [member for member in cluster.members if member.role in REPLICAS]


def _is_top(server: ServerFacts) -> bool:
    return not server.read_only and not server.replication


def _followers(cluster: KnownCluster, leader: StoredInstance) -> list[StoredInstance]:
    """Return the members with facts that replicate from ``leader``."""
    return [
        member
        for member in cluster.members
        if (server := cluster.server(member))
        and any(cluster.source_of(member, link) is leader for link in server.replication)
    ]


def leaders(cluster: KnownCluster) -> Iterator[Judgement]:
    """Judge the primaries: a writable member with replicas that does not replicate is the only primary, or a second one.

    Depends on itself, on its replicas, and on the stored primary if that responds. If not, the failover counts as well: the loss
    of the primary is its cause.
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
        detail = _is_followed(member, followers)
        rests_on = (*followers, primary)
        state = _state_of_old(cluster, primary, member, followers)
        there = bool(followers) and (None if state is None else state != "")
        yield _judge("failover", member, there, _and_former(detail, was, state), about=was, rests_on=rests_on)
        is_silent = primary is not None and not cluster.is_read(primary)
        both = bool(followers) and (None if is_silent else state == "")
        yield _judge(
            "two_primaries",
            member,
            both,
            phrase("{detail}; {was} is also writable.", detail=detail, was=was),
            about=was,
            rests_on=rests_on,
        )
        alone = _is_top(server) and not followers
        detail = phrase(
            "{member} ({role}) is writable (read_only is off) and not replicating.",
            member=member.name,
            role=member.role,
        )
        yield _judge("writes_alone", member, alone, detail, about=was)


def _state_of_old(
    cluster: KnownCluster, primary: StoredInstance | None, new: StoredInstance, followers: Sequence[StoredInstance]
) -> str | None:
    """Return why the stored primary is no longer one; ``""`` if it still is, ``None`` if unknown."""
    if primary is None:
        return phrase("(no primary is stored)")
    if server := cluster.server(primary):
        if primary in followers:
            return phrase("replicates from {instance}", instance=new.name)
        return phrase("is read-only") if server.read_only else ""
    return phrase("does not respond") if cluster.is_silent(primary) else None


def _is_followed(member: StoredInstance, followers: Sequence[StoredInstance]) -> Phrase:
    return phrases(
        "{member} is writable and {followers} replicates from {member}",
        "{member} is writable and {followers} replicate from {member}",
        len(followers),
        member=member.name,
        followers=", ".join(item.name for item in followers),
    )


def _and_former(detail: Phrase, was: str, state: str | None) -> Phrase:
    return phrase("{detail}; {was} {state}.", detail=detail, was=was, state=state)


def primary_takes_writes(cluster: KnownCluster) -> Iterator[Judgement]:
    if primary := cluster.primary:
        server = cluster.server(primary)
        there = server.read_only if server else None
        yield _judge(
            "primary_read_only",
            primary,
            there,
            phrase("The primary {primary} is read-only (read_only is on).", primary=primary.name),
        )


def rings(cluster: KnownCluster) -> Iterator[Judgement]:
    """Report a ring once: for the stored primary if it is part of the ring, else for the first of its members."""
    arrows: dict[str, set[str]] = {}
    unread = [member for member in cluster.members if not cluster.is_read(member)]
    for member in cluster.members:
        server = cluster.server(member)
        links = server.replication if server else ()
        arrows[member.name] = {source.name for link in links if (source := cluster.source_of(member, link))}
    reported: set[str] = set()
    for member in sorted(cluster.members, key=lambda item: (item.role != Role.PRIMARY, item.name)):
        ring = {name for name in _reach(arrows, member.name) if member.name in _reach(arrows, name)}
        is_first = member.name in ring and not ring & reported
        reported |= ring
        inside = [item for item in cluster.members if item.name in ring]
        there: bool | None = True if is_first else (None if unread else False)
        names = ", ".join(sorted(ring))
        yield _judge(
            "loop", member, there, phrase("Replication ring: {names}.", names=names), about=names, rests_on=inside
        )


def _reach(arrows: dict[str, set[str]], start: str) -> set[str]:
    waiting, seen = list(arrows.get(start, ())), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += arrows.get(name, ())
    return seen


def sources(cluster: KnownCluster) -> Iterator[Judgement]:
    """Judge the source of each member: the primary, another replica, an outside server, or none."""
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
            yield _judge("not_replicating", member, is_idle, phrase("{member} is not replicating.", member=member.name))
            writes = bool(server.replication) and not server.read_only
            yield _judge(
                "takes_writes",
                member,
                writes,
                phrase(
                    "{member} ({role}) is replicating and writable (read_only is off).",
                    member=member.name,
                    role=member.role,
                ),
            )


def _outside(cluster: KnownCluster, member: StoredInstance, server: ServerFacts) -> Judgement:
    """Judge an outside source. An unknown address without a connection may be another name of a member."""
    strange = [link for link in server.replication if cluster.source_of(member, link) is None]
    said = [link for link in strange if link.io_running == "Yes"]
    where = ", ".join(f"{link.source_host}:{link.source_port}" for link in said or strange)
    detail = phrase(
        "{member} replicates from {where}, which is not an instance of this cluster.", member=member.name, where=where
    )
    there = True if said else None if strange else False
    unread = [other for other in cluster.members if other is not member and not cluster.is_read(other)]
    if any(cluster.could_be(other, link) for other in unread for link in said):
        there = None
    return _judge("outside_source", member, there, detail, about=where)


def _chain(cluster: KnownCluster, member: StoredInstance, server: ServerFacts) -> Judgement:
    found = [cluster.source_of(member, link) for link in server.replication]
    middle = [source for source in found if source and source.role != Role.PRIMARY]
    names = ", ".join(source.name for source in middle)
    detail = phrase("{member} replicates from {names}, not from the primary.", member=member.name, names=names)
    return _judge("chain", member, bool(middle), detail, about=names)


def strangers(cluster: KnownCluster) -> Iterator[Judgement]:
    """Judge attached replicas that are not in the inventory. A member without facts may be such a replica."""
    never_read = any(member.facts is None for member in cluster.members)
    for member in cluster.members:
        server = cluster.server(member)
        if server is None:
            yield _judge("unknown_replica", member, None)
            continue
        strange = [item for item in server.replicas if cluster.owner_of(item) is None]
        names = ", ".join(sorted(_stranger(item) for item in strange))
        there: bool | None = None if strange and never_read else bool(strange)
        yield _judge(
            "unknown_replica",
            member,
            there,
            phrase("Attached to {member}: {names}.", member=member.name, names=names),
            about=names,
        )


def _stranger(attached: Attached) -> str:
    place = (
        f"{attached.host}:{attached.port}" if attached.host and attached.port else attached.host or "no address given"
    )
    return f"server id {attached.server_id} ({place})"


def identities(cluster: KnownCluster) -> Iterator[Judgement]:
    for member in cluster.members:
        server = cluster.server(member)
        if server is None:
            for code in ("identity", "data_replaced", "history_lost"):
                yield _judge(code, member, None)
            continue
        now = identity_of(server)
        changed = bool(member.known_as) and now != member.known_as
        yield _judge(
            "identity",
            member,
            changed,
            phrase("{member} was {known_as} and is now {now}.", member=member.name, known_as=member.known_as, now=now),
            about=now,
        )
        yield _files(member)
        lost = member.lost_gtid
        detail = phrase("{member} lost these transactions: {lost}.", member=member.name, lost=lost)
        yield _judge("history_lost", member, bool(lost), detail, about=lost)


def _files(member: StoredInstance) -> Judgement:
    """Judge whether the data is in other files than before; unknown if either is unknown."""
    made_at = member.facts.datadir.made_at if member.facts and member.facts.datadir else None
    detail = phrase("The data of {member} is in new files that no rebuild by dbops created.", member=member.name)
    if made_at:
        detail = joined((detail, phrase("Created at {moment} UTC.", moment=f"{made_at:%Y-%m-%d %H:%M:%S}")))
    changed = None if member.known_files and not member.files else member.files != (member.known_files or member.files)
    return _judge("data_replaced", member, changed, detail, about=member.files)


RULES: tuple[Callable[[KnownCluster], Iterator[Judgement]], ...] = (
    leaders,
    primary_takes_writes,
    rings,
    sources,
    strangers,
    identities,
)
