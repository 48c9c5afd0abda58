"""Approve or decline a rebuild, or override its approval."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append, current_origin
from dbops.engine.access.approval_rules import ApprovalRule, is_same, person
from dbops.engine.access.roles import Action
from dbops.engine.errors import Refused
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.states import Approval
from dbops.lifecycle import approvals
from dbops.messaging.wakeups import nudge
from dbops.models import AuditEntry, Rebuild
from dbops.operations.audit import NO_REASON, refusals_recorded, says_why
from dbops.security.permissions import is_allowed, people_who_may, require


def _operation(decision: Approval, number: int) -> Phrase:
    if decision is Approval.APPROVED:
        return phrase("Approving rebuild {number}", number=number)
    if decision is Approval.DECLINED:
        return phrase("Declining rebuild {number}", number=number)
    return phrase("Starting rebuild {number} without approval", number=number)


def rule_of(rebuild: Rebuild) -> ApprovalRule:
    """Return the rule by which a rebuild is approved: that of its cluster when it was requested."""
    return ApprovalRule(rebuild.approval_count, rebuild.approvers_only)


def who_may_approve(rebuild: Rebuild) -> list[str]:
    """Return who can still approve a rebuild: not its requester, and no person twice. Accounts without a login yet, too. Four queries."""
    done = {rebuild.requested_by_id, *rebuild.approvals.values_list("user", flat=True)}
    found = people_who_may(rule_of(rebuild).action, rebuild.target.cluster_id)
    return [name for key, name in found if key not in done and not is_same(person(name), _requester(rebuild))]


def may_approve(actor: User, rebuild: Rebuild) -> bool:
    """Whether the rules of the rebuild's cluster let an account approve. Its own request and earlier approvals do not count here."""
    return is_allowed(actor, rule_of(rebuild).action, rebuild.target.cluster_id)


def may_decide(actor: User, rebuild: Rebuild) -> bool:
    """Whether an account can approve or decline a rebuild that waits for it: by the rules, not its own, and not twice. Two queries."""
    return not is_own(actor, rebuild) and not _earlier(actor, rebuild) and may_approve(actor, rebuild)


def is_own(actor: User, rebuild: Rebuild) -> bool:
    """Whether the account requested the rebuild, or the same person did by another way."""
    me = person(actor.get_username(), current_origin().logins)
    return rebuild.requested_by_id == actor.pk or is_same(me, _requester(rebuild))


def approve_rebuild(*, actor: User, rebuild: Rebuild, reason: str = "") -> None:
    """Approve a rebuild that another person requested. With the last wanted approval it can start; its plan is checked again then.

    Raises:
        Refused: ``access.denied``, it is the actor's own (``approval.own``), the actor has approved it (``approval.twice``), or it does
            not wait for approval (``approval.not_waiting``).
    """
    _decide(actor, rebuild, Approval.APPROVED, reason.strip())


def decline_rebuild(*, actor: User, rebuild: Rebuild, reason: str) -> None:
    """Decline another person's rebuild, which ends before its start. Raises as ``approve_rebuild``, and ``rebuild.reason``."""
    _decide(actor, rebuild, Approval.DECLINED, reason.strip())


def override_approval(*, actor: User, rebuild: Rebuild, reason: str) -> None:
    """Start a rebuild without approval in an emergency; its requester can do this too. Listed among the overrides.

    Raises:
        Refused: ``access.denied``, no reason (``rebuild.reason``), or it does not wait for approval (``approval.not_waiting``).
    """
    _decide(actor, rebuild, Approval.OVERRIDDEN, reason.strip())


def _decide(actor: User, rebuild: Rebuild, decision: Approval, reason: str) -> None:
    operation, name = _operation(decision, rebuild.pk), actor.get_username()
    with refusals_recorded(
        actor=name,
        action="approval.refused",
        subject=rebuild.target.name,
        reason=reason,
        instance=rebuild.target.name,
        rebuild=rebuild.pk,
        wanted=decision.value,
    ):
        action = Action.OPERATE if decision is Approval.OVERRIDDEN else rule_of(rebuild).action
        require(actor, action, operation, rebuild.target.cluster_id)
        if decision is not Approval.OVERRIDDEN:
            _require_another_person(actor, rebuild, operation)
        if decision is not Approval.APPROVED and not says_why(reason):
            raise Refused.unchanged("rebuild.reason", operation, NO_REASON)
        with transaction.atomic():
            decided = _write(actor, rebuild, decision, reason, operation)
            if decided:
                nudge()
        rebuild.refresh_from_db()
        if not decided:
            of = {"status": rebuild.status, "approval": rebuild.approval, "by": rebuild.approval_by}
            said = phrase("it is {status}, {approval} by {by}", **of)
            if not rebuild.approval_by:
                said = phrase("it is {status}", status=rebuild.status)
            raise Refused.unchanged("approval.not_waiting", operation, said)


def _requester(rebuild: Rebuild) -> frozenset[str]:
    return person(rebuild.requested_by.get_username(), rebuild.requested_login.split())


def _require_another_person(actor: User, rebuild: Rebuild, operation: str) -> None:
    """Refuse a decision of the requester, whichever account or command it comes from."""
    if is_own(actor, rebuild):
        same_account = phrase("this is your own request")
        same_person = phrase("the request came from the same person, by another way")
        cause = same_account if rebuild.requested_by_id == actor.pk else same_person
        raise Refused.unchanged("approval.own", operation, cause)


def _earlier(actor: User, row: Rebuild) -> str:
    """Return the account under which the actor has approved the rebuild, whichever account or command it was; ``""`` if none."""
    me = person(actor.get_username(), current_origin().logins)
    for one in row.approvals.select_related("user"):
        if one.user_id == actor.pk or is_same(me, person(one.user.get_username(), one.login.split())):
            return one.user.get_username()
    return ""


def _require_first_time(actor: User, row: Rebuild, operation: str) -> None:
    """Refuse a second approval of one person."""
    if earlier := _earlier(actor, row):
        raise Refused.unchanged("approval.twice", operation, phrase("{user} has approved it", user=earlier))


def _write(actor: User, rebuild: Rebuild, decision: Approval, reason: str, operation: str) -> bool:
    """Write a decision with its audit entry. Return whether the rebuild was still waiting."""
    name = actor.get_username()
    if decision is not Approval.APPROVED:
        decided = approvals.decide(rebuild, decision, name, reason)
        if decided and decision is Approval.OVERRIDDEN:
            _record(rebuild, decision, name, reason, 0)
        return decided
    row = approvals.lock_waiting(rebuild)
    if row is None:
        return False
    _require_first_time(actor, row, operation)
    number = approvals.add_approval(row, actor, login=" ".join(current_origin().logins), reason=reason)
    _record(rebuild, decision, name, reason, number)
    return True


def _record(rebuild: Rebuild, decision: Approval, name: str, reason: str, number: int) -> None:
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
            **({"approvals": f"{number} of {rebuild.approval_count}"} if rebuild.approval_count > 1 else {}),
            **({"ticket": rebuild.ticket} if rebuild.ticket else {}),
            **({"login": " ".join(logins)} if (logins := current_origin().logins) else {}),
        },
    )


def _requested_from(rebuild: Rebuild) -> str:
    """Return the address from which a rebuild was requested; ``""`` from a command line."""
    name = rebuild.target.name
    requests = AuditEntry.objects.filter(action="rebuild.requested", subject=name, at__gte=rebuild.requested_at)
    found = (entry.address for entry in requests if entry.detail.get("rebuild") == rebuild.pk)
    return next(found, "")
