"""Compare two servers that change all the time: what differs in several looks, in order of their history, differs.

Before each look both servers have applied all that the other one had at the look before. So an object that is equal in truth was
changed between all looks in the same way, or it leaves the list.
"""

from collections.abc import Callable
from typing import Any

from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.steps.certify.reference import (
    ReferenceServer,
    has_reached,
    reached_by_reference,
    reached_by_target,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again
from dbops.engine.states import Level

LOOKS = 5
#: Between two looks: statements that are under way end.
PAUSE_SECONDS = 0.5
#: How long one server may take to reach what the other had.
REACH_SECONDS = 300.0
NOT_REACHED = phrase("both servers did not come to one position")
#: Names in the certificate, and in an error.
LISTED, NAMED = 200, 10


def settle(
    run: Run,
    key: str,
    target: Database,
    reference: ReferenceServer,
    look: Callable[[], dict[str, str]],
    record: dict[str, Any],
) -> StepOutcome | dict[str, str]:
    """Return the differences that stay, or when to be called again.

    Args:
        key: of the checkpoint.
        look: compares once; how each differing object differs.
        record: gets what differs where both servers did not come to one position: that proves nothing.
    """
    state = run.checkpoint.setdefault(key, {"looks": 0, "since": run.clock.now()})
    if state["looks"] and not _both_went_on(run, state, target, reference):
        if run.clock.now() - state["since"] < REACH_SECONDS:
            run.journal.progress(
                note=phrase("{count} differences; waiting for a common position", count=len(state["left"]))
            )
            return again(0.3)
        del run.checkpoint[key]
        _leave_open(run, sorted(state["left"]), record)
        return {}
    found = look()
    if state["looks"]:
        found = {name: how for name, how in found.items() if name in state["left"]}
    if not found or state["looks"] + 1 >= LOOKS:
        del run.checkpoint[key]
        return found
    run.checkpoint[key] = {
        "looks": state["looks"] + 1,
        "since": run.clock.now(),
        "left": found,
        "target": reached_by_target(run, target),
        "reference": reached_by_reference(run, reference),
    }
    return again(PAUSE_SECONDS)


def _leave_open(run: Run, names: list[str], record: dict[str, Any]) -> None:
    note_unchecked(record, dict.fromkeys(names, NOT_REACHED))
    run.journal.say(
        phrase("{count} differences were not looked at again: {reason}.", count=len(names), reason=NOT_REACHED),
        level=Level.WARNING,
    )


def note_unchecked(record: dict[str, Any], reasons: dict[str, str]) -> None:
    """Add what was not compared, with its reason: the first by name, the rest as a number."""
    known = record["unchecked"]
    new = {name: reasons[name] for name in sorted(reasons) if name not in known}
    room = max(0, LISTED - len(known))
    known |= dict(list(new.items())[:room])
    if len(new) > room:
        record["more_unchecked"] = record.get("more_unchecked", 0) + len(new) - room


def listed(lines: list[str]) -> str:
    """Return the first lines, for a sentence."""
    more = phrase(" and {count} more", count=len(lines) - NAMED) if len(lines) > NAMED else ""
    return joined(("; ".join(lines[:NAMED]), more), "")


def _both_went_on(run: Run, state: dict[str, str], target: Database, reference: ReferenceServer) -> bool:
    return has_reached(run, reached_by_target(run, target), state["reference"]) and has_reached(
        run, reached_by_reference(run, reference), state["target"]
    )
