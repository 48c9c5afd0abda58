"""Forecast the time to full redundancy after a failure, for each hour of the week.

Scheduled backups and announced maintenance count as waiting time. Running and queued jobs are left out: they matter
only for the next hours, and the plan page shows them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from itertools import groupby, islice, takewhile
from math import ceil

from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval, common, merge

WEEK = timedelta(days=7)
#: Look-ahead beyond the week, for backups that start in it and end later.
LOOK_AHEAD = timedelta(days=3)
#: Some time zones differ by half an hour or three quarters.
QUARTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Busy:
    """Something that blocks rebuilds from a source.

    An empty ``source`` means all sources; ``end`` is ``None`` if unknown.
    """

    source: str
    start: datetime
    end: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class HourSlot:
    """A local hour of the week ahead, or a part of one. Monday is weekday 0."""

    weekday: int
    hour: int
    interval: Interval


class WaitCause(StrEnum):
    """Why a rebuild waits in an hour, or why its waiting time is unknown."""

    BUSY = "busy"
    NO_SOURCE = "no-source"
    NO_END = "no-end"
    NEVER_FREE = "never-free"


@dataclass(frozen=True, slots=True)
class ForecastHour:
    """The worst moment of one hour of the week.

    Args:
        at: the moment with the longest time to full redundancy.
        wait_seconds: until a rebuild can start; ``None`` if unknown.
        seconds: time to full redundancy; ``None`` if the wait or the rebuild duration is unknown.
        why: the reason of the wait, or of an unknown wait; empty if a rebuild can start at once.
        cause: the kind of that; ``None`` where a rebuild can start at once.
    """

    weekday: int
    hour: int
    at: datetime
    wait_seconds: float | None
    seconds: float | None
    why: str = ""
    cause: WaitCause | None = None

    def breaks(self, goal_seconds: float) -> bool:
        """Return whether the hour is over the goal, as far as known: a wait alone may be too long."""
        known = self.wait_seconds if self.seconds is None else self.seconds
        return known is not None and known > goal_seconds

    def keeps(self, goal_seconds: float) -> bool:
        return self.seconds is not None and self.seconds <= goal_seconds


@dataclass(frozen=True, slots=True)
class Forecast:
    """The hours of a week from now on, each weekday and hour once; an hour skipped by a clock change is left out."""

    hours: tuple[ForecastHour, ...]

    @property
    def worst(self) -> ForecastHour | None:
        """Return the slowest known hour, the first of several; ``None`` if none is known."""
        known = [hour for hour in self.hours if hour.seconds is not None]
        return max(known, key=lambda hour: hour.seconds or 0.0, default=None)

    @property
    def longest_wait(self) -> ForecastHour | None:
        known = [hour for hour in self.hours if hour.wait_seconds is not None]
        return max(known, key=lambda hour: hour.wait_seconds or 0.0, default=None)

    def breaches(self, goal_seconds: float) -> int:
        return sum(hour.breaks(goal_seconds) for hour in self.hours)

    def unknown(self, goal_seconds: float) -> int:
        """Return the number of hours for which it is unknown whether they meet the goal."""
        return sum(not hour.breaks(goal_seconds) and not hour.keeps(goal_seconds) for hour in self.hours)

    def of(self, weekday: int, hour: int) -> ForecastHour | None:
        return next((one for one in self.hours if (one.weekday, one.hour) == (weekday, hour)), None)


def week_ahead(now: datetime, zone: tzinfo) -> list[HourSlot]:
    """Return the hours of the seven days from ``now``; a clock change adds or removes one.

    The current hour is there twice, as its rest and as its beginning a week later: what ended before ``now`` delays
    no rebuild.
    """
    local = now.astimezone(zone)
    past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    start = (now - past).astimezone(zone)
    end = datetime.combine(start.date() + WEEK, time(start.hour), tzinfo=zone)
    week, first = Interval(now, end.astimezone(UTC) + past), start.astimezone(UTC)
    moments = [first + number * QUARTER for number in range(ceil((week.end - first) / QUARTER))]
    found = []
    for (date, hour, _), row in groupby(moments, lambda moment: _on_the_wall(moment, zone)):
        quarters = list(row)
        begins, ends = max(quarters[0], week.start), min(quarters[-1] + QUARTER, week.end)
        if begins < ends:
            found.append(HourSlot(date.weekday(), hour, Interval(begins, ends)))
    return found


def _on_the_wall(moment: datetime, zone: tzinfo) -> tuple[datetime, int, timedelta | None]:
    local = moment.astimezone(zone)
    return datetime.combine(local.date(), time()), local.hour, local.utcoffset()


def forecast(
    pieces: Sequence[HourSlot], sources: Sequence[str], busy: Iterable[Busy], *, rebuild_seconds: float | None
) -> Forecast:
    """Return the forecast of each hour.

    Args:
        pieces: ``week_ahead``.
        sources: the instances that a rebuild may read; it starts when one of them is free.
        busy: of these sources, from early enough before the first hour.
        rebuild_seconds: duration of a rebuild; ``None`` if unknown.
    """
    all_of_it = Interval(pieces[0].interval.start, pieces[-1].interval.end + LOOK_AHEAD)
    items = list(busy)
    blocked = _blocked(sources, items, all_of_it)
    hours: dict[tuple[int, int], ForecastHour] = {}
    ends = [block.end for block in blocked]
    for piece in pieces:
        key, met = (piece.weekday, piece.hour), _met(piece.interval, blocked, ends)
        found = _worst_of(piece, sources, met, items, all_of_it, rebuild_seconds)
        hours[key] = _worse(hours[key], found) if key in hours else found
    return Forecast(tuple(hours.values()))


def _met(hour: Interval, blocked: Sequence[Interval], ends: Sequence[datetime]) -> list[Interval]:
    """Return the blocks that overlap an hour. They are sorted: checking each for each hour took most of the time."""
    later = islice(blocked, bisect_right(ends, hour.start), None)
    return list(takewhile(lambda block: block.start < hour.end, later))


def _blocked(sources: Sequence[str], busy: Sequence[Busy], within: Interval) -> list[Interval]:
    """Return the times without a free source."""
    if not sources:
        return [within]
    sets = [[_interval(item, within) for item in busy if item.source in ("", source)] for source in sources]
    return merge(common([merge(one) for one in sets], within))


def _interval(item: Busy, within: Interval) -> Interval:
    return Interval(item.start, max(item.start, within.end if item.end is None else item.end))


def _worst_of(
    piece: HourSlot,
    sources: Sequence[str],
    blocked: Sequence[Interval],
    busy: Sequence[Busy],
    within: Interval,
    rebuild_seconds: float | None,
) -> ForecastHour:
    """Return the longest wait of an hour, which starts with the hour or with a block in it."""
    hour = piece.interval
    found = [ForecastHour(piece.weekday, piece.hour, hour.start, 0.0, rebuild_seconds)]
    for block in blocked:
        at = max(block.start, hour.start)
        if block.end < within.end:
            wait, why = (block.end - at).total_seconds(), _ends_with(block.end, busy)
            seconds = None if rebuild_seconds is None else wait + rebuild_seconds
            found.append(ForecastHour(piece.weekday, piece.hour, at, wait, seconds, why, WaitCause.BUSY))
        else:
            found.append(ForecastHour(piece.weekday, piece.hour, at, None, None, *_never(sources, busy, block)))
    worst = found[0]
    for one in found[1:]:
        worst = _worse(worst, one)
    return worst


def _worse(one: ForecastHour, other: ForecastHour) -> ForecastHour:
    """Return the hour with the longer wait; unknown waits come first, and the first of two equal ones."""
    if one.wait_seconds is None:
        return one
    return other if other.wait_seconds is None or other.wait_seconds > one.wait_seconds else one


def _ends_with(moment: datetime, busy: Iterable[Busy]) -> str:
    return next((item.why for item in busy if item.end == moment), "")


def _never(sources: Sequence[str], busy: Iterable[Busy], block: Interval) -> tuple[str, WaitCause]:
    if not sources:
        return phrase("no instance can serve as a source"), WaitCause.NO_SOURCE
    endless = [item for item in busy if item.end is None and item.start < block.end]
    if endless:
        return phrase("no estimated end: {why}", why=endless[0].why), WaitCause.NO_END
    return phrase("no source is free within {days} days", days=round(block.seconds / 86400)), WaitCause.NEVER_FREE
