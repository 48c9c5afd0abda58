"""Propose clusters, hosts and roles from a discovery, for a person to accept."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbops.engine.phrases import phrase, phrases
from dbops.engine.states import Role
from dbops.engine.topology.nodes import Node

#: A name that contains one of these words is proposed as a backup instance.
BACKUP_NAME = re.compile(r"(?:^|[^a-z])(?:backup|backups|bkp|bak|dump)(?:[^a-z]|$)", re.IGNORECASE)
NUMBERS = re.compile(r"[0-9.:]+")


@dataclass(frozen=True, slots=True)
class ProposedMember:
    """One server. ``role`` is ``None`` where nothing is proposed; ``why`` is the reason in both cases."""

    node: Node
    name: str
    role: Role | None
    why: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposedCluster:
    """Servers that replicate from each other. ``co_primaries`` are the keys of all writable ones, if more than one: a cluster in the
    inventory has one primary, and a person chooses it.
    """

    name: str
    members: tuple[ProposedMember, ...]
    co_primaries: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def primary(self) -> ProposedMember | None:
        """Return the proposed primary; ``None`` if there is none or more than one."""
        found = [member for member in self.members if member.role is Role.PRIMARY]
        return found[0] if len(found) == 1 else None


def propose(nodes: Sequence[Node]) -> tuple[ProposedCluster, ...]:
    """Return clusters in the order of discovery. Every node appears exactly once."""
    names = _names(nodes)
    return tuple(_cluster(group, names) for group in _groups(nodes))


def _groups(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the groups of nodes that replication connects, in either direction."""
    by_key = {node.key: node for node in nodes}
    neighbours: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for source in _sources(node, by_key):
            neighbours[node.key].add(source)
            neighbours[source].add(node.key)
    groups: list[list[Node]] = []
    seen: set[str] = set()
    for node in nodes:
        if node.key in seen:
            continue
        waiting, inside = [node.key], {node.key}
        while waiting:
            for other in neighbours[waiting.pop()] - inside:
                inside.add(other)
                waiting.append(other)
        seen |= inside
        groups.append([item for item in nodes if item.key in inside])
    return groups


def _sources(node: Node, by_key: Mapping[str, Node]) -> list[str]:
    return [link.source for link in node.links or () if link.source in by_key]


def _cluster(group: list[Node], names: Mapping[str, str]) -> ProposedCluster:
    by_key = {node.key: node for node in group}
    replicas: dict[str, list[str]] = defaultdict(list)
    for node in group:
        for source in _sources(node, by_key):
            replicas[source].append(node.key)
    rings = _in_rings(group, by_key)
    writers = [node.key for node in group if _takes_writes_for_others(node, replicas[node.key], rings)]
    members = [_member(node, names, by_key, replicas, rings, writers) for node in group]
    remarks = list(_remarks(members, writers, rings, names))
    head = next((names[key] for key in writers), names[group[0].key])
    return ProposedCluster(
        name=f"{head}-cluster"[:63],
        members=tuple(members),
        co_primaries=tuple(writers) if len(writers) > 1 else (),
        remarks=tuple(remarks),
    )


def _in_rings(group: Iterable[Node], by_key: Mapping[str, Node]) -> set[str]:
    """Return the keys of nodes that replicate from themselves, directly or through others."""
    found = set()
    for node in group:
        waiting, seen = _sources(node, by_key), set[str]()
        while waiting:
            key = waiting.pop()
            if key not in seen:
                seen.add(key)
                waiting += _sources(by_key[key], by_key)
        if node.key in seen:
            found.add(node.key)
    return found


def _has_replicas(node: Node, replicas: Sequence[str]) -> bool:
    return bool(replicas or node.attached or node.silent)


def _takes_writes_for_others(node: Node, replicas: Sequence[str], rings: set[str]) -> bool:
    """Return whether a node is a primary: writable, with replicas, and not replicating, except in a ring."""
    is_top = node.links == () or node.key in rings
    return node.is_read and node.read_only is False and is_top and _has_replicas(node, replicas)


def _member(
    node: Node,
    names: Mapping[str, str],
    by_key: Mapping[str, Node],
    replicas: Mapping[str, Sequence[str]],
    rings: set[str],
    writers: Sequence[str],
) -> ProposedMember:
    below = replicas.get(node.key, ())
    role, why = _role(node, below, writers)
    return ProposedMember(
        node=node, name=names[node.key], role=role, why=why, remarks=tuple(_of_member(node, by_key, below, rings, role))
    )


def _role(node: Node, replicas: Sequence[str], writers: Sequence[str]) -> tuple[Role | None, str]:
    if node.problem:
        return None, phrase("could not be read: {problem}", problem=node.problem.text)
    if node.key in writers:
        if len(writers) > 1:
            return (
                Role.PRIMARY,
                phrase("writable with replicas, like another server: select the primary"),
            )
        if node.links:
            return Role.PRIMARY, phrase("writable, has replicas, the only writable server of its ring")
        return Role.PRIMARY, phrase("writable, has replicas, not replicating")
    if node.links is None:
        return None, phrase("the account cannot read the replication status")
    if not node.links:
        if not _has_replicas(node, replicas):
            return None, phrase("not replicating, no replicas")
        return None, phrase("has replicas, but is read-only (read_only is on)")
    if _has_replicas(node, replicas):
        return Role.REPLICA, phrase("replicating, has replicas")
    if node.read_only and node.backups:
        return Role.BACKUP, phrase(
            "read-only replica without replicas; a backup ran here: {backups}", backups=", ".join(node.backups)
        )
    if node.read_only and (word := _backup_name(node)):
        return Role.BACKUP, phrase("read-only replica without replicas; named as a backup instance: {word}", word=word)
    return Role.REPLICA, phrase("replicating")


