"""Approve or decline a rebuild, or override its approval."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append, current_origin
from dbops.engine.errors import Refused
from dbops.engine.states import Approval
from dbops.lifecycle import approvals
from dbops.messaging.wakeups import nudge
from dbops.models import AuditEntry, Rebuild
from dbops.operations.audit import NO_REASON, refusals_recorded, says_why
from dbops.security.permissions import operators, require_operator

OPERATION = {
    Approval.APPROVED: "Approving rebuild {}",
    Approval.DECLINED: "Declining rebuild {}",
    Approval.OVERRIDDEN: "Starting rebuild {} without approval",
}


def who_may_approve(rebuild: Rebuild) -> list[str]:
    """Return the operators who can approve a rebuild: all except its requester. One query."""
    return [name for key, name in operators() if key != rebuild.requested_by_id]


def approve_rebuild(*, actor: User, rebuild: Rebuild, reason: str = "") -> None:
    """Approve a rebuild that another operator requested. Its plan is checked again at its start.

    Raises:
        Refused: ``access.denied``, it is the actor's own (``approval.own``), or it does not wait for approval
            (``approval.not_waiting``).
    """
    _decide(actor, rebuild, Approval.APPROVED, reason.strip())


def decline_rebuild(*, actor: User, rebuild: Rebuild, reason: str) -> None:
    """Decline another operator's rebuild, which ends before its start. Raises as ``approve_rebuild``, and ``rebuild.reason``."""
    _decide(actor, rebuild, Approval.DECLINED, reason.strip())


def override_approval(*, actor: User, rebuild: Rebuild, reason: str) -> None:
    """Start a rebuild without approval in an emergency; its requester can do this too. Listed among the overrides.

    Raises:
        Refused: ``access.denied``, no reason (``rebuild.reason``), or it does not wait for approval (``approval.not_waiting``).
    """
    _decide(actor, rebuild, Approval.OVERRIDDEN, reason.strip())


def _decide(actor: User, rebuild: Rebuild, decision: Approval, reason: str) -> None:
    operation, name = OPERATION[decision].format(rebuild.pk), actor.get_username()
    with refusals_recorded(
        actor=name,
        action="approval.refused",
        subject=rebuild.target.name,
        reason=reason,
        instance=rebuild.target.name,
        rebuild=rebuild.pk,
        wanted=decision.value,
    ):
        require_operator(actor, operation)
        if decision is not Approval.OVERRIDDEN and rebuild.requested_by_id == actor.pk:
            found = "this is your own request"
            raise Refused.unchanged("approval.own", operation, found)
        if decision is not Approval.APPROVED and not says_why(reason):
            raise Refused.unchanged("rebuild.reason", operation, NO_REASON)
        with transaction.atomic():
            decided = approvals.decide(rebuild, decision, name, reason)
            if decided and decision is not Approval.DECLINED:
                _record(rebuild, decision, name, reason)
            if decided:
                nudge()
        rebuild.refresh_from_db()
        if not decided:
            said = f", {rebuild.approval} by {rebuild.approval_by}" if rebuild.approval_by else ""
            raise Refused.unchanged("approval.not_waiting", operation, f"it is {rebuild.status}{said}")


def _record(rebuild: Rebuild, decision: Approval, name: str, reason: str) -> None:
    address = current_origin().address
    if decision is Approval.APPROVED and address and address == _requested_from(rebuild):
        # Two people may share an office's address, and one person may have two accounts.
        append(
            actor=name,
            action="override.approved_from_same_address",
            subject=rebuild.target.name,
            instance=rebuild.target.name,
            detail={"rebuild": rebuild.pk, "requested_by": rebuild.requested_by.get_username()},
        )
    append(
        actor=name,
        action="override.approval" if decision is Approval.OVERRIDDEN else "rebuild.approved",
        subject=rebuild.target.name,
        instance=rebuild.target.name,
        reason=reason,
        detail={
            "rebuild": rebuild.pk,
            "fingerprint": rebuild.plan_fingerprint,
            "requested_by": rebuild.requested_by.get_username(),
        },
    )


def _requested_from(rebuild: Rebuild) -> str:
    """Return the address from which a rebuild was requested; ``""`` from a command line."""
    name = rebuild.target.name
    requests = AuditEntry.objects.filter(action="rebuild.requested", subject=name, at__gte=rebuild.requested_at)
    found = (entry.address for entry in requests if entry.detail.get("rebuild") == rebuild.pk)
    return next(found, "")
