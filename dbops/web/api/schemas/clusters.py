"""Clusters, instances, blockers and maintenance in answers."""

from collections.abc import Iterable
from datetime import datetime

from ninja import Schema
from pydantic import AwareDatetime

from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.eligibility import Eligibility
from dbops.engine.schedule.timeline import can_start
from dbops.engine.states import Role
from dbops.models import Cluster, Maintenance
from dbops.queries.fleet.cluster import ClusterRow, InstanceRow
from dbops.queries.fleet.cluster_status import ClusterNow, MemberStatus
from dbops.queries.fleet.overview import trouble
from dbops.web.api.schemas.base import Estimate, Given, Reason, estimate


class InstanceShort(Schema):
    """An instance and its state."""

    name: str
    cluster: str
    role: str
    state: str
    state_text: str
    lag_seconds: float | None
    is_read_only: bool | None


class ClusterShort(Schema):
    """A cluster and its state. ``can_start``: whether a rebuild could start now. ``wanted_replicas`` empty: all."""

    name: str
    has_trouble: bool
    can_start: bool
    is_tidb: bool
    primary: str | None
    replicas: int
    healthy_replicas: int
    wanted_replicas: int | None
    worst_lag_seconds: float | None
    rebuilds: list[int]
    instances: list[InstanceShort]


class Channel(Schema):
    """One replication connection of an instance."""

    name: str
    source_host: str
    source_port: int
    io_running: str
    sql_running: str
    lag_seconds: float | None
    uses_gtid: bool
    gtid_position: str
    error: str


class Instance(Schema):
    """An instance with what the last probe read. ``refusals``: why its rebuild cannot be requested now."""

    name: str
    cluster: str
    role: str
    host: str
    address: str
    port: int
    state: str
    state_text: str
    observed_at: datetime | None
    is_fresh: bool
    flavor: str | None
    version: str | None
    datadir: str | None
    is_read_only: bool | None
    lag_seconds: float | None
    innodb_bytes: int | None
    replication: list[Channel]
    held_by: int | None
    held_as: str
    rebuild: int | None
    refusals: list[str]


class ClusterFull(Schema):
    """A cluster with its instances. ``needs_approval``: another operator must approve each rebuild."""

    name: str
    is_tidb: bool
    needs_approval: bool
    wanted_replicas: int | None
    primary: str | None
    rebuilds: list[int]
    instances: list[Instance]


class BlockerOut(Schema):
    """A reason why a rebuild cannot start, or a warning. ``remedy``: what ends it."""

    kind: str
    instance: str
    text: str
    reason: str
    stops: bool
    since: datetime | None
    until: Estimate
    remedy: str
    clears: str
    backup_run: int | None
    rebuild: int | None


class Blockers(Schema):
    """Whether a rebuild can start (``now``, ``until``, ``unknown``, ``no source``, ``not offered``), and when.

    ``later``: blockers that are expected after those of now.
    """

    answer: str
    cluster: str
    target: str | None
    source: str | None
    method: str
    free: Estimate
    blockers: list[BlockerOut]
    warnings: list[BlockerOut]
    later: list[BlockerOut]


class MaintenanceOut(Schema):
    """An interval in which no rebuild of a cluster starts. ``ends_at`` empty: until somebody ends it."""

    id: int
    cluster: str
    starts_at: datetime
    ends_at: datetime | None
    reason: str
    created_by: str


class MaintenanceRequest(Given):
    """Maintenance to announce. ``starts_at`` empty: now."""

    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime | None = None
    reason: Reason


def instance_short(member: MemberStatus, cluster: str) -> InstanceShort:
    """Return a member of a cluster for an answer."""
    return InstanceShort(
        name=member.name,
        cluster=cluster,
        role=member.role,
        state=member.state,
        state_text=member.state_text,
        lag_seconds=member.summary.lag_seconds if member.summary else None,
        is_read_only=member.summary.is_read_only if member.summary else None,
    )


def cluster_short(found: ClusterNow, wanted: int | None) -> ClusterShort:
    """Return a cluster of the fleet for an answer."""
    return ClusterShort(
        name=found.name,
        has_trouble=trouble(found) > 0,
        can_start=not found.is_tidb and can_start(found.snapshot, METHODS[DEFAULT_METHOD]),
        is_tidb=found.is_tidb,
        primary=next((member.name for member in found.members if member.role is Role.PRIMARY), None),
        replicas=len(found.replicas),
        healthy_replicas=len(found.healthy_replicas),
        wanted_replicas=wanted,
        worst_lag_seconds=found.worst_lag_seconds,
        rebuilds=[one.pk for one in found.running],
        instances=[instance_short(member, found.name) for member in found.members],
    )


def instance_full(row: InstanceRow) -> Instance:
    """Return a row of a cluster's page for an answer."""
    instance, server = row.instance, row.server
    return Instance(
        name=instance.name,
        cluster=instance.cluster.name,
        role=instance.role,
        host=instance.host.name,
        address=instance.address,
        port=instance.port,
        state=row.state,
        state_text=row.state_text,
        observed_at=row.facts.observed_at if row.facts else None,
        is_fresh=row.is_fresh,
        flavor=server.flavor if server else None,
        version=server.version if server else None,
        datadir=server.datadir if server else None,
        is_read_only=server.read_only if server else None,
        lag_seconds=row.lag_seconds,
        innodb_bytes=server.innodb_bytes if server else None,
        replication=[
            Channel(
                name=one.channel,
                source_host=one.source_host,
                source_port=one.source_port,
                io_running=one.io_running,
                sql_running=one.sql_running,
                lag_seconds=one.lag_seconds,
                uses_gtid=one.uses_gtid,
                gtid_position=one.gtid_position,
                error=one.last_io_error or one.last_sql_error,
            )
            for one in row.channels
        ],
        held_by=row.held_by,
        held_as=row.held_as,
        rebuild=row.rebuild.pk if row.rebuild else None,
        refusals=list(row.refusals),
    )


def cluster_full(cluster: Cluster, row: ClusterRow) -> ClusterFull:
    """Return a cluster's page for an answer."""
    return ClusterFull(
        name=cluster.name,
        is_tidb=row.is_tidb,
        needs_approval=cluster.needs_approval,
        wanted_replicas=cluster.wanted_replicas,
        primary=next((one.instance.name for one in row.rows if one.instance.role == Role.PRIMARY), None),
        rebuilds=[one.pk for one in row.running],
        instances=[instance_full(one) for one in row.rows],
    )


def blockers(found: Eligibility) -> Blockers:
    """Return an eligibility for an answer."""
    return Blockers(
        answer=found.answer,
        cluster=found.cluster,
        target=found.target,
        source=found.source,
        method=found.method,
        free=estimate(found.free),
        blockers=_blockers(found.blockers),
        warnings=_blockers(found.warnings),
        later=_blockers(found.later),
    )


def _blockers(found: Iterable[Blocker]) -> list[BlockerOut]:
    return [
        BlockerOut(
            kind=one.kind,
            instance=one.instance,
            text=one.text,
            reason=one.reason,
            stops=one.stops,
            since=one.since,
            until=estimate(one.until),
            remedy=one.remedy,
            clears=one.clears,
            backup_run=one.run,
            rebuild=one.rebuild,
        )
        for one in found
    ]


def maintenance(row: Maintenance) -> MaintenanceOut:
    """Return maintenance for an answer."""
    return MaintenanceOut(
        id=row.pk,
        cluster=row.cluster.name,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        reason=row.reason,
        created_by=row.created_by,
    )
