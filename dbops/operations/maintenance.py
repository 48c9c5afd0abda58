"""Operations on maintenance of a cluster, during which none of its rebuilds starts."""

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.lifecycle.availability_rollups import recount
from dbops.models import Cluster, Maintenance
from dbops.operations.audit import NO_REASON, says_why
from dbops.security.permissions import require_operator

#: Tolerance for a start time of "now" that has passed on arrival.
PAST_SECONDS = 120
#: Longest maintenance that can be marked afterwards; a longer one is probably a typing error.
LONGEST_MARK = timedelta(days=31)


def begin_maintenance(
    *, actor: User, cluster: Cluster, starts_at: datetime, ends_at: datetime | None, reason: str
) -> Maintenance:
    """Announce maintenance until a time, or (``None``) until a person ends it. Running jobs continue.

    Raises:
        Refused: ``access.denied``, ``maintenance.invalid``.
    """
    operation = phrase("Announcing maintenance of {cluster}", cluster=cluster.name)
    require_operator(actor, operation, cluster.pk)
    now = clock.now()
    problems: dict[str, str] = {}
    if not says_why(reason):
        problems["no_reason"] = NO_REASON
    if starts_at < now - timedelta(seconds=PAST_SECONDS):
        problems["starts_in_past"] = phrase("the start is in the past")
    if ends_at is not None and ends_at <= max(starts_at, now):
        problems["ends_before_start"] = phrase("the end is in the past or before the start")
    _refuse(problems, operation)
    name = actor.get_username()
    with transaction.atomic():
        row = Maintenance.objects.create(
            cluster=cluster, starts_at=starts_at, ends_at=ends_at, reason=reason.strip(), created_by=name
        )
        recount([cluster.pk], starts_at, now)
        append(
            actor=name,
            action="maintenance.announced",
            subject=cluster.name,
            reason=row.reason,
            detail={
                "starts_at": starts_at.isoformat(timespec="minutes"),
                "ends_at": ends_at.isoformat(timespec="minutes") if ends_at else "open",
            },
        )
    return row


def end_maintenance(*, actor: User, maintenance: Maintenance) -> None:
    """End running maintenance now, or withdraw future maintenance.

    Raises:
        Refused: ``access.denied``, or the maintenance has ended (``maintenance.ended``).
    """
    cluster = maintenance.cluster
    operation = phrase("Ending maintenance of {cluster}", cluster=cluster.name)
    require_operator(actor, operation, cluster.pk)
    now = clock.now()
    with transaction.atomic():
        row = Maintenance.objects.select_for_update().filter(pk=maintenance.pk).first()
        if row is None or (row.ends_at is not None and row.ends_at <= now):
            raise Refused("maintenance.ended", operation, cause=phrase("the maintenance has ended"))
        has_begun = row.starts_at < now
        if has_begun:
            row.ends_at = now
            row.save(update_fields=["ends_at"])
        else:
            row.delete()
        append(
            actor=actor.get_username(),
            action="maintenance.ended" if has_begun else "maintenance.withdrawn",
            subject=cluster.name,
            reason=maintenance.reason,
        )


def mark_maintenance(
    *, actor: User, cluster: Cluster, starts_at: datetime, ends_at: datetime, reason: str
) -> Maintenance:
    """Mark past maintenance as planned. Its gaps stay, labelled with name and reason.

    Raises:
        Refused: ``access.denied``, ``maintenance.invalid``.
    """
    operation = phrase("Marking past maintenance of {cluster} as planned", cluster=cluster.name)
    require_operator(actor, operation, cluster.pk)
    now = clock.now()
    problems: dict[str, str] = {}
    if not says_why(reason):
        problems["no_reason"] = NO_REASON
    if ends_at <= starts_at:
        problems["ends_before_start"] = phrase("the end is before the start")
    elif ends_at - starts_at > LONGEST_MARK:
        problems["too_long"] = phrase("the maintenance is longer than {days} days", days=LONGEST_MARK.days)
    if ends_at > now:
        problems["ends_in_future"] = phrase("the end is in the future; announce future maintenance on the cluster page")
    _refuse(problems, operation)
    name = actor.get_username()
    with transaction.atomic():
        row = Maintenance.objects.create(
            cluster=cluster, starts_at=starts_at, ends_at=ends_at, reason=reason.strip(), created_by=name, marked_at=now
        )
        recount([cluster.pk], starts_at, now)
        _record_mark(name, "maintenance.marked", row)
    return row


def unmark_maintenance(*, actor: User, maintenance: Maintenance) -> None:
    """Remove a mark of planned maintenance. The audit log keeps both entries.

    Raises:
        Refused: ``access.denied``, or the mark was removed (``maintenance.ended``).
    """
    operation = phrase("Removing a maintenance mark of {cluster}", cluster=maintenance.cluster.name)
    require_operator(actor, operation, maintenance.cluster_id)
    now = clock.now()
    with transaction.atomic():
        row = Maintenance.objects.select_for_update().filter(pk=maintenance.pk, marked_at__isnull=False).first()
        if row is None:
            raise Refused(
                "maintenance.ended",
                operation,
                cause=phrase("the mark was removed"),
            )
        recount([row.cluster_id], row.starts_at, now)
        _record_mark(actor.get_username(), "maintenance.unmarked", row)
        row.delete()


def _record_mark(name: str, action: str, row: Maintenance) -> None:
    append(
        actor=name,
        action=action,
        subject=row.cluster.name,
        reason=row.reason,
        detail={
            "starts_at": row.starts_at.isoformat(timespec="minutes"),
            "ends_at": row.ends_at.isoformat(timespec="minutes") if row.ends_at else "open",
        },
    )


def _refuse(problems: dict[str, str], operation: str) -> None:
    """Raise a refusal if there are problems (texts by code)."""
    if problems:
        refused = Refused(
            "maintenance.invalid",
            operation,
            cause=joined(problems.values(), "; "),
        )
        refused.audit_detail = {"problems": list(problems)}
        raise refused
