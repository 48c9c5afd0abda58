"""The shape of a method."""

from dataclasses import dataclass

from dbops.engine.steps.base import Step


@dataclass(frozen=True, slots=True)
class Method:
    """A way to rebuild: its name, what it does in one line, and its steps in order. The last step is the clean-up."""

    name: str
    summary: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)
