"""Fit a robust trend to daily values, with its own backtest. Standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from math import sqrt
from statistics import fmean, median

#: Days of readings that a forecast needs.
DAYS_NEEDED = 28
#: More points would take the fit too long: slopes of all pairs (730 points: 109 ms, 400: 30 ms).
MOST_POINTS = 400
#: Limit of ordinary daily differences, in robust standard deviations from their median.
STEP_DEVIATIONS = 8.0
#: Median absolute deviation to standard deviation of a normal distribution.
ROBUST = 1.4826
#: Quantile of the normal distribution for an interval of 99 %.
QUANTILE = 2.576
#: A date beyond this is no forecast.
HORIZON = timedelta(days=3650)
DAY = timedelta(days=1)


class TrendState(StrEnum):
    """Whether a series grows. ``UNKNOWN``: fewer than ``DAYS_NEEDED`` days."""

    UNKNOWN = "unknown"
    NOT_GROWING = "not-growing"
    GROWING = "growing"


class RateUsed(StrEnum):
    """The rate from which dates follow. ``WITHOUT_STEPS``: steps that happened only once are left out of it."""

    NET = "net"
    WITHOUT_STEPS = "without-steps"


@dataclass(frozen=True, slots=True)
class DailyValue:
    """The value of a series at a time; one a day."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Trend:
    """How a series changes. Rates are per day, in the unit of the values.

    Args:
        level, at: of the last point; ``None`` without one.
        days: number of days with a reading.
        net_per_day: slope of all points (Theil-Sen), with deletions and steps.
        gross_per_day: median of the daily differences, without them.
        rate_per_day: the one that dates use, see ``used``; ``low_per_day`` to ``high_per_day`` is its range.
        backtest_error: largest error of the last third as predicted from the first two, in the unit of the values.
        backtest_days: how far ahead that prediction was.
        steps: number of days with an extraordinary difference.
    """

    state: TrendState
    days: int
    level: float | None = None
    at: datetime | None = None
    net_per_day: float | None = None
    gross_per_day: float | None = None
    rate_per_day: float | None = None
    low_per_day: float | None = None
    high_per_day: float | None = None
    used: RateUsed = RateUsed.NET
    backtest_error: float | None = None
    backtest_days: int | None = None
    steps: int = 0
    days_needed: int = DAYS_NEEDED

    def reaches(self, limit: float) -> "Crossing":
        """Return when the series reaches a limit above it."""
        if self.level is None or self.at is None or self.state is TrendState.UNKNOWN:
            return NEVER
        if self.state is TrendState.NOT_GROWING:
            return NEVER
        distance = limit - self.level
        return Crossing(_after(self.at, distance, self.high_per_day), _after(self.at, distance, self.low_per_day))


@dataclass(frozen=True, slots=True)
class Crossing:
    """The range of dates at which a limit is reached. ``None``: not within ``HORIZON``, or never."""

    first: datetime | None
    last: datetime | None


NEVER = Crossing(None, None)


def _after(start: datetime, distance: float, per_day: float | None) -> datetime | None:
    if per_day is None or per_day <= 0:
        return None
    days = max(0.0, distance) / per_day
    return None if days > HORIZON.days else start + timedelta(days=days)


def trend_of(points: Sequence[DailyValue]) -> Trend:
    """Return the trend of points in order of time.

    Sources: Theil (1950), Sen (1968); the interval follows the variance of Kendall's S. It assumes independent errors, which growth
    does not have, so the backtest widens it.
    """
    daily = by_day(points)
    last = daily[-1] if daily else None
    known = Trend(TrendState.UNKNOWN, len(daily), last.value if last else None, last.at if last else None)
    if len(daily) < DAYS_NEEDED:
        return known
    days = [(point.at - daily[0].at) / DAY for point in daily]
    values = [point.value for point in daily]
    if len(set(values)) == 1:
        return Trend(TrendState.NOT_GROWING, len(daily), values[-1], daily[-1].at, *(0.0,) * 5)
    levels, steps = without_single_steps(days, values)
    fit = theil_sen(days, levels)
    error, ahead = backtest(days, levels)
    widened = error / ahead if ahead else 0.0
    return Trend(
        TrendState.GROWING if fit.low > 0 else TrendState.NOT_GROWING,
        len(daily),
        values[-1],
        daily[-1].at,
        net_per_day=theil_sen(days, values).slope if levels != values else fit.slope,
        gross_per_day=gross_rate(days, values),
        rate_per_day=fit.slope,
        low_per_day=min(fit.low, fit.slope - widened),
        high_per_day=max(fit.high, fit.slope + widened),
        used=RateUsed.WITHOUT_STEPS if levels != values else RateUsed.NET,
        backtest_error=error,
        backtest_days=round(ahead),
        steps=steps,
    )


