"""Request a follow-up of an unsuccessful rebuild: resume or roll back."""

import secrets

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append, current_origin
from dbops.engine.audit.chain import digest
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import FOLLOW_UPS
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.rebuilds.follow_ups import ROLLBACK, FollowUpOption, plan_follow_up, remembered
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Role
from dbops.lifecycle import rebuild_requests
from dbops.loaders.members import member_of
from dbops.messaging.wakeups import nudge
from dbops.models import Instance, Rebuild
from dbops.operations.audit import refusals_recorded
from dbops.operations.confirmation import check_confirmation, check_ticket
from dbops.operations.follow_up_options import ended, follow_up_options
from dbops.operations.rebuilds import write_once
from dbops.security.permissions import require_operator


def _operation(method: str, name: str) -> Phrase:
    if method == ROLLBACK:
        return phrase("Rolling back {name}", name=name)
    return phrase("Resuming the copy of {name}", name=name)


def follow_up_plan(rebuild: Rebuild, option: FollowUpOption) -> Plan:
    """Return the plan of a follow-up, with the current primary of the inventory. Reads tables only."""
    rows = Instance.objects.select_related("host", "cluster", "state")
    primary = rows.filter(cluster=rebuild.target.cluster_id, role=Role.PRIMARY).first()
    steps, party = FOLLOW_UPS[option.method].steps, member_of(primary).party() if primary else None
    return plan_follow_up(from_record(Plan, rebuild.plan), option, steps, party)


def request_follow_up(
    *, actor: User, rebuild: Rebuild, method: str, typed_name: str, reason: str, request_key: str, ticket: str = ""
) -> Rebuild:
    """Queue a resume or rollback. Its own steps check the host again before they change anything.

    Args:
        actor: must be an operator.
        rebuild: the unsuccessful rebuild.
        method: ``rollback`` or ``resume``.
        typed_name: the person's input, which must be the target's name.
        reason: for the audit log.
        request_key: unique to the form: the second click of the same form returns the same rebuild.
        ticket: number of the change ticket, which the target's cluster can require.

    Raises:
        Refused: ``access.denied``, ``rebuild.name``, ``rebuild.reason``, ``rebuild.ticket``, ``rebuild.busy``, or it is not possible
            (``rebuild.no_follow_up``).
    """
    target = rebuild.target
    operation = _operation(method, target.name)
    with refusals_recorded(
        actor=actor.get_username(),
        action="rebuild.refused",
        subject=target.name,
        reason=reason.strip(),
        follows=rebuild.pk,
        method=method,
    ):
        for cluster in {target.cluster_id, rebuild.source.cluster_id}:
            require_operator(actor, operation, cluster)
        if existing := Rebuild.objects.filter(request_key=request_key).first():
            return existing
        check_confirmation(operation, target, typed_name, reason)
        check_ticket(operation, target, ticket)
        return write_once(request_key, lambda: _write(actor, rebuild, method, reason.strip(), request_key, ticket))


def _write(actor: User, rebuild: Rebuild, method: str, reason: str, request_key: str, ticket: str) -> Rebuild:
    target = rebuild.target
    with transaction.atomic():
        option = follow_up_options(rebuild)[method]
        if not option.is_possible:
            raise Refused(
                "rebuild.no_follow_up",
                _operation(method, target.name),
                cause=option.reason,
            )
        following = rebuild_requests.queue(
            plan=follow_up_plan(rebuild, option),
            uid=secrets.token_hex(8),
            request_key=request_key,
            actor=actor,
            reason=reason,
            target=target,
            source=rebuild.source,
            follows=rebuild,
            checkpoint=remembered(ended(rebuild)),
            skips=option.skips,
            terms=rebuild_requests.RequestTerms(ticket=ticket, logins=current_origin().logins),
        )
        append(
            actor=actor.get_username(),
            action=f"rebuild.{method.replace('-', '_')}_requested",
            subject=target.name,
            reason=reason,
            detail={
                "rebuild": following.pk,
                "follows": rebuild.pk,
                "plan_sha256": digest(following.plan),
                "why": option.reason,
                **({"ticket": ticket} if ticket else {}),
            },
        )
        nudge()
    return following
