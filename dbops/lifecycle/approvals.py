"""Record the approval decision of a second person on a queued rebuild. Of two simultaneous decisions, a conditional update accepts
one.
"""

from django.db import transaction
from django.db.models import F

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.states import Approval, Level, Status
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.rebuild_requests import end_queued
from dbops.models import Rebuild

WORDS = {
    Approval.APPROVED: "Approved by {}",
    Approval.DECLINED: "Declined by {}",
    Approval.OVERRIDDEN: "Started without approval by {}",
}


def decide(rebuild: Rebuild, decision: Approval, by: str, reason: str) -> bool:
    """Write a decision on a rebuild that waits for approval. A declined rebuild ends. Return whether it was still waiting.

    The caller's transaction ends with the audit entry; this function writes that of a decline.
    """
    text = WORDS[decision].format(by) + (f": {reason}" if reason else ".")
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
