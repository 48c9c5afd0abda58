"""Check what a person confirms: the typed name, the reason, the change ticket, and the plan that they saw."""

from dbops.engine.access.tickets import ticket_problem
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.models import Cluster, Instance
from dbops.operations.audit import NO_REASON, says_why


def check_confirmation(operation: str, target: Instance, typed_name: str, reason: str) -> None:
    """Refuse unless the person typed the target's name and a reason (``rebuild.name``, ``rebuild.reason``)."""
    if typed_name != target.name:
        found = phrase(
            "the entered name is {typed_name}, the target is {target}",
            typed_name=f"{typed_name!r}",
            target=f"{target.name!r}",
        )
        raise Refused.unchanged("rebuild.name", operation, found)
    if not says_why(reason):
        raise Refused.unchanged("rebuild.reason", operation, NO_REASON)


def check_ticket(operation: str, target: Instance, ticket: str) -> None:
    """Refuse unless the change ticket matches the pattern of the target's cluster (``rebuild.ticket``)."""
    pattern = Cluster.objects.values_list("ticket_pattern", flat=True).get(pk=target.cluster_id)
    if problem := ticket_problem(ticket, pattern):
        next_step = (
            phrase("Enter a ticket that matches {pattern}.", pattern=pattern)
            if pattern
            else phrase("Enter the number alone, or no ticket.")
        )
        raise Refused.unchanged("rebuild.ticket", operation, problem, next_step=next_step)


def check_plan(operation: str, plan: Plan, fingerprint: str) -> None:
    """Refuse unless a plan is possible and matches the plan that the person saw (``plan.refused``, ``plan.stale``)."""
    if plan.refusals:
        seen = joined(
            (phrase("{title}: {seen}", title=finding.title, seen=finding.seen) for finding in plan.refusals), "; "
        )
        refused = Refused.unchanged("plan.refused", operation, seen)
        refused.audit_detail = {"findings": [finding.code for finding in plan.refusals]}
        raise refused
    if plan.fingerprint != fingerprint:
        found = phrase("the plan changed after it was shown")
        stale = Refused.unchanged("plan.stale", operation, found)
        stale.audit_detail = {"fingerprint_now": plan.fingerprint}
        raise stale
