"""The shape of a method."""

from collections.abc import Callable
from dataclasses import dataclass

from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.preflight.data_location import describe_service
from dbops.engine.rebuilds.steps.run import Run


@dataclass(frozen=True, slots=True)
class Method:
    """A way to rebuild: its name, what it does in one line, and its steps in order. The last step is the clean-up.

    ``outcome`` says how a success is told. ``reads_source`` tells whether the source is held as well.
    """

    name: str
    summary: str
    steps: tuple[Step, ...]
    outcome: Callable[[Run], str] = describe_service
    reads_source: bool = True

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)
