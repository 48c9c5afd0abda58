"""Decide the follow-ups of an unsuccessful rebuild: resume, roll back, rebuild again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dbops.engine.phrases import joined, phrase
from dbops.engine.rebuilds.plan import Plan, PlannedInstance, PlannedStep
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.certify.step import Certify
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.replicate.catch_up import ATTACHED, CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer
from dbops.engine.states import Status, StepState

#: The checkpoint keys that a follow-up needs from the rebuild before.
REMEMBERED = (
    "touched",
    "new_identity",
    "aside_path",
    "aside_identity",
    "checkpoints",
    "position",
    "copy_run",
    "stream.bytes",
    "prepare.begun",
    "loaded",
    "relaxed",
    "undurable",
    "worthless",
    "incomplete_copy",
    "quieted",
    ATTACHED,
    "quiet",
    "own_events",
    "rejoin",
)
#: Steps that a resume never skips: each detects on its own that nothing is left to do.
ALWAYS = {"resume-check", "start", "certify", "verify", "clean-up"}
#: Results after which the same rebuild can be planned again.
REPEATABLE = frozenset({Status.FAILED, Status.CANCELLED, Status.EXPIRED})
#: The steps in this order, from the first one that a whole copy needs.
RESUMED_STEPS: tuple[Step, ...] = (Prepare(), SetOwnership(), StartServer(), CatchUp(), Repoint(), Certify(), Verify())
AFTER_THE_COPY = tuple(step.name for step in RESUMED_STEPS)
#: The names of the two follow-ups.
RESUME, ROLLBACK = "resume", "rollback"


@dataclass(frozen=True, slots=True)
class EndedRebuild:
    """An ended rebuild. ``steps`` are the states by name; ``uid`` names its run directory and its mark.

    ``did_run``: whether the target's server answered before the rebuild.
    """

    uid: str
    status: Status
    checkpoint: Mapping[str, Any]
    steps: Mapping[str, StepState]
    did_run: bool = True


@dataclass(frozen=True, slots=True)
class FollowUpOption:
    """Whether a follow-up is possible. ``reason``: why not, or from which step it continues; ``code`` names that reason."""

    method: str
    is_possible: bool
    reason: str
    skips: tuple[str, ...] = ()
    code: str = ""


def _ended_badly(ended: EndedRebuild) -> bool:
    return ended.status in (Status.FAILED, Status.CANCELLED)


def rollback_option(ended: EndedRebuild) -> FollowUpOption:
    """Return whether the rebuild can be rolled back: the old data was moved aside and the copy never verified."""

    def answer(code: str, reason: str, possible: bool = False) -> FollowUpOption:
        return FollowUpOption(ROLLBACK, possible, reason, code=code)

    checkpoint = ended.checkpoint
    if not _ended_badly(ended):
        return answer("status", phrase("Only a failed or cancelled rebuild can be rolled back."))
    if not checkpoint.get("touched"):
        return answer("untouched", phrase("Nothing was changed on the target."))
    if checkpoint.get("verified"):
        return answer("verified", phrase("The new copy was verified and is in use."))
    if checkpoint.get("rolled_back") or checkpoint.get("old_identity"):
        return answer("in_place", phrase("The old data is already in place."))
    if "incomplete_copy" in checkpoint:
        older = checkpoint["incomplete_copy"]
        text = phrase("The data that was moved aside is an incomplete copy of the rebuild before.")
        where = phrase("The old data is at {path}: move it back manually.", path=older)
        return answer("incomplete_copy_aside", joined((text, where)) if older else text)
    if not (checkpoint.get("aside_path") and checkpoint.get("aside_identity")):
        return answer(
            "no_old_data",
            phrase(
                "No old data was moved aside: there was none, there was no space for both, or it is still in place."
            ),
        )
    path = checkpoint["aside_path"]
    if not ended.did_run:
        stays = phrase(
            "The old data at {path} is put back. The server did not answer before the rebuild, so it stays stopped, "
            "and this data may be damaged or empty.",
            path=path,
        )
        return answer("possible_stopped", stays, True)
    return answer(
        "possible", phrase("The old data at {path} is put back, and the server is started on it.", path=path), True
    )


def resume_option(ended: EndedRebuild) -> FollowUpOption:
    """Return whether the copy can be resumed, and from which step."""

    def answer(code: str, reason: str, possible: bool = False, skips: tuple[str, ...] = ()) -> FollowUpOption:
        return FollowUpOption(RESUME, possible, reason, skips, code)

    checkpoint, steps = ended.checkpoint, ended.steps
    if not _ended_badly(ended):
        return answer("status", phrase("Only a failed or cancelled rebuild can be resumed."))
    went_back = steps.get("rollback", StepState.SKIPPED) not in (StepState.PENDING, StepState.SKIPPED)
    if checkpoint.get("verified") or (went_back and not (checkpoint.get("found") or {}).get("new")):
        return answer("no_copy", phrase("There is no copy to resume."))
    if not checkpoint.get("touched"):
        return answer("untouched", phrase("Nothing was changed on the target."))
    if not (checkpoint.get("checkpoints") or checkpoint.get("loaded")) or not checkpoint.get("new_identity"):
        return answer("incomplete_copy", phrase("The copy is incomplete and can't be resumed. Plan a new rebuild."))
    if checkpoint.get("worthless"):
        return answer(
            "worthless",
            phrase("The copy is unusable: {worthless}. Plan a new rebuild.", worthless=checkpoint["worthless"]),
        )
    done = steps_done(ended)
    if "prepare" not in done and checkpoint.get("prepare.begun"):
        return answer(
            "incomplete_prepare",
            phrase(
                "Prepare started but did not finish, and the backup tools do not guarantee that it can be repeated. "
                "Plan a new rebuild."
            ),
        )
    first = next((step for step in RESUMED_STEPS if step.name not in done), RESUMED_STEPS[-1])
    skips = tuple(name for name in AFTER_THE_COPY if name in done and name not in ALWAYS)
    return answer("possible", phrase("The copy is complete. Next step: “{title}”.", title=first.title), True, skips)


def again_option(ended: EndedRebuild) -> FollowUpOption:
    """Return whether the same rebuild can be planned again."""
    if ended.status in REPEATABLE:
        return FollowUpOption(
            "again", True, phrase("A new plan with the same choices. Nothing changes until you confirm it.")
        )
    return FollowUpOption(
        "again",
        False,
        phrase("Only a failed, expired or cancelled rebuild can be planned again."),
        code="not_ended_badly",
    )


def incomplete_copy_of(ended: EndedRebuild, target: PlannedInstance) -> dict[str, str]:
    """Return what rebuilding again needs to know of the incomplete copy of the first rebuild; empty if that is unknown.

    The target's host compares ``incomplete_copy_tree`` with the data directory before it changes anything. ``incomplete_copy`` is the
    path of the old data: the incomplete copy that the second rebuild moves aside is no data to roll back to.

    Args:
        ended: the first rebuild.
        target: the target in the second rebuild's plan.
    """
    checkpoint = ended.checkpoint
    if target.is_answering:
        return {}
    if not checkpoint.get("touched"):  # it never started: it knows the incomplete copy from the rebuild before
        return {
            key: checkpoint[key]
            for key in ("incomplete_copy", "incomplete_copy_tree")
            if checkpoint.get("incomplete_copy_tree")
        }
    tree = checkpoint.get("left_tree")
    if not tree or checkpoint.get("refused") or checkpoint.get("new_identity") != target.datadir_identity:
        return {}
    return {
        "incomplete_copy": checkpoint.get("incomplete_copy", checkpoint.get("aside_path", "")),
        "incomplete_copy_tree": tree,
    }


def steps_done(ended: EndedRebuild) -> set[str]:
    """Return the changes to the copy by this rebuild and those before it."""
    done = {name for name, state in ended.steps.items() if state is StepState.DONE and name in AFTER_THE_COPY}
    return done | set(ended.checkpoint.get("done_before", ()))


def remembered(ended: EndedRebuild) -> dict[str, Any]:
    """Return the checkpoint of a new follow-up."""
    known = {key: ended.checkpoint[key] for key in REMEMBERED if key in ended.checkpoint}
    known.setdefault("copy_run", ended.uid)
    known["done_before"] = sorted(steps_done(ended))
    return known


def plan_follow_up(
    plan: Plan, option: FollowUpOption, steps: Iterable[Step], primary: PlannedInstance | None = None
) -> Plan:
    """Return the plan of a follow-up: the frozen plan of the rebuild before, with other steps.

    ``primary`` is the current one, if known: a failover may have happened since. The first step of a resume compares it with the live
    primary, and refuses a mismatch.
    """
    plan = replace(plan, primary=primary or plan.primary)
    destroys = {
        ROLLBACK: phrase(
            "The copy at {datadir} (not verified), when the old data is in place.", datadir=plan.target.datadir
        ),
        RESUME: _removed_by_retry(plan),
    }[option.method]
    return replace(
        plan,
        method=option.method,
        copied_by=plan.copied_by or plan.method,
        steps=tuple(PlannedStep(step.name, step.title, step.commands(plan), None) for step in steps),
        destroys=(destroys,),
        findings=(),
        predicted_seconds=None,
    )


def _removed_by_retry(plan: Plan) -> str:
    if plan.old_data != "aside":
        return phrase("Nothing: the old data was removed before the copy started.")
    if plan.keep_old_data:
        return phrase("Nothing: old data at {aside_path} is kept.", aside_path=plan.aside_path)
    return phrase("Old data at {aside_path}, if any, after the copy is verified.", aside_path=plan.aside_path)
