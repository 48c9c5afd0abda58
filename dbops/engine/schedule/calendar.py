"""Calculate with intervals: free time, days by the clock of a time zone, and positions for drawing.

Every calculation is in UTC: between two times of one zone Python counts hours of the wall clock, so a day with a clock change would
have 24 hours.
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
        ValueError: it ends before it begins, or a time has no zone.
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
        """Return whether the two overlap; an empty interval overlaps nothing."""
        return max(self.start, other.start) < min(self.end, other.end)

    def within(self, outer: "Interval") -> "Interval | None":
        """Return the part inside ``outer``, ``None`` if there is none."""
        if not self.meets(outer):
            return None
        return Interval(max(self.start, outer.start), min(self.end, outer.end))


def clip(intervals: Iterable[Interval], outer: Interval) -> list[Interval]:
    """Return the parts inside ``outer``, in the given order."""
    return [part for interval in intervals if (part := interval.within(outer)) is not None]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same time without overlaps, in order; adjacent intervals are joined, and empty ones dropped."""
    merged: list[Interval] = []
    for interval in sorted(item for item in intervals if item.seconds):
        if merged and interval.start <= merged[-1].end:
            if interval.end > merged[-1].end:
                merged[-1] = Interval(merged[-1].start, interval.end)
        else:
            merged.append(interval)
    return merged


def free(blocked: Iterable[Interval], outer: Interval) -> list[Interval]:
    """Return the time of ``outer`` outside ``blocked``: together they cover all of it and do not overlap."""
    left, moment = [], outer.start
    for interval in merge(clip(blocked, outer)):
        if moment < interval.start:
            left.append(Interval(moment, interval.start))
        moment = interval.end
    if moment < outer.end:
        left.append(Interval(moment, outer.end))
    return left


def common(sets: Sequence[Iterable[Interval]], outer: Interval) -> list[Interval]:
    """Return the time in ``outer`` that is in every set: all of it if there is no set."""
    return free([gap for one in sets for gap in free(one, outer)], outer)


def day(on: date, zone: tzinfo) -> Interval:
    """Return one day of the wall clock: 23 or 25 hours when the clock changes.

    If midnight does not exist, the day begins when the clock jumps over it; if midnight comes twice, at the first.
    """
    return Interval(_midnight(on, zone), _midnight(on + timedelta(days=1), zone))


def days(first: date, count: int, zone: tzinfo) -> list[Interval]:
    """Return consecutive days without a gap."""
    return [day(first + timedelta(days=number), zone) for number in range(count)]


def _midnight(on: date, zone: tzinfo) -> datetime:
    return datetime.combine(on, time(), tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class PlacedInterval:
    """The position of an interval on a scale of 100."""

    left: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


def place(interval: Interval, outer: Interval) -> PlacedInterval | None:
    """Return the position of the part of an interval inside ``outer``, in percent of its width; ``None`` if outside."""
    part = interval.within(outer)
    if part is None or not outer.seconds:
        return None
    return PlacedInterval(
        100 * (part.start - outer.start).total_seconds() / outer.seconds,
        100 * part.seconds / outer.seconds,
    )


def position(moment: datetime, outer: Interval) -> float | None:
    """Return the position of a moment, in percent; ``None`` if outside."""
    if not outer.start <= moment <= outer.end or not outer.seconds:
        return None
    return 100 * (moment - outer.start).total_seconds() / outer.seconds


@dataclass(frozen=True, slots=True)
class Tick:
    """A full hour on the scale: its position and its moment."""

    left: float
    at: datetime


def ticks(outer: Interval, zone: tzinfo, every_hours: int) -> list[Tick]:
    """Return the full hours of the wall clock that ``every_hours`` divides. An hour that comes twice appears twice."""
    found = []
    moment = outer.start.replace(minute=0, second=0, microsecond=0)
    # Step by quarters: the offset of some zones is a half or three quarters of an hour.
    while moment <= outer.end:
        local = moment.astimezone(zone)
        left = position(moment, outer)
        if left is not None and local.minute == 0 and local.hour % every_hours == 0:
            found.append(Tick(left, moment))
        moment += timedelta(minutes=15)
    return found


@dataclass(frozen=True, slots=True)
class LanedInterval(Generic[T]):
    """An item with an interval, and the lane (from 0) in which it is drawn."""

    item: T
    lane: int


def lanes(items: Iterable[tuple[Interval, T]]) -> list[LanedInterval[T]]:
    """Give each item the first lane without an overlap; this needs as many lanes as items overlap at once."""
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
    """A clock change of a zone: its moment, and its seconds; forward is positive."""

    at: datetime
    seconds: float


def next_clock_change(zone: tzinfo, after: datetime, days_ahead: int) -> ClockChange | None:
    """Return the zone's first clock change later than ``after``, ``None`` if there is none within the given days."""
    low = after.astimezone(UTC)
    for number in range(1, days_ahead + 1):
        high = after.astimezone(UTC) + timedelta(days=number)
        if (shift := _offset(zone, high) - _offset(zone, low)) != 0:
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) / 2
                low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
            # Clock changes happen on full minutes.
            at = (high + timedelta(seconds=29)).replace(second=0, microsecond=0)
            return ClockChange(at, shift)
        low = high
    return None


def _offset(zone: tzinfo, moment: datetime) -> float:
    offset = moment.astimezone(zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
