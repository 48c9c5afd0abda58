"""Read the topology pages: servers as a tree, differences, discoveries and their proposals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from dbops.engine.facts.instance import Attached, ReplicationFacts, from_record
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.phrases import Phrase, joined, phrase
from dbops.engine.states import Role
from dbops.engine.topology import members as engine
from dbops.engine.topology.difference_kinds import CHANGES_ROLES, MEANINGS
from dbops.engine.topology.layout import TreeNode, arrange
from dbops.engine.topology.nodes import DiscoveryResult, Node, ReplicationLink
from dbops.engine.topology.proposals import ProposedCluster, propose
from dbops.lifecycle import topology_differences
from dbops.models import Discovery, Instance, TopologyDifference
from dbops.queries.fleet.cluster import ActiveRebuild, ClusterPage, InstanceRow

#: Below this depth a chain is drawn flat: each server names its source anyway.
DEEPEST = 12
GONE_SHOWN = 10
EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReplicationRow:
    """One replication connection upwards. ``runs`` is ``None`` if unknown."""

    source: str
    text: str
    runs: bool | None
    lag_seconds: float | None = None
    error: str = ""

    @property
    def threads(self) -> str:
        """Return the state of the replication threads in one word."""
        if self.runs is None:
            return "unknown"
        return "running" if self.runs else "error" if self.error else "stopped"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One server of a drawing. ``kind`` is ``server`` or ``outside`` (an address or replica that is not in the inventory).

    ``sources`` are the keys of the servers that ``arrows`` come from, in the same order.
    """

    key: str
    name: str
    kind: str = "server"
    role: str = ""
    state: str = "unknown"
    state_text: str = ""
    lines: tuple[str, ...] = ()
    gtid: str = ""
    arrows: tuple[ReplicationRow, ...] = ()
    notes: tuple[str, ...] = ()
    running: ActiveRebuild | None = None
    held: str = ""
    held_by: int | None = None
    below: "tuple[Drawn, ...]" = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One row of the table of differences, as text."""

    row: TopologyDifference
    title: str
    why: str
    changes_roles: bool


@dataclass(frozen=True, slots=True)
class Differences:
    """Current, accepted and recently ended differences. ``waiting`` were seen once and are not confirmed."""

    open: tuple[DifferenceRow, ...]
    accepted: tuple[DifferenceRow, ...]
    waiting: tuple[DifferenceRow, ...]
    gone: tuple[DifferenceRow, ...] = ()

    @property
    def stopping(self) -> tuple[DifferenceRow, ...]:
        return tuple(item for item in self.open if item.row.matters)


# --- one cluster ------------------------------------------------------------------------------------------------------
def drawing(page: ClusterPage) -> tuple[Drawn, ...]:
    """Return a cluster's instances as trees, with attached outside servers. No query: the page's rows have all data."""
    rows = {row.instance.name: row for row in page.row.rows}
    cluster = engine.KnownCluster(
        tuple(topology_differences.stored_of(row.instance) for row in rows.values()),
        EVER,
        tuple(page.cluster.write_addresses),
    )
    drawn: dict[str, Drawn] = {}
    upward: dict[str, list[str]] = {}
    for member in cluster.members:
        row = rows[member.name]
        sources = [(link, cluster.source_of(member, link)) for link in row.channels]
        drawn[member.name] = _of_row(row, [(link, source.name if source else "") for link, source in sources])
        upward[member.name] = []
        for link, source in sources:
            key = source.name if source else f"outside {link.source_host}:{link.source_port}"
            upward[member.name].append(key)
            if source is None:
                drawn.setdefault(
                    key,
                    _outside(key, f"{link.source_host}:{link.source_port}", phrase("Not an instance of this cluster")),
                )
                upward.setdefault(key, [])
        for attached in row.server.replicas if row.server else ():
            if cluster.owner_of(attached) is None:
                key = f"attached {member.name} {attached.server_id} {attached.host}"
                drawn[key] = _attached(key, member.name, attached)
                upward[key] = [member.name]
    tops = [name for name, row in rows.items() if row.instance.role == Role.PRIMARY]
    keys = [*rows, *(key for key in drawn if key not in rows)]
    drawn = {key: replace(item, sources=tuple(upward.get(key, ()))) for key, item in drawn.items()}
    return _trees(arrange(keys, upward, tops), drawn)


def _of_row(row: InstanceRow, sources: Sequence[tuple[ReplicationFacts, str]]) -> Drawn:
    server, role = row.server, row.instance.role
    lines = [f"{row.instance.address}:{row.instance.port}"]
    if server:
        writes = phrase("read-only") if server.read_only else phrase("writable")
        version = server.tidb.release if server.tidb else server.version
        lines += [*_kind_lines(server.kind, server.flavor, version), *([] if server.tidb else [writes])]
    return Drawn(
        key=row.instance.name,
        name=row.instance.name,
        role=role,
        state=row.state,
        state_text="" if row.state == "healthy" else row.state_text,
        lines=tuple(lines),
        gtid=(server.gtid_binlog or server.gtid_executed) if server else "",
        arrows=tuple(_arrow_of(link, name) for link, name in sources) or _no_arrow(row),
        running=row.rebuild,
        held=row.held_as,
        held_by=row.held_by,
    )


def _no_arrow(row: InstanceRow) -> tuple[ReplicationRow, ...]:
    if row.instance.role in (Role.PRIMARY, Role.TIDB):
        return ()
    if row.server is None:
        return (ReplicationRow("", phrase("Source unknown"), None),)
    return (ReplicationRow("", phrase("Not replicating"), False),)


def _arrow_of(link: ReplicationFacts, name: str) -> ReplicationRow:
    place = f"{link.source_host}:{link.source_port}"
    error = link.last_io_error or link.last_sql_error
    text: Phrase = (
        phrase("running")
        if link.is_running
        else phrase("IO {io_running}, SQL {sql_running}", io_running=link.io_running, sql_running=link.sql_running)
    )
    if not link.uses_gtid:
        position = f"{link.relay_source_log_file}:{link.exec_source_log_pos}"
        text = phrase("{text}, by position {position}", text=text, position=position)
    if link.channel:
        text = phrase("{text}, connection {channel}", text=text, channel=link.channel)
    if error and not link.is_running:
        text = joined((text, error), ": ")
    return ReplicationRow(name or place, text, link.is_running, link.lag_seconds, error)


def _outside(key: str, name: str, why: str) -> Drawn:
    return Drawn(key=key, name=name, kind="outside", state_text=why)


def _attached(key: str, source: str, attached: Attached) -> Drawn:
    place = f"{attached.host}:{attached.port}" if attached.host and attached.port else attached.host
    found = _outside(
        key,
        place or phrase("server id {server_id}", server_id=attached.server_id),
        phrase("Attached, but not an instance of this cluster"),
    )
    lines = (
        phrase("server id {server_id}", server_id=attached.server_id),
        *(() if place else (phrase("no address reported (report_host)"),)),
    )
    return replace(found, lines=lines, arrows=(ReplicationRow(source, "attached", None),))


def _trees(followers: Iterable[TreeNode[str]], drawn: Mapping[str, Drawn], depth: int = 0) -> tuple[Drawn, ...]:
    found: list[Drawn] = []
    for follower in followers:
        item = drawn[follower.key]
        notes = [
            *item.notes,
            *(phrase("Replication ring: {drawn} is below.", drawn=drawn[key].name) for key in follower.closes),
        ]
        notes += [phrase("Second source: {drawn}.", drawn=drawn[key].name) for key in follower.also_from]
        if depth < DEEPEST:
            found.append(replace(item, notes=tuple(notes), below=_trees(follower.below, drawn, depth + 1)))
            continue
        found.append(replace(item, notes=tuple(notes)))
        waiting = list(follower.below)
        while waiting:
            below = waiting.pop(0)
            found.append(drawn[below.key])
            waiting = [*below.below, *waiting]
    return tuple(found)


# --- differences ------------------------------------------------------------------------------------------------------
def differences(cluster_id: int) -> Differences:
    """Return a cluster's differences. One query, and one more for ended ones."""
    rows = [_difference(row) for row in TopologyDifference.objects.filter(cluster=cluster_id, gone_at=None)]
    gone = TopologyDifference.objects.filter(cluster=cluster_id, gone_at__isnull=False).order_by("-gone_at")[
        :GONE_SHOWN
    ]
    return Differences(
        open=tuple(item for item in rows if item.row.is_open),
        accepted=tuple(item for item in rows if item.row.accepted_at),
        waiting=tuple(item for item in rows if item.row.confirmed_at is None and not item.row.accepted_at),
        gone=tuple(_difference(row) for row in gone),
    )


