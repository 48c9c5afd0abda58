"""Estimate a rebuild's steps from past rebuilds by the same method.

There are three kinds of work. Copying follows the bytes: it is estimated by bytes a second. Catching up follows the age of the
data: by seconds for each second of age. All other work: by its seconds. Without a past rebuild, the estimate is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from dbops.engine.schedule.backup_windows import LEARNED_RUNS, Duration, learn

#: Steps whose duration follows the copied bytes.
STEPS_BY_BYTES = ("stream", "prepare", "set-ownership")
#: The step whose duration follows the age of the data.
STEP_BY_AGE = "catch-up"
#: The step that makes the copy: the data of a running server counts as of its begin.
COPY = "stream"


@dataclass(frozen=True, slots=True)
class StepHistory:
    """Measurements of rebuilds by one method, the latest first: by step, bytes a second if the work follows the bytes, else seconds.

    ``seconds_per_age``: seconds of catching up for each second of the data's age at the begin.
    """

    bytes_per_second: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds_per_age: tuple[float, ...] = ()

    def expect(self, step: str, *, bytes_to_copy: int | None, age_seconds: float | None) -> Duration | None:
        """Return how long a step takes, ``None`` if unknown.

        Args:
            step: its name.
            bytes_to_copy: size of the copy, ``None`` if it was not measured.
            age_seconds: age of the data at the begin of the step, ``None`` if unknown.
        """
        if step == STEP_BY_AGE:
            return None if age_seconds is None else learn([age_seconds * one for one in self.seconds_per_age])
        if (rates := self.bytes_per_second.get(step)) and bytes_to_copy is not None:
            return learn([bytes_to_copy / rate for rate in rates])
        return learn(self.seconds.get(step, ()))

    def of_any_size(self) -> "StepHistory":
        """Return the measurements that fit a cluster of another size: without the seconds of steps that follow the bytes."""
        seconds = {name: values for name, values in self.seconds.items() if name not in STEPS_BY_BYTES}
        return StepHistory(self.bytes_per_second, seconds, self.seconds_per_age)


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """How long a step takes, and whether the estimate comes from other clusters."""

    duration: Duration
    is_of_others: bool = False


@dataclass(frozen=True, slots=True)
class DoneStep:
    """One step of a rebuild that succeeded, with its begin and end."""

    name: str
    began: datetime
    ended: datetime

    @property
    def seconds(self) -> float:
        return (self.ended - self.began).total_seconds()


@dataclass(frozen=True, slots=True)
class PastRebuild:
    """One rebuild that succeeded, with its copied ``bytes``; ``None``: unknown.

    ``taken_at``: the time of the finished backup that was read. ``is_retry``: it continued with the copy of another rebuild, so how far
    that one had caught up is unknown.
    """

    steps: tuple[DoneStep, ...]
    bytes: int | None = None
    taken_at: datetime | None = None
    is_retry: bool = False

    @property
    def seconds_per_age(self) -> float | None:
        """Return how long it caught up for each second of its data's age, ``None`` if unknown."""
        by_name = {step.name: step for step in self.steps}
        rolled, copy = by_name.get(STEP_BY_AGE), by_name.get(COPY)
        data_of = self.taken_at or (copy.began if copy else None)
        if rolled is None or data_of is None or self.is_retry:
            return None
        age = (rolled.began - data_of).total_seconds()
        return rolled.seconds / age if age > 0 else None


def history_of(rebuilds: Iterable[PastRebuild]) -> StepHistory:
    """Return the measurements of rebuilds by one method.

    Args:
        rebuilds: the latest first. The first ``LEARNED_RUNS`` of each step count.
    """
    rates: dict[str, tuple[float, ...]] = {}
    seconds: dict[str, tuple[float, ...]] = {}
    per_age: tuple[float, ...] = ()
    for past in rebuilds:
        for step in past.steps:
            if step.name in STEPS_BY_BYTES and past.bytes and step.seconds > 0:
                rates[step.name] = (*rates.get(step.name, ()), past.bytes / step.seconds)[:LEARNED_RUNS]
            elif step.name != STEP_BY_AGE:
                seconds[step.name] = (*seconds.get(step.name, ()), step.seconds)[:LEARNED_RUNS]
        if (ratio := past.seconds_per_age) is not None:
            per_age = (*per_age, ratio)[:LEARNED_RUNS]
    return StepHistory(rates, seconds, per_age)
