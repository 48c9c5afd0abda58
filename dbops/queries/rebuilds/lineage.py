"""Read the data lineage of an instance: full copies, their requesters, and the origin of its data."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from dbops.engine.methods import METHODS
from dbops.engine.rebuilds.lineage import CopyEvent, DataOrigin, ForeignData, Generation, lineage
from dbops.engine.states import Status
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.models import Instance, Rebuild, RebuildStep, TopologyDifference

IN_A_CARD = 3


@dataclass(frozen=True, slots=True)
class Movement:
    """One full copy over the network, complete or not.

    ``ciphers`` are the offered ones, in the order of preference: the source's server takes the first that it allows.
    ``read_from`` and ``read_until`` are when the source was read.
    """

    rebuild: int
    source: str
    target: str
    method: str
    status: str
    read_from: datetime | None
    read_until: datetime | None
    bytes: int | None
    ciphers: str
    requested_by: str
    requested_at: datetime
    approval: str
    approval_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One step back: the owner of the data, and the copy by which it came, if any."""

    generation: Generation
    copy: Movement | None

    @property
    def known(self) -> DataOrigin:
        return self.generation.known


@dataclass(frozen=True, slots=True)
class Lineage:
    """Lineage of one instance: the origin of its data, and its received and given copies, newest first."""

    instance: Instance
    at: datetime
    ancestors: tuple[Ancestor, ...]
    received: tuple[Movement, ...]
    sent: tuple[Movement, ...]

    @property
    def newest(self) -> tuple[Movement, ...]:
        """Return the last few of both."""
        both = sorted((*self.received, *self.sent), key=lambda one: one.rebuild, reverse=True)
        return tuple(both[:IN_A_CARD])


def lineage_of(instance: Instance, now: datetime) -> Lineage:
    """Return the lineage of one instance. Three queries, for any number of rebuilds of its cluster."""
    rows = list(_rows(instance))
    streams = {
        pk: (began, ended)
        for pk, began, ended in RebuildStep.objects.filter(_of_cluster(instance, "rebuild__"), name="stream")
        .order_by()
        .values_list("rebuild", "started_at", "finished_at")
    }
    moved = {row.pk: _movement(row, *streams.get(row.pk, (None, None))) for row in rows if row.method in METHODS}
    acts = [_act(row, moved.get(row.pk)) for row in rows]
    kept = [one for one in moved.values() if one.read_from or one.bytes or one.status == Status.SUCCEEDED]
    return Lineage(
        instance=instance,
        at=now,
        ancestors=tuple(
            Ancestor(one, moved.get(one.copied_by.rebuild) if one.copied_by else None)
            for one in lineage(instance.name, now, acts, _found(instance))
        ),
        received=tuple(one for one in kept if one.target == instance.name),
        sent=tuple(one for one in kept if one.source == instance.name),
    )


def _found(instance: Instance) -> list[ForeignData]:
    """Return data of the cluster that no rebuild made, with a person's comment."""
    rows = TopologyDifference.objects.filter(cluster=instance.cluster_id, code__in=REPLACED, confirmed_at__isnull=False)
    return [ForeignData(row.subject, row.first_seen_at, _description(row)) for row in rows]


def _description(row: TopologyDifference) -> str:
    return f"{row.detail} {row.accepted_by}: {row.reason}" if row.accepted_at else row.detail


def _rows(instance: Instance) -> Iterable[Any]:
    """Return every started rebuild of the instance's cluster, newest first. Their plans are not loaded."""
    rows = Rebuild.objects.filter(_of_cluster(instance), started_at__isnull=False).order_by("-started_at", "-pk")
    return (
        rows.select_related("target", "source", "requested_by")
        .defer("plan", "error")
        .annotate(
            ciphers=KeyTextTransform("cipher", "plan"),
            taken_at=KeyTextTransform("taken_at", KeyTransform("archive", "plan")),
        )
    )


def _of_cluster(instance: Instance, to: str = "") -> Q:
    cluster = instance.cluster_id
    return Q(**{f"{to}target__cluster": cluster}) | Q(**{f"{to}source__cluster": cluster})


def _movement(row: Any, began: datetime | None, ended: datetime | None) -> Movement:
    return Movement(
        rebuild=row.pk,
        source=row.source.name,
        target=row.target.name,
        method=row.method,
        status=row.status,
        read_from=began,
        read_until=ended,
        bytes=row.checkpoint.get("stream.bytes"),
        ciphers=row.ciphers or "",
        requested_by=row.requested_by.get_username(),
        requested_at=row.requested_at,
        approval=row.approval,
        approval_by=row.approval_by,
        reason=row.reason,
    )


def _taken_at(row: Any) -> datetime | None:
    """Return the start of the finished backup that a rebuild read: its data is the source's at that time."""
    return datetime.fromisoformat(row.taken_at) if row.taken_at not in (None, "", "null") else None


def _act(row: Any, moved: Movement | None) -> CopyEvent:
    checkpoint = row.checkpoint
    return CopyEvent(
        rebuild=row.pk,
        target=row.target.name,
        source=row.source.name,
        method=row.method,
        status=Status(row.status),
        started_at=row.started_at,
        read_at=_taken_at(row) or (moved.read_from if moved else None) or row.started_at,
        finished_at=row.finished_at,
        follows=row.follows_id,
        has_touched=bool(checkpoint.get("touched")) or row.status == Status.SUCCEEDED,
        is_verified=bool(checkpoint.get("verified")),
        is_rolled_back=bool(checkpoint.get("rolled_back") or checkpoint.get("old_identity")),
    )