def difference(cluster_name: str, pk: int) -> DifferenceRow | None:
    row = TopologyDifference.objects.select_related("cluster").filter(cluster__name=cluster_name, pk=pk).first()
    return _difference(row) if row else None


def _difference(row: TopologyDifference) -> DifferenceRow:
    meaning = MEANINGS.get(row.code)
    title, why = (meaning.title, meaning.why) if meaning else (row.code, "")
    return DifferenceRow(row, title, why, row.code in CHANGES_ROLES)


# --- discoveries ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ProposalRow:
    """One cluster that a discovery proposes. ``known`` are the instances of the inventory among its servers, by the node's key."""

    number: int
    cluster: ProposedCluster
    known: Mapping[str, Instance]
    drawn: tuple[Drawn, ...]

    @property
    def stored_in(self) -> str:
        """Return the name of the cluster of the known servers; ``""`` if there is none, or more than one."""
        names = {instance.cluster.name for instance in self.known.values()}
        return names.pop() if len(names) == 1 else ""

    @property
    def new(self) -> list[Any]:
        return [member for member in self.cluster.members if member.node.key not in self.known]


def discoveries() -> list[Discovery]:
    return list(Discovery.objects.select_related("cluster").defer("result", "password")[:50])


def found_of(row: Discovery) -> DiscoveryResult | None:
    return from_record(DiscoveryResult, row.result) if row.result else None


