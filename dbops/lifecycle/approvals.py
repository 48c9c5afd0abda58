"""Record the decisions of other people on a queued rebuild. Of two simultaneous decisions, a conditional update accepts one."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.states import Approval, Level, Status
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.rebuild_requests import end_queued
from dbops.models import Rebuild, RebuildApproval

WORDS = {
    Approval.APPROVED: lambda by: phrase("Approved by {by}", by=by),
    Approval.DECLINED: lambda by: phrase("Declined by {by}", by=by),
    Approval.OVERRIDDEN: lambda by: phrase("Started without approval by {by}", by=by),
}


def lock_waiting(rebuild: Rebuild) -> Rebuild | None:
    """Lock a rebuild for the caller's transaction. Return it as it is now, ``None`` if it no longer waits for approval."""
    row = Rebuild.objects.select_for_update().defer("plan", "checkpoint").filter(pk=rebuild.pk).first()
    return row if row and (row.status, row.approval) == (Status.QUEUED, Approval.WAITING) else None


def add_approval(row: Rebuild, user: User, *, login: str, reason: str) -> int:
    """Record one person's approval of a locked rebuild, and start it with the last one. Return how many there are."""
    RebuildApproval.objects.create(rebuild=row, user=user, login=login, reason=reason, at=clock.now())
    given = list(row.approvals.select_related("user"))
    if len(given) >= row.approval_count:
        decide(row, Approval.APPROVED, ", ".join(one.user.get_username() for one in given), reason)
    else:
        text = phrase(
            "Approved by {by} ({count} of {needed})",
            by=user.get_username(),
            count=len(given),
            needed=row.approval_count,
        )
        log_event(row, _with_reason(text, reason), level=Level.INFO)
        Rebuild.objects.filter(pk=row.pk).update(revision=F("revision") + 1)
        announce_later(row.pk)
    return len(given)


def decide(rebuild: Rebuild, decision: Approval, by: str, reason: str) -> bool:
    """Write a decision on a rebuild that waits for approval. A declined rebuild ends. Return whether it was still waiting.

    The caller's transaction ends with the audit entry; this function writes that of a decline.
    """
    text = _with_reason(WORDS[decision](by), reason)
    with transaction.atomic():
        waiting = locked(Rebuild, rebuild.pk).filter(status=Status.QUEUED, approval=Approval.WAITING)
        decided = waiting.update(
            approval=decision,
            approval_by=by,
            approval_at=clock.now(),
            approval_reason=reason,
            waiting_for="",
            revision=F("revision") + 1,
        )
        if not decided:
            return False
        if decision is Approval.DECLINED:
            end_queued(rebuild, Status.CANCELLED, text, by=by, word="declined", reason=reason)
        else:
            log_event(rebuild, text, level=Level.WARNING if decision is Approval.OVERRIDDEN else Level.INFO)
    announce_later(rebuild.pk)
    return True


def _with_reason(text: Phrase, reason: str) -> Phrase:
    return phrase("{text}: {reason}", text=text, reason=reason) if reason else phrase("{text}.", text=text)
