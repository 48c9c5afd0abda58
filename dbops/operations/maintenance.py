"""Maintenance of a cluster: an interval in which no rebuild of it may start."""

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.lifecycle.availability_rollups import recount
from dbops.models import Cluster, Maintenance
from dbops.operations.audit import says_why
from dbops.security.permissions import require_operator

#: A time typed as "now" has passed when it arrives here.
PAST_SECONDS = 120
#: What is marked afterwards is no longer than this: a longer one is a slip of the pen.
LONGEST_MARK = timedelta(days=31)


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
    problems: dict[str, str] = {}
    if not says_why(reason):
        problems["no_reason"] = "no reason was given"
    if starts_at < now - timedelta(seconds=PAST_SECONDS):
        problems["starts_in_past"] = "it would begin in the past"
    if ends_at is not None and ends_at <= max(starts_at, now):
        problems["ends_before_start"] = "it would end before it begins, or in the past"
    _refuse(problems, doing)
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
            raise Refused("maintenance.ended", doing, cause="it has ended")
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
    """Mark a time that has passed as planned: gaps of it stay what they were, and are told as planned, by whom and why.

    Raises:
        Refused: ``access.denied``, ``maintenance.invalid``.
    """
    doing = f"Marking a time of {cluster.name} as planned"
    require_operator(actor, doing)
    now = timezone.now()
    problems: dict[str, str] = {}
    if not says_why(reason):
        problems["no_reason"] = "no reason was given"
    if ends_at <= starts_at:
        problems["ends_before_start"] = "it would end before it begins"
    elif ends_at - starts_at > LONGEST_MARK:
        problems["too_long"] = f"it would be longer than {LONGEST_MARK.days} days"
    if ends_at > now:
        problems["ends_in_future"] = "it would end in the future: announce that on the cluster's page"
    _refuse(problems, doing)
    name = actor.get_username()
    with transaction.atomic():
        row = Maintenance.objects.create(
            cluster=cluster, starts_at=starts_at, ends_at=ends_at, reason=reason.strip(), created_by=name, marked_at=now
        )
        recount([cluster.pk], starts_at, now)
        _record_mark(name, "maintenance.marked", row)
    return row


def unmark_maintenance(*, actor: User, maintenance: Maintenance) -> None:
    """Take a mark back. That there was one stays in the audit log.

    Raises:
        Refused: ``access.denied``, or it is no mark, or was taken back already (``maintenance.ended``).
    """
    doing = f"Taking back a mark of {maintenance.cluster.name}"
    require_operator(actor, doing)
    now = timezone.now()
    with transaction.atomic():
        row = Maintenance.objects.select_for_update().filter(pk=maintenance.pk, marked_at__isnull=False).first()
        if row is None:
            raise Refused(
                "maintenance.ended",
                doing,
                cause="the mark no longer exists",
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


def _refuse(problems: dict[str, str], doing: str) -> None:
    """Refuse where there are problems: texts by code."""
    if problems:
        refused = Refused(
            "maintenance.invalid",
            doing,
            cause="; ".join(problems.values()),
        )
        refused.told = {"problems": list(problems)}
        raise refused
