"""Find the possible follow-ups of an unsuccessful rebuild, and the choices for rebuilding it again."""

import re
from dataclasses import dataclass

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.follow_ups import (
    RESUME,
    ROLLBACK,
    EndedRebuild,
    FollowUpOption,
    again_option,
    incomplete_copy_of,
    resume_option,
    rollback_option,
)
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import is_target_known
from dbops.engine.states import Role, Status, StepState
from dbops.models import Instance, Rebuild

#: Follow-ups that use the files that the rebuild left on the target.
OPTIONS = {ROLLBACK: rollback_option, RESUME: resume_option}
#: Prefix of a repeated reason: added only once.
AGAIN = re.compile(r"^(Rebuild \d+ again: )+")


@dataclass(frozen=True, slots=True)
class Choices:
    """A person's choices for a rebuild, for the plan of the next one. ``rate`` is in bytes a second, ``None`` for no limit."""

    source: Instance
    method: str
    keep_old_data: bool
    full_certificate: bool
    rate: int | None
    reason: str


def choices_of(rebuild: Rebuild) -> Choices:
    """Return the choices of a rebuild, with a reason that names it. A follow-up has the choices of the rebuild that copied."""
    return Choices(
        source=rebuild.source,
        method=rebuild.plan.get("copied_by") or rebuild.method,
        keep_old_data=bool(rebuild.plan.get("keep_old_data")),
        full_certificate=bool(rebuild.plan.get("full_certificate")),
        rate=rebuild.stream_rate,
        reason=phrase("Rebuild {rebuild} again: {sub}", rebuild=rebuild.pk, sub=AGAIN.sub("", rebuild.reason)),
    )


def initial_checkpoint(rebuild: Rebuild, plan: Plan, operation: str) -> dict[str, str]:
    """Return the initial checkpoint of the target's next rebuild.

    Raises:
        Refused: the rebuild cannot be repeated (``rebuild.no_follow_up``).
    """
    option = follow_up_options(rebuild)["again"]
    if not option.is_possible:
        raise Refused(
            "rebuild.no_follow_up",
            operation,
            cause=option.reason,
        )
    return incomplete_copy_of(ended(rebuild), plan.target)


def ended(rebuild: Rebuild) -> EndedRebuild:
    """Return a rebuild in the engine's form, with its steps."""
    states = {name: StepState(state) for name, state in rebuild.steps.values_list("name", "state")}
    target = (rebuild.plan or {}).get("target", {})
    did_run = bool(target.get("is_answering", True))
    return EndedRebuild(rebuild.uid, Status(rebuild.status), rebuild.checkpoint, states, did_run)


def follow_up_options(rebuild: Rebuild) -> dict[str, FollowUpOption]:
    """Return the possible follow-ups of an ended rebuild, and reasons against the others. Reads tables only."""
    if overtaken := _overtaken(rebuild):
        code, why = overtaken
        return {name: FollowUpOption(name, False, why, code=code) for name in (*OPTIONS, "again")}
    found = ended(rebuild)
    made = {name: make(found) for name, make in OPTIONS.items()} | {"again": again_option(found)}
    if rebuild.sweep_due_at:
        why = phrase("The source has not responded since the rebuild ended: its state is unknown.")
        made[RESUME] = FollowUpOption(RESUME, False, why, code="source_silent")
    return made


def _overtaken(rebuild: Rebuild) -> tuple[str, str] | None:
    """Return code and text of why no follow-up is possible: only the last rebuild's data is on the target."""
    newer = Rebuild.objects.filter(target=rebuild.target_id, pk__gt=rebuild.pk)
    for other in newer.order_by("-pk").only("status", "checkpoint", "started_at"):
        if not other.is_final:
            return "busy", phrase("Rebuild {other} of this instance is {status}.", other=other.pk, status=other.status)
        if has_worked(other):
            return "overtaken", phrase("Rebuild {other} has changed this instance since. See its page.", other=other.pk)
    if rebuild.sweep_due_at and not is_target_known(rebuild.checkpoint):
        return (
            "target_silent",
            phrase(
                "{target} has not responded since the rebuild ended: its state is unknown.", target=rebuild.target.name
            ),
        )
    if rebuild.target.role == Role.PRIMARY:
        return "primary", phrase("{target} is now a primary.", target=rebuild.target.name)
    return None


def has_worked(rebuild: Rebuild) -> bool:
    """Return whether a rebuild has changed its target: false if the target's host refused before any change.

    A rebuild that never started has the checkpoint of the one that it was to follow.
    """
    return bool(rebuild.started_at and rebuild.checkpoint.get("touched") and not rebuild.checkpoint.get("refused"))
