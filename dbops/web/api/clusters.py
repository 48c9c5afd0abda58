"""Clusters, instances, blockers and maintenance."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.eligibility import eligibility_of
from dbops.loaders.cluster_snapshots import snapshot_of
from dbops.models import Cluster, Instance, Maintenance
from dbops.operations.maintenance import begin_maintenance, end_maintenance
from dbops.queries.fleet.cluster import cluster_row
from dbops.queries.fleet.cluster_status import clusters_now, wanted_replicas
from dbops.web.api.access import Caller, called_by
from dbops.web.api.once import Key, once
from dbops.web.api.problems import not_found
from dbops.web.api.schemas import clusters as schemas
from dbops.web.api.schemas.base import (
    NAME,
    InPath,
    Limit,
    NameCursor,
    Number,
    NumberCursor,
    Page,
    by_name,
    newest_first,
)

router = Router()
#: Times outside of these years are typing errors, and some databases take none.
YEARS = range(2000, 2101)


@router.get("/clusters", response=Page[schemas.ClusterShort], tags=["clusters"], summary="List clusters")
def list_clusters(request: HttpRequest, cursor: NameCursor = None, limit: Limit = 50) -> Any:
    """Clusters by name, with their instances and whether a rebuild could start now."""
    found, following = by_name(
        clusters_now(clock.now(), called_by(request).clusters), cursor, limit, lambda one: one.name
    )
    wanted = wanted_replicas()
    return {"items": [schemas.cluster_short(one, wanted.get(one.pk)) for one in found], "next": following}


@router.get("/clusters/{name}", response=schemas.ClusterFull, tags=["clusters"], summary="Read a cluster")
def read_cluster(request: HttpRequest, name: InPath) -> Any:
    """A cluster with what the last probes of its instances read."""
    cluster = called_by(request).cluster(name)
    return schemas.cluster_full(cluster, cluster_row(cluster))


@router.get("/clusters/{name}/blockers", response=schemas.Blockers, tags=["clusters"], summary="Read blockers")
def read_blockers(
    request: HttpRequest, name: InPath, target: Annotated[str | None, Query(pattern=NAME, max_length=63)] = None
) -> Any:
    """What keeps a rebuild of the cluster, or of one instance, from starting now, and until when."""
    cluster = called_by(request).cluster(name)
    if target and not Instance.objects.filter(cluster=cluster, name=target).exists():
        raise not_found()
    found = eligibility_of(snapshot_of(cluster), target=target, method=METHODS[DEFAULT_METHOD])
    return schemas.blockers(found)


@router.get("/instances", response=Page[schemas.InstanceShort], tags=["instances"], summary="List instances")
def list_instances(
    request: HttpRequest,
    cluster: Annotated[str | None, Query(pattern=NAME, max_length=63)] = None,
    cursor: NameCursor = None,
    limit: Limit = 50,
) -> Any:
    """Instances by name, of all clusters or of one."""
    only = called_by(request).clusters
    members = [
        (one, found.name)
        for found in clusters_now(clock.now(), only)
        for one in found.members
        if cluster in (None, found.name)
    ]
    rows, following = by_name(members, cursor, limit, lambda one: one[0].name)
    return {"items": [schemas.instance_short(*row) for row in rows], "next": following}


@router.get("/instances/{name}", response=schemas.Instance, tags=["instances"], summary="Read an instance")
def read_instance(request: HttpRequest, name: InPath) -> Any:
    """An instance with what its last probe read."""
    instance = instance_named(called_by(request), name)
    return schemas.instance_full(cluster_row(instance.cluster).of(instance))


@router.get(
    "/clusters/{name}/maintenance",
    response=Page[schemas.MaintenanceOut],
    tags=["maintenance"],
    summary="List maintenance",
)
def list_maintenance(request: HttpRequest, name: InPath, cursor: NumberCursor = None, limit: Limit = 50) -> Any:
    """Announced and past maintenance of a cluster, newest first."""
    rows = Maintenance.objects.filter(cluster=called_by(request).cluster(name)).select_related("cluster")
    return newest_first(rows, cursor, limit, schemas.maintenance)


@router.post(
    "/clusters/{name}/maintenance",
    response={201: schemas.MaintenanceOut},
    tags=["maintenance"],
    summary="Announce maintenance",
    operation_id="announce_maintenance",
)
def announce_maintenance(
    request: HttpRequest, name: InPath, key: Key, given: schemas.MaintenanceRequest
) -> HttpResponse:
    """Let no rebuild of the cluster start in an interval. Running jobs continue."""

    def act(caller: Caller) -> schemas.MaintenanceOut:
        cluster = caller.cluster(name)
        row = begin_maintenance(
            actor=caller.user,
            cluster=cluster,
            starts_at=_possible(given.starts_at, cluster) or clock.now(),
            ends_at=_possible(given.ends_at, cluster),
            reason=given.reason,
        )
        return schemas.maintenance(row)

    return once(request, key, act, status=201)


@router.post(
    "/maintenance/{maintenance_id}/end",
    response=schemas.MaintenanceOut,
    tags=["maintenance"],
    summary="End maintenance",
    operation_id="end_maintenance",
)
def stop_maintenance(request: HttpRequest, maintenance_id: Number, key: Key) -> HttpResponse:
    """End maintenance now, or withdraw one that has not begun. The answer is as it was before."""

    def act(caller: Caller) -> schemas.MaintenanceOut:
        row = caller.one(Maintenance.objects.select_related("cluster").filter(pk=maintenance_id), "cluster")
        end_maintenance(actor=caller.user, maintenance=row)
        return schemas.maintenance(row)

    return once(request, key, act)


def instance_named(caller: Caller, name: str) -> Instance:
    """Return an instance that the token opens."""
    return caller.one(Instance.objects.select_related("cluster", "host", "state").filter(name=name), "cluster")


def _possible(moment: datetime | None, cluster: Cluster) -> datetime | None:
    if moment is not None and moment.year not in YEARS:
        operation = f"Announcing maintenance of {cluster.name}"
        raise Refused.unchanged("maintenance.invalid", operation, f"the year {moment.year} is out of range")
    return moment
