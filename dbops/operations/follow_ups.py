"""After a rebuild that did not succeed: go on with its copy, or go back to the old data."""

import secrets

from django.contrib.auth.models import User
from django.db import transaction

from dbops import lifecycle
from dbops.audit.log import append
from dbops.engine.audit.chain import digest
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.follow_ups import Ended, Offer, offer_put_back, offer_retry, plan_follow_up, remembered
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import is_target_known
from dbops.engine.states import Role, Status, StepState
from dbops.models import Instance, Rebuild
from dbops.operations.audit import refusals_recorded
from dbops.operations.rebuilds import check_words, write_once
from dbops.security.permissions import require_operator
from dbops.worker.connections import member_of
from dbops.worker.tasks import nudge

OFFERS = {"put-back": offer_put_back, "retry": offer_retry}
DOING = {"put-back": "Putting the old data of {} back", "retry": "Going on with the copy of {}"}


def ended(rebuild: Rebuild) -> Ended:
    """Return a rebuild as the engine judges it. Its steps are read."""
    states = {name: StepState(state) for name, state in rebuild.steps.values_list("name", "state")}
    return Ended(rebuild.uid, Status(rebuild.status), rebuild.memory, states)


def offers(rebuild: Rebuild) -> dict[str, Offer]:
    """Return what may follow a rebuild that has ended, and why not. Reads tables only."""
    if why := _overtaken(rebuild):
        return {name: Offer(name, False, why) for name in OFFERS}
    found = ended(rebuild)
    made = {name: offer(found) for name, offer in OFFERS.items()}
    if rebuild.sweep_due_at:
        made["retry"] = Offer("retry", False, "The source has not answered since it ended: nothing is known of it yet.")
    return made


def _overtaken(rebuild: Rebuild) -> str:
    """Say which newer rebuild has changed the target since: only the last one's data lies there."""
    newer = Rebuild.objects.filter(target=rebuild.target_id, pk__gt=rebuild.pk)
    for other in newer.order_by("-pk").only("status", "memory", "started_at"):
        if not other.is_final:
            return f"Rebuild {other.pk} of this instance is {other.status}."
        if has_worked(other):
            return f"Rebuild {other.pk} has worked on this instance since: look there."
    if rebuild.sweep_due_at and not is_target_known(rebuild.memory):
        return f"{rebuild.target.name} has not answered since it ended: nothing is known of it yet."
    if rebuild.target.role == Role.PRIMARY:
        return f"{rebuild.target.name} is a primary now."
    return ""


def follow_up_plan(rebuild: Rebuild, offer: Offer) -> Plan:
    """Return what a follow-up would do, with the primary that the inventory names today. Reads tables only."""
    rows = Instance.objects.select_related("host", "cluster", "state")
    primary = rows.filter(cluster=rebuild.target.cluster_id, role=Role.PRIMARY).first()
    return plan_follow_up(from_record(Plan, rebuild.plan), offer, member_of(primary).party() if primary else None)


def has_worked(rebuild: Rebuild) -> bool:
    """Tell whether a rebuild has changed its target: not one that the target's host refused before anything.

    One that never started has its memory from the one that it was to follow.
    """
    return bool(rebuild.started_at and rebuild.memory.get("touched") and not rebuild.memory.get("refused"))


def request_follow_up(
    *, actor: User, rebuild: Rebuild, method: str, typed_name: str, reason: str, request_key: str
) -> Rebuild:
    """Queue a retry or a going back. Its own steps look at the host again before they change anything.

    Args:
        actor: must be an operator.
        rebuild: the one that did not succeed.
        method: ``put-back`` or ``retry``.
        typed_name: what the person typed; it must be the target's name.
        reason: why, for the record.
        request_key: unique to the form: the second click of the same form returns the same rebuild.

    Raises:
        Refused: ``access.denied``, ``rebuild.name``, ``rebuild.reason``, ``rebuild.busy``, or it is not possible
            (``rebuild.no_follow_up``).
    """
    target = rebuild.target
    doing = DOING[method].format(target.name)
    with refusals_recorded(
        actor=actor.get_username(),
        action="rebuild.refused",
        subject=target.name,
        reason=reason.strip(),
        follows=rebuild.pk,
        method=method,
    ):
        require_operator(actor, doing)
        if existing := Rebuild.objects.filter(request_key=request_key).first():
            return existing
        check_words(doing, target, typed_name, reason)
        return write_once(request_key, lambda: _write(actor, rebuild, method, reason.strip(), request_key))


def _write(actor: User, rebuild: Rebuild, method: str, reason: str, request_key: str) -> Rebuild:
    target = rebuild.target
    with transaction.atomic():
        offer = offers(rebuild)[method]
        if not offer.is_possible:
            raise Refused(
                "rebuild.no_follow_up",
                DOING[method].format(target.name),
                found=offer.reason,
                left="Nothing was changed on any host.",
                next_step="Look at the instance, and plan a new rebuild.",
            )
        following = lifecycle.queue(
            plan=follow_up_plan(rebuild, offer),
            uid=secrets.token_hex(8),
            request_key=request_key,
            actor=actor,
            reason=reason,
            target=target,
            source=rebuild.source,
            follows=rebuild,
            memory=remembered(ended(rebuild)),
            skips=offer.skips,
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
                "why": offer.reason,
            },
        )
        nudge()
    return following


def call_off_retry(*, actor: User, rebuild: Rebuild) -> None:
    """Leave to people what a shared read went on without.

    Raises:
        Refused: ``access.denied``, or it is not going to be rebuilt by itself, or is in the queue already (``retry.not_coming``).
    """
    doing = f"Keeping {rebuild.target.name} from being rebuilt again by itself"
    require_operator(actor, doing)
    name = actor.get_username()
    with transaction.atomic():
        was_coming = lifecycle.end_retry(rebuild)
        if was_coming:
            lifecycle.tell_retry(
                rebuild, f"{rebuild.target.name} is not rebuilt again by itself: called off by {name}."
            )
            append(
                actor=name,
                action="rebuild.retry_called_off",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk},
            )
    rebuild.refresh_from_db()
    if was_coming:
        return
    queued = Rebuild.objects.filter(follows=rebuild).order_by("-pk").values_list("pk", flat=True).first()
    raise Refused(
        "retry.not_coming",
        doing,
        found=f"rebuild {queued} does it" if queued else "nothing of that kind is to come",
        left="Nothing was changed.",
        next_step="Cancel that one if it is not wanted." if queued else "Look at the rebuild's page.",
    )
