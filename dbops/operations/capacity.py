"""Operations on the capacity limits of a cluster."""

from collections.abc import Mapping

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.capacity.limits import WITH_THRESHOLD, LimitKind
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import CapacityForecast, CapacityThreshold, Cluster
from dbops.security.permissions import require_operator

#: What the column can store.
LARGEST = 2**63 - 1


def set_thresholds(*, actor: User, cluster: Cluster, values: Mapping[LimitKind, int | None]) -> None:
    """Set the limits that a cluster's growth is compared with. The worker then computes the forecast again.

    Args:
        values: in the unit of the limit; ``None`` removes a threshold; a kind that is missing stays as it is.

    Raises:
        Refused: ``access.denied``; a value is below 1 or too large, or the kind has no threshold (``capacity.invalid``).
    """
    operation = phrase("Setting capacity thresholds of {cluster}", cluster=cluster.name)
    require_operator(actor, operation, cluster.pk)
    wrong = [
        str(kind)
        for kind, value in values.items()
        if kind not in WITH_THRESHOLD or (value is not None and not 1 <= value <= LARGEST)
    ]
    if wrong:
        raise Refused(
            "capacity.invalid", operation, cause=phrase("not a possible threshold: {wrong}", wrong=", ".join(wrong))
        )
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        rows = {row.kind: row for row in CapacityThreshold.objects.filter(cluster=cluster)}
        changes = {}
        for kind, value in values.items():
            row = rows.get(kind)
            before = row.value if row else None
            if before == value:
                continue
            changes[str(kind)] = f"{_text(before)} → {_text(value)}"
            if value is None:
                CapacityThreshold.objects.filter(cluster=cluster, kind=kind).delete()
            else:
                CapacityThreshold.objects.update_or_create(cluster=cluster, kind=kind, defaults={"value": value})
        if changes:
            CapacityForecast.objects.filter(cluster=cluster).update(due_at=clock.now())
            append(
                actor=actor.get_username(), action="capacity.thresholds_changed", subject=cluster.name, detail=changes
            )


def _text(value: int | None) -> str:
    return "(empty)" if value is None else str(value)
