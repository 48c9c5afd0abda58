"""Keep the need for approval with a data directory that leaves a cluster which requires it.

Without this, one operator moves an instance to a cluster of their own, rebuilds it there and moves it back. A data directory is known by
the host's pinned key, because names and addresses of hosts can be changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from dbops.audit.log import append
from dbops.models import Host, Instance, StrictPlace

KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Place:
    """A data directory and port of a machine."""

    host: str
    datadir: str
    port: int


@dataclass(frozen=True, slots=True)
class ApprovalNeed:
    """Why a rebuild needs approval: its cluster requires it, or one in which its data directory was ``until`` ago."""

    cluster: str
    until: datetime | None = None


def place_of(instance: Instance) -> Place:
    return Place(identity_of(instance.host), instance.datadir, instance.port)


def identity_of(host: Host) -> str:
    """Return what a host is known by: its pinned key, else its address."""
    return host.host_key or f"{host.ssh_address}:{host.ssh_port}"


def approval_need(target: Instance) -> ApprovalNeed | None:
    """Return why a rebuild of an instance needs approval, ``None`` if it needs none. Two queries at most."""
    if target.cluster.needs_approval:
        return ApprovalNeed(target.cluster.name)
    place = place_of(target)
    same_data = Q(datadir=place.datadir) | Q(port=place.port)
    left = StrictPlace.objects.filter(same_data, host=place.host, until__gt=timezone.now()).order_by("-until").first()
    if left is not None:
        return ApprovalNeed(left.cluster, left.until)
    twin = (
        Instance.objects.filter(same_data, cluster__needs_approval=True, host__host_key=target.host.host_key)
        .exclude(host__host_key="")
        .values_list("cluster__name", flat=True)
        .first()
    )
    return ApprovalNeed(twin) if twin else None


@contextmanager
def strict_places_kept(actor: str) -> Iterator[None]:
    """Remember data directories that leave a cluster which requires approval within the block. Use in a transaction.

    A cluster that no longer requires it is listed with the overrides; its instances do not leave it.
    """
    before = list(_instances().filter(cluster__needs_approval=True))
    yield
    if before:
        members = _instances().filter(cluster__in={item.cluster_id for item in before})
        stays = {(place_of(item), item.cluster_id) for item in members}
        for item in before:
            if (place_of(item), item.cluster_id) not in stays:
                _remember(place_of(item), item.name, item.cluster.name, actor)


def _instances() -> QuerySet[Instance]:
    return Instance.objects.select_related("host", "cluster")


def _remember(place: Place, name: str, cluster: str, actor: str) -> None:
    until = timezone.now() + KEPT
    StrictPlace.objects.filter(host=place.host, datadir=place.datadir, port=place.port).delete()
    StrictPlace.objects.create(host=place.host, datadir=place.datadir, port=place.port, cluster=cluster, until=until)
    StrictPlace.objects.filter(until__lt=timezone.now()).delete()
    append(
        actor=actor,
        action="override.left_approval",
        subject=name,
        instance=name,
        cluster=cluster,
        detail={"datadir": place.datadir, "approval_needed_until": f"{until:%Y-%m-%d}"},
    )
