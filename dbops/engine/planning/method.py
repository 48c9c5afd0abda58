"""The structure of a method. ``engine.methods`` has one file for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.preflight.data_location import describe_service
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.schedule.conflicts import MethodTraits

Check = Callable[[PlanInputs], Iterator[Finding]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Method(MethodTraits):
    """A way to rebuild. Everything that depends on the method is an attribute.

    Args:
        summary: what it does, one line.
        noun: what one of its rebuilds is.
        steps: in order. The last step is the clean-up.
        checks: of its plan, in the order of the page. A follow-up has none: its first step checks instead.
        short: what it copies from, in a few words.
        no_pause: why the source's replication is never paused. Empty: it is paused if the source's server requires it.
        streams: it sends the source's data through a pipe with optional compression and rate limit.
        can_share_read: one read of the source can serve several rebuilds.
        outcome: returns the text for a success.
    """

    summary: str
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    noun: str = "rebuild"
    short: str = ""
    no_pause: str = ""
    streams: bool = False
    can_share_read: bool = False
    outcome: Callable[[Run], str] = describe_service

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)
