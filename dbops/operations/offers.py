"""What may follow a rebuild that did not succeed, from its rows, and with which choices it is planned again."""

import re
from dataclasses import dataclass

from dbops.engine.errors import Refused
from dbops.engine.rebuilds.follow_ups import (
    RESUME,
    ROLLBACK,
    EndedRebuild,
    FollowUpOption,
    half_copy_of,
    offer_again,
    resume_option,
    rollback_option,
)
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import is_target_known
from dbops.engine.states import Role, Status, StepState
from dbops.models import Instance, Rebuild

#: Follow-ups that use what the rebuild left on the target.
OFFERS = {ROLLBACK: rollback_option, RESUME: resume_option}
#: What a repeated reason begins with: once is enough.
AGAIN = re.compile(r"^(Rebuild \d+ again: )+")


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person chose for a rebuild, for the plan of the next one. ``rate`` is in bytes a second, ``None`` for no limit."""

    source: Instance
    method: str
    keep_old_data: bool
    rate: int | None
    reason: str


def choices_of(rebuild: Rebuild) -> Choices:
    """Return the choices of a rebuild, with a reason that names it. A follow-up has those of the rebuild that copied."""
    return Choices(
        source=rebuild.source,
        method=rebuild.plan.get("copied_by") or rebuild.method,
        keep_old_data=bool(rebuild.plan.get("keep_old_data")),
        rate=rebuild.stream_rate,
        reason=f"Rebuild {rebuild.pk} again: {AGAIN.sub('', rebuild.reason)}",
    )


def known_by_next(rebuild: Rebuild, plan: Plan, doing: str) -> dict[str, str]:
    """Return the memory with which the next rebuild of the same target begins.

    Raises:
        Refused: the rebuild cannot be planned again (``rebuild.no_follow_up``).
    """
    offer = offers(rebuild)["again"]
    if not offer.is_possible:
        raise Refused(
            "rebuild.no_follow_up",
            doing,
            cause=offer.reason,
        )
    return half_copy_of(ended(rebuild), plan.target)


def ended(rebuild: Rebuild) -> EndedRebuild:
    """Return a rebuild as the engine judges it. Its steps are read."""
    states = {name: StepState(state) for name, state in rebuild.steps.values_list("name", "state")}
    return EndedRebuild(rebuild.uid, Status(rebuild.status), rebuild.checkpoint, states)


def offers(rebuild: Rebuild) -> dict[str, FollowUpOption]:
    """Return what may follow a rebuild that has ended, and why not. Reads tables only."""
    if overtaken := _overtaken(rebuild):
        code, why = overtaken
        return {name: FollowUpOption(name, False, why, code=code) for name in (*OFFERS, "again")}
    found = ended(rebuild)
    made = {name: offer(found) for name, offer in OFFERS.items()} | {"again": offer_again(found)}
    if rebuild.sweep_due_at:
        why = "The source has not answered since it ended: nothing is known of it yet."
        made[RESUME] = FollowUpOption(RESUME, False, why, code="source_silent")
    return made


def _overtaken(rebuild: Rebuild) -> tuple[str, str] | None:
    """Return the code and the text of why nothing may follow: only the last rebuild's data is on the target."""
    newer = Rebuild.objects.filter(target=rebuild.target_id, pk__gt=rebuild.pk)
    for other in newer.order_by("-pk").only("status", "checkpoint", "started_at"):
        if not other.is_final:
            return "busy", f"Rebuild {other.pk} of this instance is {other.status}."
        if has_worked(other):
            return "overtaken", f"Rebuild {other.pk} has worked on this instance since: look there."
    if rebuild.sweep_due_at and not is_target_known(rebuild.checkpoint):
        return "target_silent", f"{rebuild.target.name} has not answered since it ended: nothing is known of it yet."
    if rebuild.target.role == Role.PRIMARY:
        return "primary", f"{rebuild.target.name} is a primary now."
    return None


def has_worked(rebuild: Rebuild) -> bool:
    """Tell whether a rebuild has changed its target: not one that the target's host refused before anything.

    One that never started has its memory from the one that it was to follow.
    """
    return bool(rebuild.started_at and rebuild.checkpoint.get("touched") and not rebuild.checkpoint.get("refused"))
