"""Compute rebuild durations of a period, in total and by step, with the trend."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbops.engine.backups.flags import percentile
from dbops.engine.schedule.backup_windows import LEAST_RUNS


@dataclass(frozen=True, slots=True)
class MeasuredRebuild:
    """A successful rebuild: its duration in seconds, in total and of each finished step in order."""

    method: str
    seconds: float
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Times:
    """Durations in a period, in seconds.

    Args:
        what: a step's title; empty for the whole.
        p90: ``None`` where there were fewer than ``LEAST_RUNS``.
        before_p50: the same in the period before, ``None`` where there was none.
    """

    what: str
    runs: int
    p50: float
    p90: float | None
    worst: float
    before_p50: float | None

    @property
    def trend_percent(self) -> float | None:
        """Return the trend in percent (positive: slower), ``None`` without an earlier period."""
        return 100 * (self.p50 / self.before_p50 - 1) if self.before_p50 else None


@dataclass(frozen=True, slots=True)
class MethodTimes:
    """The rebuilds of one method."""

    method: str
    whole: Times
    steps: tuple[Times, ...]


def rebuild_times(took: Iterable[MeasuredRebuild], before: Iterable[MeasuredRebuild]) -> tuple[MethodTimes, ...]:
    """Return the durations of each method in the period, the most used method first."""
    earlier = _by_method(before)
    methods = sorted(_by_method(took).items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_times(method, runs, earlier.get(method, [])) for method, runs in methods)


def _by_method(rebuilds: Iterable[MeasuredRebuild]) -> dict[str, list[MeasuredRebuild]]:
    found: dict[str, list[MeasuredRebuild]] = {}
    for one in rebuilds:
        found.setdefault(one.method, []).append(one)
    return found


def _times(method: str, took: list[MeasuredRebuild], before: list[MeasuredRebuild]) -> MethodTimes:
    steps = dict.fromkeys(title for one in took for title in one.steps)
    return MethodTimes(
        method=method,
        whole=_of("", [one.seconds for one in took], [one.seconds for one in before]),
        steps=tuple(
            _of(title, *([one.steps[title] for one in runs if title in one.steps] for runs in (took, before)))
            for title in steps
        ),
    )


def _of(what: str, seconds: Sequence[float], before: Sequence[float]) -> Times:
    return Times(
        what=what,
        runs=len(seconds),
        p50=percentile(seconds, 0.5),
        p90=percentile(seconds, 0.9) if len(seconds) >= LEAST_RUNS else None,
        worst=max(seconds),
        before_p50=percentile(before, 0.5) if before else None,
    )
