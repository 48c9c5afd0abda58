"""Compare an ended rebuild with its estimate, earlier rebuilds and dumps."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dbops.engine.phrases import phrase
from dbops.engine.states import StepState

#: What each step confirms when it is done.
EVIDENCE_OF_STEPS = {
    "preflight": phrase("The live machines matched the plan."),
    "resume-check": phrase("The live machines and the copy matched the failed rebuild."),
    "open-access": phrase("The SSH connection from target to source worked, and the guard on the source was armed."),
    "swap-datadir": phrase("The target's directory and server process were checked again before its data was moved."),
    "stream": phrase("The copy was complete: every process ended with 0, and source and target have the same backup."),
    "prepare": phrase("The copy was prepared completely."),
    "start": phrase("The server answered with its own server id."),
    "catch-up": phrase("The target caught up with the source."),
    "certify": phrase("The objects of the copy are those of the source, and every table was read."),
    "verify": phrase("The target replicated from the primary, read-only, and stayed caught up."),
    "clean-up": phrase("Keys and guard were removed."),
}


@dataclass(frozen=True, slots=True)
class StepComparison:
    """One step: its actual and its expected time. ``None``: unknown."""

    name: str
    title: str
    state: StepState
    seconds: float | None
    expected_seconds: float | None

    @property
    def evidence(self) -> str:
        return EVIDENCE_OF_STEPS.get(self.name, "") if self.state is StepState.DONE else ""


@dataclass(frozen=True, slots=True)
class PastCopy:
    """Another rebuild that succeeded. ``bytes`` and ``rate`` are those of its copy."""

    number: int
    target: str
    seconds: float
    bytes: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Dumps:
    """Dumps of the same cluster that succeeded: their number, and the median of their times."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RebuildComparison:
    """The whole comparison.

    ``expected_seconds`` is ``None`` unless every step that ran was predicted: a partial sum would mislead. ``others`` is ``None`` where
    nothing was copied: then earlier rebuilds say nothing.
    """

    steps: tuple[StepComparison, ...]
    seconds: float
    bytes: int | None
    rate: float | None
    others: tuple[PastCopy, ...] | None = None
    dumps: Dumps | None = None

    @property
    def expected_seconds(self) -> float | None:
        ran = [step for step in self.steps if step.state is not StepState.SKIPPED]
        known = [step.expected_seconds for step in ran if step.expected_seconds is not None]
        return sum(known) if known and len(known) == len(ran) else None

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(step.evidence for step in self.steps if step.evidence)

    @property
    def usual_seconds(self) -> float | None:
        """The median of the other rebuilds' times."""
        return median(other.seconds for other in self.others) if self.others else None


def dumps_of(seconds: Sequence[float]) -> Dumps | None:
    """Return the number and median time of dumps, ``None`` if none was measured."""
    return Dumps(len(seconds), median(seconds)) if seconds else None
