"""Sum up gaps by day for storage.

Days are in UTC: they have one length and mean the same to every reader. Time is counted in whole microseconds, so
that sums of days and sums of intervals are exactly equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval

#: Raise this number when the same facts lead to other gaps: all days are then counted again.
RULES = 2
DAY = timedelta(days=1)
#: A day is counted this long after its end, when running probes have finished and missed ones are known.
SETTLED_AFTER = timedelta(hours=1)


class SumKey(NamedTuple):
    """The key of a sum."""

    gap: Gap
    cause: Cause
    is_planned: bool


#: Microseconds by key.
Amounts = dict[SumKey, int]


def midnight(day: date) -> datetime:
    """Return the start of a day."""
    return datetime.combine(day, time(), tzinfo=UTC)


def day_of(moment: datetime) -> date:
    """Return the day of a moment."""
    return moment.astimezone(UTC).date()


def first_full_day(moment: datetime) -> date:
    """Return the first day that starts at or after a moment."""
    day = day_of(moment)
    return day if midnight(day) == moment else day + DAY


def settled_until(now: datetime, longest_gap: timedelta) -> date:
    """Return the first day that can still change; all earlier days are final.

    Args:
        longest_gap: ``engine.availability.periods.longest_gap``.
    """
    return day_of(now - max(SETTLED_AFTER, 2 * longest_gap))


def microseconds(interval: Interval) -> int:
    """Return the exact length of an interval in microseconds."""
    return (interval.end - interval.start) // timedelta(microseconds=1)


def amounts(found: Iterable[Shortage]) -> Amounts:
    """Return the durations of gaps by key."""
    sums: Amounts = defaultdict(int)
    for part in found:
        sums[SumKey(part.gap, part.cause, bool(part.planned))] += microseconds(part.interval)
    return dict(sums)


def by_day(found: Iterable[Shortage]) -> dict[tuple[date, SumKey], int]:
    """Return the durations of gaps by day; a gap over midnight is split."""
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
    """Return the sum of several sums."""
    whole: Amounts = defaultdict(int)
    for one in sums:
        for kind, value in one.items():
            whole[kind] += value
    return {kind: value for kind, value in whole.items() if value}
