"""Compute redundancy debt: the time with fewer healthy replicas than the target, by week and cause."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from dbops.engine.availability.gaps import seconds_by_cause
from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval, day

DAYS_OF_A_WEEK = 7


@dataclass(frozen=True, slots=True)
class Week:
    """A week, cut to the period, and the seconds below target by cause, in the order of ``Cause``."""

    interval: Interval
    causes: tuple[tuple[Cause, float], ...]

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.causes)

    def of(self, cause: Cause) -> float:
        return dict(self.causes).get(cause, 0.0)


def weeks(period: Interval, zone: tzinfo) -> list[Interval]:
    """Return the weeks of a period from local Monday to Monday, the first and last cut to the period."""
    first = period.start.astimezone(zone).date()
    monday, found = first - timedelta(days=first.weekday()), []
    while (start := day(monday, zone).start) < period.end:
        monday += timedelta(days=DAYS_OF_A_WEEK)
        if part := Interval(start, day(monday, zone).start).within(period):
            found.append(part)
    return found


def debt(found: Iterable[Shortage], of: Sequence[Interval]) -> list[Week]:
    """Return the debt of each week. The sum is all time below target if the weeks cover the period."""
    short = [part for part in found if part.gap is Gap.SHORT]
    return [Week(week, tuple(seconds_by_cause(_within(short, week), Gap.SHORT).items())) for week in of]


def _within(found: Iterable[Shortage], outer: Interval) -> Iterable[Shortage]:
    for part in found:
        if inner := part.interval.within(outer):
            yield Shortage(part.gap, inner, part.cause, part.reference, part.missing, part.planned)


def causes_of(found: Iterable[Week]) -> list[Cause]:
    """Return all causes in the weeks, in the order of ``Cause``."""
    there = {cause for week in found for cause, _ in week.causes}
    return [cause for cause in Cause if cause in there]
