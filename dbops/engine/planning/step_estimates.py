"""What past rebuilds by one method tell of the next one's steps. Pure.

Three kinds of work: that which follows the bytes is told by bytes a second; rolling forward, which follows the age of the data, by
seconds for each second of age; all other by its seconds. Nothing is invented: what no rebuild tells is not known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from dbops.engine.schedule.backup_windows import LEARNED_RUNS, Duration, learn

#: Steps whose work follows the bytes that are copied.
STEPS_BY_BYTES = ("stream", "prepare", "set-ownership")
#: The step whose work follows the age of the data.
STEP_BY_AGE = "catch-up"
#: The step that makes the copy: the data of a running server counts as of its beginning.
COPY = "stream"


@dataclass(frozen=True, slots=True)
class StepHistory:
    """What rebuilds by one method measured, the latest first: by step bytes a second where the work follows the bytes, seconds elsewhere.

    ``seconds_per_age`` are seconds of rolling forward for each second that the data was old when that began.
    """

    bytes_per_second: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds_per_age: tuple[float, ...] = ()

    def expect(self, step: str, *, bytes_to_copy: int | None, age_seconds: float | None) -> Duration | None:
        """Return how long a step takes, ``None`` where nothing of it is known.

        Args:
            step: its name.
            bytes_to_copy: of the copy, ``None`` where it was not measured.
            age_seconds: how old the data will be when the step begins, ``None`` where that is not known.
        """
        if step == STEP_BY_AGE:
            return None if age_seconds is None else learn([age_seconds * one for one in self.seconds_per_age])
        if (rates := self.bytes_per_second.get(step)) and bytes_to_copy is not None:
            return learn([bytes_to_copy / rate for rate in rates])
        return learn(self.seconds.get(step, ()))

    def of_any_size(self) -> "StepHistory":
        """Return what of it holds for a cluster of another size: the seconds of a step that follows the bytes do not."""
        seconds = {name: values for name, values in self.seconds.items() if name not in STEPS_BY_BYTES}
        return StepHistory(self.bytes_per_second, seconds, self.seconds_per_age)


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """How long a step takes, and whether the rebuilds of other clusters say so."""

    duration: Duration
    is_of_others: bool = False


@dataclass(frozen=True, slots=True)
class DoneStep:
    """One step of a rebuild that succeeded. ``began`` and ``ended`` are when."""

    name: str
    began: datetime
    ended: datetime

    @property
    def seconds(self) -> float:
        return (self.ended - self.began).total_seconds()


@dataclass(frozen=True, slots=True)
class PastRebuild:
    """One rebuild that succeeded. ``bytes`` it copied, ``None`` where that is not known.

    ``taken_at`` is of when the finished backup was that it read. ``is_retry``: it went on with the copy of another one, and so nothing
    is known of how far that had rolled forward before.
    """

    steps: tuple[DoneStep, ...]
    bytes: int | None = None
    taken_at: datetime | None = None
    is_retry: bool = False

    @property
    def seconds_per_age(self) -> float | None:
        """Return how long it rolled forward for each second of its data's age, ``None`` where that is not known."""
        by_name = {step.name: step for step in self.steps}
        rolled, copy = by_name.get(STEP_BY_AGE), by_name.get(COPY)
        data_of = self.taken_at or (copy.began if copy else None)
        if rolled is None or data_of is None or self.is_retry:
            return None
        age = (rolled.began - data_of).total_seconds()
        return rolled.seconds / age if age > 0 else None


def history_of(rebuilds: Iterable[PastRebuild]) -> StepHistory:
    """Return what rebuilds by one method tell.

    Args:
        rebuilds: the latest first. Of each step the first ``LEARNED_RUNS`` count.
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
