"""Plan and request rebuilds of several replicas from one read of their source."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User

from dbops.engine.errors import Refused
from dbops.engine.methods import shareable
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.copy.shared_read import why_not_shared
from dbops.models import Instance, Rebuild
from dbops.operations.audit import refusals_recorded
from dbops.operations.confirmation import check_confirmation, check_plan, check_ticket
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.operations.shared_reads import tools_of
from dbops.security.permissions import require_operator


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """One of several targets. ``plan`` is ``None`` if no plan is possible: ``refused`` has the reason.

    ``problem`` is why it cannot share the read of the first target; ``""`` if it can or is the first.
    """

    target: Instance
    plan: Plan | None
    refused: Refused | None = None
    problem: str = ""

    @property
    def is_possible(self) -> bool:
        return self.plan is not None and self.plan.is_possible and not self.problem


@dataclass(frozen=True, slots=True)
class ConfirmedTarget:
    """One confirmed target: the typed name, and the plan that the person saw."""

    target: Instance
    typed_name: str
    fingerprint: str


def plan_group(targets: Sequence[Instance], source: Instance) -> list[GroupTarget]:
    """Return the current plan of each rebuild, and whether they can share one read. Writes nothing, contacts no host."""
    found = [_planned(target, source) for target in targets]
    first = next((one.plan for one in found if one.plan), None)
    tools = tools_of(source) if found else ()
    return [
        one
        if one.plan is None or first is None
        else GroupTarget(one.target, one.plan, problem=why_not_shared(one.plan, first, tools, shareable()))
        for one in found
    ]


def _planned(target: Instance, source: Instance) -> GroupTarget:
    try:
        return GroupTarget(target, plan_rebuild(target=target, source=source))
    except Refused as error:
        return GroupTarget(target, None, refused=error)


def request_group(
    *,
    actor: User,
    source: Instance,
    confirmed: Sequence[ConfirmedTarget],
    reason: str,
    request_key: str,
    ticket: str = "",
) -> list[Rebuild]:
    """Confirm several plans: the first rebuild leads, the others follow. All are checked before the first is written.

    Args:
        actor: must be an operator.
        confirmed: at least one.
        reason: for the audit log of each.
        request_key: unique to the form: the second click returns the same rebuilds.
        ticket: number of the change ticket of all.

    Raises:
        Refused: as ``request_rebuild``. Rebuilds before the refused one stay queued; that happens only after a change between
            checks and request.
    """
    keys = [str(uuid.uuid5(uuid.UUID(request_key), one.target.name)) for one in confirmed]
    if not Rebuild.objects.filter(request_key__in=keys).exists():
        for one in confirmed:
            _check(actor, source, one, reason, ticket)
    rebuilds: list[Rebuild] = []
    for one, key in zip(confirmed, keys, strict=True):
        rebuilds.append(
            request_rebuild(
                actor=actor,
                target=one.target,
                source=source,
                typed_name=one.typed_name,
                reason=reason,
                fingerprint=one.fingerprint,
                request_key=key,
                joins=rebuilds[0] if rebuilds else None,
                ticket=ticket,
            )
        )
    return rebuilds


def _check(actor: User, source: Instance, one: ConfirmedTarget, reason: str, ticket: str) -> None:
    operation = phrase("Requesting a rebuild of {target}", target=one.target.name)
    with refusals_recorded(
        actor=actor.get_username(),
        action="rebuild.refused",
        subject=one.target.name,
        reason=reason.strip(),
        source=source.name,
        fingerprint=one.fingerprint,
    ):
        require_operator(actor, operation, one.target.cluster_id)
        check_confirmation(operation, one.target, one.typed_name, reason)
        check_ticket(operation, one.target, ticket)
        check_plan(operation, plan_rebuild(target=one.target, source=source), one.fingerprint)
