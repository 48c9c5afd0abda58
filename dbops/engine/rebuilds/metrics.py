"""A rebuild's figures over time: what is kept of them, and the rates between what was counted. Pure.

What is stored are counts, not rates: a sample that was missed, or left out for room, leaves the average of its stretch right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

#: Between two samples at first. It doubles whenever as many as are shown were written.
INTERVAL_SECONDS = 2
SHOWN = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """What one moment was like. Counts are of the step's processes since they began; ``None`` where it was not measured.

    ``disk_read_bytes`` and ``disk_written_bytes`` are what the kernel counts for them at the disk, not what they asked for.
    """

    bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    source_lag_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StepSample:
    """Figures of one step. ``number`` grows from one to the next: seconds since the rebuild's start over the interval."""

    number: int
    at: float
    step: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Point:
    """One moment as it is drawn: rates in bytes a second since the sample before it."""

    number: int
    at: float
    step: str
    rate: float | None
    source_lag_seconds: float | None
    disk_read: float | None
    disk_written: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the middle and the most of what is known of one figure."""

    low: float
    middle: float
    high: float


def spacing(elapsed_seconds: float) -> int:
    """Return the seconds between samples so long after the start: 2 s in the first 33 minutes, 4 s in the first 66, and so on."""
    found = INTERVAL_SECONDS
    while elapsed_seconds > found * SHOWN:
        found *= 2
    return found


def number_at(elapsed_seconds: float) -> int:
    """Return the number of a sample that is taken now: the same for each driver, so that none is written twice."""
    wide = spacing(elapsed_seconds)
    return int(max(0.0, elapsed_seconds) // wide) * (wide // INTERVAL_SECONDS)


def figures_of(counters: dict[str, int], process: str) -> Figures:
    """Return what a job's counters (see ``ports.JobState``) say of one of its processes."""
    return Figures(
        disk_read_bytes=counters.get(f"{process}.disk_read_bytes"),
        disk_written_bytes=counters.get(f"{process}.disk_write_bytes"),
    )


def points(samples: Sequence[StepSample]) -> list[Point]:
    """Return a point for each sample. The first of a step has no rates: there is nothing to compare it with."""
    if not samples:
        return []
    first = samples[0]
    begin = Point(first.number, first.at, first.step, None, first.figures.source_lag_seconds, None, None)
    return [begin, *(_point(before, sample) for before, sample in pairwise(samples))]


def _point(before: StepSample, now: StepSample) -> Point:
    seconds = now.at - before.at if now.step == before.step else 0.0
    old, new = before.figures, now.figures
    return Point(
        number=now.number,
        at=now.at,
        step=now.step,
        rate=_rate(old.bytes, new.bytes, seconds),
        source_lag_seconds=new.source_lag_seconds,
        disk_read=_rate(old.disk_read_bytes, new.disk_read_bytes, seconds),
        disk_written=_rate(old.disk_written_bytes, new.disk_written_bytes, seconds),
    )


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    """A count that fell is another process's: nothing is known of the time between."""
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds


def thinned(samples: Sequence[StepSample], at_most: int = SHOWN) -> list[StepSample]:
    """Return at most so many samples: of each stretch the last, with the highest lag of the stretch.

    Counts need no more than that. A lag between two samples that are kept would be lost, and its peak is what matters.
    """
    if len(samples) <= at_most:
        return list(samples)
    width = -(-len(samples) // at_most)
    return [_merged(samples[start : start + width]) for start in range(0, len(samples), width)]


def _merged(group: Sequence[StepSample]) -> StepSample:
    last = group[-1]
    lags = [item.figures.source_lag_seconds for item in group if item.figures.source_lag_seconds is not None]
    if not lags:
        return last
    figures = last.figures
    return StepSample(
        last.number,
        last.at,
        last.step,
        Figures(figures.bytes, figures.disk_read_bytes, figures.disk_written_bytes, max(lags)),
    )


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return least, middle and most of what is known, ``None`` where nothing is."""
    known = [value for value in values if value is not None]
    return Spread(min(known), median(known), max(known)) if known else None