def _backup_name(node: Node) -> str:
    names = (node.hostname, *(host for host, _ in node.addresses))
    return next((name for name in names if BACKUP_NAME.search(name)), "")


def _of_member(
    node: Node, by_key: Mapping[str, Node], replicas: Sequence[str], rings: set[str], role: Role | None
) -> Iterable[str]:
    yield from node.unread
    yield from _of_kind(node)
    if node.links and role is not Role.PRIMARY and node.read_only is False:
        yield phrase("Writable replica: read_only is off.")
    if node.links and replicas and role is Role.REPLICA:
        yield phrases(
            "Chained: {number} server replicates from this replica.",
            "Chained: {number} servers replicate from this replica.",
            len(replicas),
        )
    if node.key in rings:
        yield phrase("Part of a replication ring.")
    if len(node.links or ()) > 1:
        yield phrase("Replicates over {number} connections.", number=len(node.links or ()))
    for link in node.links or ():
        source = by_key.get(link.source)
        if source is None:
            yield phrase("Replicates from {address}, which was not scanned.", address=link.address)
        elif source.problem:
            yield phrase(
                "Replicates from {address}, which could not be read: {problem}",
                address=link.address,
                problem=source.problem.text,
            )
        if not link.is_running:
            yield (
                phrase("Replication from {address} is stopped: {error}.", address=link.address, error=link.error)
                if link.error
                else phrase("Replication from {address} is stopped.", address=link.address)
            )
    for silent in node.silent:
        yield phrase("One of its replicas was not found: {description}.", description=silent.description)


def _of_kind(node: Node) -> Iterable[str]:
    """Name what dbops does not follow: the other members of a group, and what a service does with its own servers."""
    if node.kind and (group := node.kind.group):
        yield (
            phrase(
                "Member of the {group}. Its members are not followed: {others}. A rebuild neither reads nor replaces a member.",
                group=group.description,
                others=", ".join(group.members),
            )
            if group.members
            else phrase(
                "Member of the {group}. Its members are not followed. A rebuild neither reads nor replaces a member.",
                group=group.description,
            )
        )
    if node.kind and node.kind.managed_by:
        yield phrase(
            "A server of {managed_by}: no host to log in to, so a rebuild neither reads nor replaces it.",
            managed_by=node.kind.managed_by,
        )


def _remarks(
    members: Sequence[ProposedMember], writers: Sequence[str], rings: set[str], names: Mapping[str, str]
) -> Iterable[str]:
    if len(writers) > 1:
        yield phrase("Several writable servers: {writers}.", writers=", ".join(names[key] for key in writers))
    elif not writers:
        yield phrase("No primary found: no server is writable, has replicas and is not replicating.")
    if rings:
        yield phrase(
            "Replication ring: {members}.",
            members=", ".join(member.name for member in members if member.node.key in rings),
        )
    if len(members) > 1 and not any(member.role is Role.BACKUP for member in members):
        yield phrase("No backup instance found. Select the one that rebuilds read from.")
    uuids: dict[str, list[str]] = defaultdict(list)
    ids: dict[int, list[str]] = defaultdict(list)
    for member in members:
        if member.node.server_uuid:
            uuids[member.node.server_uuid].append(member.name)
        if member.node.server_id is not None:
            ids[member.node.server_id].append(member.name)
    for uuid, same in uuids.items():
        if len(same) > 1:
            yield phrase(
                "{same} share the server_uuid {uuid}: auto.cnf was copied with the data.",
                same=", ".join(same),
                uuid=uuid,
            )
    for number, same in ids.items():
        if len(same) > 1:
            yield phrase(
                "{same} share the server ID {number}: they cannot replicate from each other.",
                same=", ".join(same),
                number=number,
            )


def _names(nodes: Sequence[Node]) -> dict[str, str]:
    """Return a unique name for each node that the inventory accepts: by its host, with the port if hosts repeat."""
    wanted = {node.key: _word(node) for node in nodes}
    often = [word.casefold() for word in wanted.values()]
    found: dict[str, str] = {}
    taken: set[str] = set()
    for node in nodes:
        name = wanted[node.key]
        if often.count(name.casefold()) > 1:
            name = _clean(f"{node.addresses[0][0]}-{node.addresses[0][1]}")
        base, number = name, 2
        while name.casefold() in taken:
            name, number = f"{base[:58]}-{number}", number + 1
        taken.add(name.casefold())
        found[node.key] = name
    return found


def _word(node: Node) -> str:
    """Return the first label of the host's name; an IP address stays whole."""
    host = node.hostname or node.addresses[0][0]
    return _clean(host if NUMBERS.fullmatch(host) else host.split(".", 1)[0])


def _clean(text: str) -> str:
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
    return kept[:63] or "server"
