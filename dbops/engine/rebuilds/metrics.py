"""Thin out a rebuild's samples and compute rates from their counts.

Stored values are counts, not rates: a missing sample leaves the average of its interval right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

#: The initial time between two samples. It doubles whenever as many are written as pages show.
INTERVAL_SECONDS = 2
SHOWN = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of one moment. Counts are of the step's processes since they began; ``None``: not measured.

    ``disk_read_bytes`` and ``disk_written_bytes`` are the kernel's counts at the disk, not the requested bytes.
    """

    bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    source_lag_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StepSample:
    """A sample of one step. ``number`` grows with each: seconds since the rebuild's start divided by the interval."""

    number: int
    at: float
    step: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One moment of a chart: rates in bytes a second since the sample before it."""

    number: int
    at: float
    step: str
    rate: float | None
    source_lag_seconds: float | None
    disk_read: float | None
    disk_written: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The minimum, median and maximum of the known values of one series."""

    low: float
    middle: float
    high: float


def spacing(elapsed_seconds: float) -> int:
    """Return the seconds between samples by time since the start: 2 s in the first 33 minutes, 4 s in the first 66, and so on."""
    found = INTERVAL_SECONDS
    while elapsed_seconds > found * SHOWN:
        found *= 2
    return found


def number_at(elapsed_seconds: float) -> int:
    """Return the number of a sample taken now: the same for each driver, so that none is written twice."""
    wide = spacing(elapsed_seconds)
    return int(max(0.0, elapsed_seconds) // wide) * (wide // INTERVAL_SECONDS)


def figures_of(counters: dict[str, int], process: str) -> Figures:
    """Return the counters of one process of a job (see ``ports.JobState``)."""
    return Figures(
        disk_read_bytes=counters.get(f"{process}.disk_read_bytes"),
        disk_written_bytes=counters.get(f"{process}.disk_write_bytes"),
    )


def points(samples: Sequence[StepSample]) -> list[MetricPoint]:
    """Return a point for each sample. The first of a step has no rates, as there is no earlier one."""
    if not samples:
        return []
    first = samples[0]
    begin = MetricPoint(first.number, first.at, first.step, None, first.figures.source_lag_seconds, None, None)
    return [begin, *(_point(before, sample) for before, sample in pairwise(samples))]


def _point(before: StepSample, now: StepSample) -> MetricPoint:
    seconds = now.at - before.at if now.step == before.step else 0.0
    old, new = before.figures, now.figures
    return MetricPoint(
        number=now.number,
        at=now.at,
        step=now.step,
        rate=_rate(old.bytes, new.bytes, seconds),
        source_lag_seconds=new.source_lag_seconds,
        disk_read=_rate(old.disk_read_bytes, new.disk_read_bytes, seconds),
        disk_written=_rate(old.disk_written_bytes, new.disk_written_bytes, seconds),
    )


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    """Return the rate between two counts. A count that fell is another process's, so the rate is unknown."""
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds


def thinned(samples: Sequence[StepSample], at_most: int = SHOWN) -> list[StepSample]:
    """Return at most the given number of samples: the last of each interval, with the highest lag of the interval.

    This is enough for counts. A lag between two kept samples would be lost, and its peak matters most.
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
    """Return minimum, median and maximum of the known values, ``None`` if there are none."""
    known = [value for value in values if value is not None]
    return Spread(min(known), median(known), max(known)) if known else None
