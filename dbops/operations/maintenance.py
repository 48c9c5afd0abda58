"""Maintenance of a cluster: an interval in which no rebuild of it may start."""

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dbops.access import require_operator
from dbops.engine.errors import Refused
from dbops.models import Cluster, Maintenance
from dbops.operations.audit import record, says_why

#: A time typed as "now" has passed when it arrives here.
PAST_SECONDS = 120


def begin_maintenance(
    *, actor: User, cluster: Cluster, starts_at: datetime, ends_at: datetime | None, reason: str
) -> Maintenance:
    """Announce maintenance, from now or from later, until a time or (``None``) until somebody ends it.

    What runs already goes on.

    Raises:
        Refused: ``access.denied``, ``maintenance.invalid``.
    """
    doing = f"Announcing maintenance of {cluster.name}"
    require_operator(actor, doing)
    now = timezone.now()
    problems = []
    if not says_why(reason):
        problems.append("no reason was given")
    if starts_at < now - timedelta(seconds=PAST_SECONDS):
        problems.append("it would begin in the past")
    if ends_at is not None and ends_at <= max(starts_at, now):
        problems.append("it would end before it begins, or in the past")
    if problems:
        raise Refused(
            "maintenance.invalid",
            doing,
            found="; ".join(problems),
            left="Nothing was changed.",
            next_step="Correct the times or say why, and send it again.",
        )
    name = actor.get_username()
    with transaction.atomic():
        row = Maintenance.objects.create(
            cluster=cluster, starts_at=starts_at, ends_at=ends_at, reason=reason.strip(), created_by=name
        )
        record(
            actor=name,
            action="maintenance.announced",
            subject=cluster.name,
            starts_at=starts_at.isoformat(timespec="minutes"),
            ends_at=ends_at.isoformat(timespec="minutes") if ends_at else "open",
            reason=row.reason,
        )
    return row


def end_maintenance(*, actor: User, maintenance: Maintenance) -> None:
    """End maintenance now; one that has not begun is taken back.

    Raises:
        Refused: ``access.denied``, or it has ended already (``maintenance.ended``).
    """
    cluster = maintenance.cluster
    doing = f"Ending maintenance of {cluster.name}"
    require_operator(actor, doing)
    now = timezone.now()
    with transaction.atomic():
        row = Maintenance.objects.select_for_update().filter(pk=maintenance.pk).first()
        if row is None or (row.ends_at is not None and row.ends_at <= now):
            raise Refused(
                "maintenance.ended", doing, found="it has ended", left="Nothing was changed.", next_step="Nothing."
            )
        has_begun = row.starts_at < now
        if has_begun:
            row.ends_at = now
            row.save(update_fields=["ends_at"])
        else:
            row.delete()
        record(
            actor=actor.get_username(),
            action="maintenance.ended" if has_begun else "maintenance.withdrawn",
            subject=cluster.name,
            reason=maintenance.reason,
        )
