"""Time on paper: intervals, what is left free between them, days as the clock on the wall has them, and where to draw each.

Every calculation is in UTC: between two times of one zone Python counts hours of the wall clock, and a day on which the clock
changes would have 24 of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """From ``start`` up to, but not including, ``end``. Both are aware and kept in UTC.

    Raises:
        ValueError: it would end before it begins, or a time has no zone.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("an interval needs times with a zone")
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))
        if self.end < self.start:
            raise ValueError(f"an interval cannot end ({self.end}) before it begins ({self.start})")

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def holds(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    def meets(self, other: "Interval") -> bool:
        """Tell whether the two have any time in common; an empty one has none with any."""
        return max(self.start, other.start) < min(self.end, other.end)

    def within(self, outer: "Interval") -> "Interval | None":
        """Return the part that lies in ``outer``, ``None`` where there is none."""
        if not self.meets(outer):
            return None
        return Interval(max(self.start, outer.start), min(self.end, outer.end))


def clip(intervals: Iterable[Interval], outer: Interval) -> list[Interval]:
    """Return the parts that lie in ``outer``, in the order given."""
    return [part for interval in intervals if (part := interval.within(outer)) is not None]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same time without overlaps, in order; neighbours that touch become one. Empty intervals are dropped."""
    merged: list[Interval] = []
    for interval in sorted(item for item in intervals if item.seconds):
        if merged and interval.start <= merged[-1].end:
            if interval.end > merged[-1].end:
                merged[-1] = Interval(merged[-1].start, interval.end)
        else:
            merged.append(interval)
    return merged


def free(blocked: Iterable[Interval], outer: Interval) -> list[Interval]:
    """Return what ``blocked`` leaves of ``outer``: together they are the whole of it, and have no moment in common."""
    left, moment = [], outer.start
    for interval in merge(clip(blocked, outer)):
        if moment < interval.start:
            left.append(Interval(moment, interval.start))
        moment = interval.end
    if moment < outer.end:
        left.append(Interval(moment, outer.end))
    return left


def common(sets: Sequence[Iterable[Interval]], outer: Interval) -> list[Interval]:
    """Return the time in ``outer`` that is in each of the sets: all of it where there is no set."""
    return free([gap for one in sets for gap in free(one, outer)], outer)


def day(on: date, zone: tzinfo) -> Interval:
    """Return one day of the clock on the wall: 23 or 25 hours when the clock changes.

    A midnight that does not exist is the moment at which the clock jumps over it; of one that comes twice the first counts.
    """
    return Interval(_midnight(on, zone), _midnight(on + timedelta(days=1), zone))


def days(first: date, count: int, zone: tzinfo) -> list[Interval]:
    """Return days that follow each other without a gap."""
    return [day(first + timedelta(days=number), zone) for number in range(count)]


def _midnight(on: date, zone: tzinfo) -> datetime:
    return datetime.combine(on, time(), tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class PlacedInterval:
    """Where an interval stands on a line that is 100 wide."""

    left: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


def place(interval: Interval, outer: Interval) -> PlacedInterval | None:
    """Return where to draw the part of an interval that lies in ``outer``, in percent of its width; ``None`` for none."""
    part = interval.within(outer)
    if part is None or not outer.seconds:
        return None
    return PlacedInterval(
        100 * (part.start - outer.start).total_seconds() / outer.seconds,
        100 * part.seconds / outer.seconds,
    )


def position(moment: datetime, outer: Interval) -> float | None:
    """Return where a moment stands, in percent; ``None`` outside."""
    if not outer.start <= moment <= outer.end or not outer.seconds:
        return None
    return 100 * (moment - outer.start).total_seconds() / outer.seconds


@dataclass(frozen=True, slots=True)
class Tick:
    """A full hour on a line: where, and its moment."""

    left: float
    at: datetime


def ticks(outer: Interval, zone: tzinfo, every_hours: int) -> list[Tick]:
    """Return the full hours of the wall clock that ``every_hours`` divides. One that comes twice stands there twice."""
    found = []
    moment = outer.start.replace(minute=0, second=0, microsecond=0)
    # Quarters: some zones are half an hour or three quarters off.
    while moment <= outer.end:
        local = moment.astimezone(zone)
        left = position(moment, outer)
        if left is not None and local.minute == 0 and local.hour % every_hours == 0:
            found.append(Tick(left, moment))
        moment += timedelta(minutes=15)
    return found


@dataclass(frozen=True, slots=True)
class LanedInterval(Generic[T]):
    """Something with an interval, and the lane (from 0) in which it is drawn."""

    item: T
    lane: int


def lanes(items: Iterable[tuple[Interval, T]]) -> list[LanedInterval[T]]:
    """Give each item the first lane in which it overlaps nothing; as many lanes as overlap at the worst moment."""
    ends: list[datetime] = []
    placed = []
    for interval, item in sorted(items, key=lambda pair: pair[0]):
        lane = next((number for number, end in enumerate(ends) if end <= interval.start), len(ends))
        if lane == len(ends):
            ends.append(interval.end)
        else:
            ends[lane] = interval.end
        placed.append(LanedInterval(item, lane))
    return placed


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The moment at which a zone's clock is set, and by how many seconds: forward is positive."""

    at: datetime
    seconds: float


def next_clock_change(zone: tzinfo, after: datetime, days_ahead: int) -> ClockChange | None:
    """Return the first change of the zone's clock later than ``after``, ``None`` when there is none in so many days."""
    low = after.astimezone(UTC)
    for number in range(1, days_ahead + 1):
        high = after.astimezone(UTC) + timedelta(days=number)
        if (shift := _offset(zone, high) - _offset(zone, low)) != 0:
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) / 2
                low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
            # Clocks are set on full minutes.
            at = (high + timedelta(seconds=29)).replace(second=0, microsecond=0)
            return ClockChange(at, shift)
        low = high
    return None


def _offset(zone: tzinfo, moment: datetime) -> float:
    offset = moment.astimezone(zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