def proposals(found: DiscoveryResult) -> list[ProposalRow]:
    """Return the proposals of a discovery, and which servers the inventory has. One query."""
    known = known_instances(found.nodes)
    clusters = propose(found.nodes)
    return [
        ProposalRow(number, cluster, _inside(cluster, known), _draw(cluster, known))
        for number, cluster in enumerate(clusters)
    ]


def _inside(cluster: ProposedCluster, known: Mapping[str, Instance]) -> dict[str, Instance]:
    return {member.node.key: known[member.node.key] for member in cluster.members if member.node.key in known}


def known_instances(nodes: Iterable[Node]) -> dict[str, Instance]:
    """Return the nodes that are instances of the inventory, matched by a common address or by uuid."""
    places: dict[tuple[str, int], str] = {}
    uuids: dict[str, list[str]] = {}
    for node in nodes:
        places |= {(host.casefold(), port): node.key for host, port in node.addresses}
        if node.server_uuid:
            uuids.setdefault(node.server_uuid, []).append(node.key)
    wanted = Q(port__in={port for _, port in places})
    wanted |= Q(identity__identity__in=list(uuids))
    found: dict[str, Instance] = {}
    for instance in Instance.objects.filter(wanted).select_related("cluster", "host", "identity"):
        identity = getattr(instance, "identity", None)
        keys = uuids.get(identity.identity, []) if identity else []
        at = places.get((instance.address.casefold(), instance.port)) or places.get(
            (instance.host.ssh_address.casefold(), instance.port)
        )
        key = at or (keys[0] if len(keys) == 1 else None)
        if key:
            found.setdefault(key, instance)
    return found


def _draw(cluster: ProposedCluster, known: Mapping[str, Instance]) -> tuple[Drawn, ...]:
    names = {member.node.key: member.name for member in cluster.members}
    drawn: dict[str, Drawn] = {}
    upward: dict[str, list[str]] = {}
    for member in cluster.members:
        node = member.node
        upward[node.key] = [link.source for link in node.links or ()]
        instance = known.get(node.key)
        lines = [", ".join(f"{host}:{port}" for host, port in node.addresses)]
        if node.is_read:
            writes = "read-only" if node.read_only else "writable"
            kind = _kind_lines(node.kind, node.flavor, node.version)
            lines += [*kind, writes, phrase("server id {server_id}", server_id=node.server_id)]
        notes = (
            [
                phrase(
                    "In the inventory: {instance}, {role} of {cluster}.",
                    instance=instance.name,
                    role=instance.role,
                    cluster=instance.cluster.name,
                )
            ]
            if instance
            else []
        )
        drawn[node.key] = Drawn(
            key=node.key,
            name=member.name,
            role=member.role.value if member.role else "",
            state="unreachable" if node.problem else _health(node.links),
            state_text=member.why,
            lines=tuple(lines),
            gtid=node.gtid,
            arrows=tuple(_arrow(link, names, is_read=node.is_read) for link in node.links or ()),
            notes=(*notes, *member.remarks),
        )
        for link in node.links or ():
            if link.source not in names:
                drawn.setdefault(link.source, _outside(link.source, link.address, phrase("Not scanned")))
                upward.setdefault(link.source, [])
        for number, silent in enumerate(node.silent):
            key = f"silent {node.key} {number}"
            drawn[key] = replace(
                _outside(
                    key,
                    silent.host or phrase("server id {server_id}", server_id=silent.server_id),
                    phrase("Replica without a reported address"),
                ),
                lines=(silent.description,),
                arrows=(ReplicationRow(member.name, "attached", None),),
            )
            upward[key] = [node.key]
    tops = [member.node.key for member in cluster.members if member.role is Role.PRIMARY]
    keys = [*names, *(key for key in drawn if key not in names)]
    drawn = {key: replace(item, sources=tuple(upward.get(key, ()))) for key, item in drawn.items()}
    return _trees(arrange(keys, upward, tops), drawn)


def _kind_lines(kind: ServerKind | None, flavor: str, version: str) -> list[str]:
    """Return a server's product with its version, and its group."""
    product = f"{kind.product if kind else flavor} {version}"
    return (
        [product, phrase("member of the {description}", description=kind.group.description)]
        if kind and kind.group
        else [product]
    )


def _health(links: Sequence[ReplicationLink] | None) -> str:
    if links is None:
        return "unknown"
    return "healthy" if all(link.is_running for link in links) else "stopped"


def _arrow(link: ReplicationLink, names: Mapping[str, str], *, is_read: bool) -> ReplicationRow:
    """Return the arrow. Of an unread server only its source reports the connection."""
    source = names.get(link.source, link.address)
    if not is_read:
        return ReplicationRow(source, phrase("reported by its source"), None)
    text = "running" if link.is_running else link.error or "stopped"
    return ReplicationRow(source, text, link.is_running, link.lag_seconds, link.error)
