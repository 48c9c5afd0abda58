"""Compare two servers that change all the time: what differs in several looks, in order of their history, differs.

Before each look both servers have applied all that the other one had at the look before. So an object that is equal in truth was
changed between all looks in the same way, or it leaves the list.
"""

from collections.abc import Callable

from dbops.engine.ports import Database
from dbops.engine.rebuilds.steps.certify.reference import (
    Reference,
    has_reached,
    reached_by_reference,
    reached_by_target,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again

LOOKS = 5
#: Between two looks: statements that are under way end.
PAUSE_SECONDS = 0.5
#: How long one server may take to reach what the other had.
REACH_SECONDS = 1800.0


def settle(
    run: Run, key: str, target: Database, reference: Reference, look: Callable[[], dict[str, str]]
) -> StepOutcome | dict[str, str]:
    """Return the differences that stay, or when to be called again.

    Args:
        key: of the checkpoint.
        look: compares once; how each differing object differs.
    """
    state = run.checkpoint.setdefault(key, {"looks": 0, "since": run.clock.now()})
    if state["looks"] and not _both_went_on(run, state, target, reference):
        if run.clock.now() - state["since"] < REACH_SECONDS:
            run.journal.progress(note=f"{len(state['left'])} differences; waiting for a common position")
            return again(0.3)
        return dict(state["left"])
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


def _both_went_on(run: Run, state: dict[str, str], target: Database, reference: Reference) -> bool:
    return has_reached(run, reached_by_target(run, target), state["reference"]) and has_reached(
        run, reached_by_reference(run, reference), state["target"]
    )
