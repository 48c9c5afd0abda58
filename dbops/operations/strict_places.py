"""Keep the need for approval with a data directory that leaves a cluster which requires it.

Without this, one operator moves an instance to a cluster of their own, rebuilds it there and moves it back. A data directory is known by
the host's pinned key and by the machine that a probe found, because names and addresses of hosts can be changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.access.approval_rules import ApprovalRule
from dbops.models import Instance, StrictPlace

KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class ApprovalNeed:
    """Why a rebuild needs approval: its cluster requires it, or one in which its data directory was ``until`` ago."""

    cluster: str
    rule: ApprovalRule
    until: datetime | None = None


def approval_need(target: Instance) -> ApprovalNeed | None:
    """Return why a rebuild of an instance needs approval now, ``None`` if it needs none. Three queries at most.

    A machine has several host keys and addresses, so its probed identity counts, too. A plan needs facts, so it is known.
    """
    found = _instances().get(pk=target.pk)
    if found.cluster.needs_approval:
        return ApprovalNeed(found.cluster.name, found.cluster.approval_rule)
    same_data = Q(datadir=found.datadir) | Q(port=found.port)
    known = {"host__in": _identities(found), "until__gt": clock.now()}
    left = StrictPlace.objects.filter(same_data, **known).order_by("-until").first()
    if left is not None:
        return ApprovalNeed(left.cluster, ApprovalRule(left.approval_count, left.approvers_only), left.until)
    twins = _instances().filter(same_data, cluster__needs_approval=True)
    same_host = Q(host__host_key=found.host.host_key) & ~Q(host__host_key="")
    if _machine(found):
        same_host |= Q(machine=found.machine, hostname=found.hostname)  # type: ignore[attr-defined]
    twin = twins.filter(same_host).first()
    return ApprovalNeed(twin.cluster.name, twin.cluster.approval_rule) if twin else None


@contextmanager
def strict_places_kept(actor: str) -> Iterator[None]:
    """Remember data directories that leave a cluster which requires approval within the block. Use in a transaction.

    A cluster that no longer requires it is listed with the overrides; its instances do not leave it.
    """
    before = list(_instances().filter(cluster__needs_approval=True))
    yield
    if before:
        members = _instances().filter(cluster__in={item.cluster_id for item in before})
        stays = {_place(item) for item in members}
        for item in before:
            if _place(item) not in stays:
                _remember(item, actor)


def _instances() -> QuerySet[Instance]:
    """Return all instances with their hosts and clusters, and with the machines that probes found."""
    host = KeyTransform("host", "state__record")
    return Instance.objects.select_related("host", "cluster").annotate(
        machine=Cast(KeyTextTransform("machine_id", host), TextField()),
        hostname=Cast(KeyTextTransform("hostname", host), TextField()),
    )


def _place(item: Instance) -> tuple[int, str, str, int]:
    """Return where the inventory has an instance. Facts do not count: they are of its last host until the next probe."""
    return (
        item.cluster_id,
        item.host.host_key or f"{item.host.ssh_address}:{item.host.ssh_port}",
        item.datadir,
        item.port,
    )


def _machine(item: Instance) -> str:
    machine, hostname = item.machine, item.hostname  # type: ignore[attr-defined]
    return f"machine {machine} {hostname}" if machine else ""


def _identities(item: Instance) -> list[str]:
    """Return what the host of an instance is known by."""
    return [found for found in (item.host.host_key, _machine(item)) if found]


def _remember(item: Instance, actor: str) -> None:
    until = clock.now() + KEPT
    place = {"datadir": item.datadir, "port": item.port}
    for host in _identities(item):
        StrictPlace.objects.filter(host=host, **place).delete()
        rule = {"approval_count": item.cluster.approval_count, "approvers_only": item.cluster.approvers_only}
        StrictPlace.objects.create(host=host, **place, cluster=item.cluster.name, until=until, **rule)
    StrictPlace.objects.filter(until__lt=clock.now()).delete()
    append(
        actor=actor,
        action="override.left_approval",
        subject=item.name,
        instance=item.name,
        cluster=item.cluster.name,
        detail={"datadir": item.datadir, "approval_needed_until": f"{until:%Y-%m-%d}"},
    )