def by_day(points: Sequence[DailyValue]) -> list[DailyValue]:
    """Return the last point of each day."""
    return list({point.at.date(): point for point in points}.values())


@dataclass(frozen=True, slots=True)
class Fit:
    """A line, and the interval of its slope."""

    slope: float
    low: float
    high: float
    start: float


def theil_sen(days: Sequence[float], values: Sequence[float]) -> Fit:
    """Fit a line: the median slope of all pairs of at most ``MOST_POINTS`` points. At least two points."""
    chosen = _thinned(len(days))
    xs, ys = [days[place] for place in chosen], [values[place] for place in chosen]
    slopes = sorted((ys[late] - ys[early]) / (xs[late] - xs[early]) for late in range(len(xs)) for early in range(late))
    count, pairs = len(xs), len(slopes)
    spread = QUANTILE * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    slope = median(slopes)
    return Fit(
        slope,
        slopes[max(0, round((pairs - spread) / 2))],
        slopes[min(pairs - 1, round((pairs + spread) / 2))],
        median(y - slope * x for x, y in zip(xs, ys, strict=True)),
    )


def _thinned(count: int) -> list[int]:
    """Return the places of at most ``MOST_POINTS`` of ``count`` points, evenly, with the first and the last."""
    if count <= MOST_POINTS:
        return list(range(count))
    return [round(number * (count - 1) / (MOST_POINTS - 1)) for number in range(MOST_POINTS)]


def gross_rate(days: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the differences of neighbors, per day."""
    return median((values[n] - values[n - 1]) / (days[n] - days[n - 1]) for n in range(1, len(days)))


def without_single_steps(days: Sequence[float], values: Sequence[float]) -> tuple[list[float], int]:
    """Return the values as if a step up or down that happened once had not happened, and the number of all steps.

    A step is a difference of neighbors farther than ``STEP_DEVIATIONS`` robust deviations from the ordinary one. Steps in one
    direction that repeat, such as a monthly purge, belong to the growth and stay.
    """
    usual = gross_rate(days, values)
    excess = [late - early - usual * (days[n + 1] - days[n]) for n, (early, late) in enumerate(pairwise(values))]
    sizes = [abs(value) for value in excess]
    # most differences of a slow series of whole numbers are equal: their median deviation is 0
    limit = STEP_DEVIATIONS * ROBUST * (median(sizes) or fmean(sizes))
    found = [n for n, value in enumerate(excess) if abs(value) > limit and abs(value) > 1e-9 * max(map(abs, values))]
    single = {
        group[0]
        for group in ([n for n in found if excess[n] > 0], [n for n in found if excess[n] < 0])
        if len(group) == 1
    }
    shift, levels = 0.0, [values[0]]
    for n, value in enumerate(values[1:]):
        shift += excess[n] if n in single else 0.0
        levels.append(value - shift)
    return levels, len(found)


def backtest(days: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Predict the last third from the first two. Return the largest error, and how many days ahead the last prediction was."""
    cut = len(days) * 2 // 3
    fit = theil_sen(days[:cut], values[:cut])
    errors = [abs(value - fit.start - fit.slope * day) for day, value in zip(days[cut:], values[cut:], strict=True)]
    return max(errors), days[-1] - days[cut - 1]
