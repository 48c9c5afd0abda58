"""Gaps by day, as they are kept once a day is over: how long a cluster was short of what, for which cause. Pure.

Days are those of UTC: they all have one length, and mean the same to every reader. Time is counted in whole microseconds, so that
sums of days and sums of intervals are the same number and not only nearly so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval

#: Raise it when the same facts give other gaps than before: then all days are counted anew.
RULES = 2
DAY = timedelta(days=1)
#: A day is counted so long after its end: probes that were under way have written by then, and it shows whether one was missed.
SETTLED_AFTER = timedelta(hours=1)


class SumKey(NamedTuple):
    """What sums are told apart by."""

    gap: Gap
    cause: Cause
    is_planned: bool


#: Microseconds by kind.
Amounts = dict[SumKey, int]


def midnight(day: date) -> datetime:
    """Return the moment at which a day begins."""
    return datetime.combine(day, time(), tzinfo=UTC)


def day_of(moment: datetime) -> date:
    """Return the day that holds a moment."""
    return moment.astimezone(UTC).date()


def first_full_day(moment: datetime) -> date:
    """Return the first day that begins at a moment or after it."""
    day = day_of(moment)
    return day if midnight(day) == moment else day + DAY


def settled_until(now: datetime, longest_gap: timedelta) -> date:
    """Return the first day that may still change by itself; all before it are over.

    Args:
        longest_gap: ``engine.availability.periods.longest_gap``.
    """
    return day_of(now - max(SETTLED_AFTER, 2 * longest_gap))


def microseconds(interval: Interval) -> int:
    """Return the length of an interval, exactly."""
    return (interval.end - interval.start) // timedelta(microseconds=1)


def amounts(found: Iterable[Shortage]) -> Amounts:
    """Return how long gaps were, by kind."""
    sums: Amounts = defaultdict(int)
    for part in found:
        sums[SumKey(part.gap, part.cause, bool(part.planned))] += microseconds(part.interval)
    return dict(sums)


def by_day(found: Iterable[Shortage]) -> dict[tuple[date, SumKey], int]:
    """Return the same for each day; what goes over midnight is counted to both."""
    sums: dict[tuple[date, SumKey], int] = defaultdict(int)
    for part in found:
        kind = SumKey(part.gap, part.cause, bool(part.planned))
        for piece in _cut(part.interval):
            sums[day_of(piece.start), kind] += microseconds(piece)
    return dict(sums)


def _cut(interval: Interval) -> Iterator[Interval]:
    start = interval.start
    while start < interval.end:
        end = min(interval.end, midnight(day_of(start) + DAY))
        yield Interval(start, end)
        start = end


def added(*sums: Amounts) -> Amounts:
    """Return the sum of sums."""
    whole: Amounts = defaultdict(int)
    for one in sums:
        for kind, value in one.items():
            whole[kind] += value
    return {kind: value for kind, value in whole.items() if value}
