"""Find the gaps of one cluster with a sweep over all moments of change.

Nothing changes between two such moments, so each part is judged once and the result is exact.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import ClusterMoment, Gap, Judge, Shortage
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.conflicts import MethodTraits


def parts(record: ClusterRecord, within: Interval, *, method: MethodTraits) -> list[Shortage]:
    """Return the gaps of a period in order. Gaps of one kind do not overlap, and equal neighbours are joined.

    Args:
        within: the returned period.
        method: the rebuild method for ``NOT_REBUILDABLE``.
    """
    found: dict[Gap, list[Shortage]] = {gap: [] for gap in Gap}
    sweep, judge = _Sweep(record), Judge(record, method)
    moments = _moments(record, within)
    for start, end in zip(moments, moments[1:], strict=False):
        if short_of := judge.of(sweep.at(start)):
            piece = Interval(start, end)
            for one in short_of:
                _append(found[one.gap], replace(one, interval=piece))
    return sorted((part for row in found.values() for part in row), key=lambda part: (part.interval, part.gap))


def _append(row: list[Shortage], part: Shortage) -> None:
    last = row[-1] if row else None
    if last and last.interval.end == part.interval.start and replace(part, interval=last.interval) == last:
        row[-1] = replace(last, interval=Interval(last.interval.start, part.interval.end))
    else:
        row.append(part)


def _moments(record: ClusterRecord, within: Interval) -> list[datetime]:
    """Return every moment of change in order, with both ends of the period."""
    moments = {moment for interval in record.boundaries() for moment in (interval.start, interval.end)}
    return [within.start, *sorted(moment for moment in moments if within.start < moment < within.end), within.end]


T = TypeVar("T")


class _Index(Generic[T]):
    """Find the intervals that contain a moment, for moments asked in order.

    The same list object is returned until an interval starts or ends, so that callers can reuse results.
    """

    def __init__(self, items: Iterable[tuple[Interval, T]]) -> None:
        self._items = sorted(items, key=lambda item: item[0].start)
        self._open: list[tuple[Interval, T]] = []
        self._found: list[T] = []
        self._taken = 0
        self._changes_at: datetime | None = self._items[0][0].start if self._items else None

    def at(self, moment: datetime) -> list[T]:
        if self._changes_at is None or moment < self._changes_at:
            return self._found
        while self._taken < len(self._items) and self._items[self._taken][0].start <= moment:
            self._open.append(self._items[self._taken])
            self._taken += 1
        self._open = [item for item in self._open if item[0].end > moment]
        following = [interval.end for interval, _ in self._open]
        if self._taken < len(self._items):
            following.append(self._items[self._taken][0].start)
        self._changes_at = min(following, default=None)
        self._found = [item for _, item in self._open]
        return self._found


class _Sweep:
    def __init__(self, record: ClusterRecord) -> None:
        self._seen, self._occupied = _index(record.seen), _index(record.occupied)
        self._phases, self._planned = _index(record.phases), _index(record.planned)
        self._backups = _index(record.backups)
        self._expected = _Index((interval, (name, role)) for name, role, interval in record.expected)

    def at(self, moment: datetime) -> ClusterMoment:
        return ClusterMoment(
            seen=self._seen.at(moment),
            expected=self._expected.at(moment),
            occupied=self._occupied.at(moment),
            phases=self._phases.at(moment),
            planned=self._planned.at(moment),
            backups=self._backups.at(moment),
        )


class _Timed(Protocol):
    @property
    def interval(self) -> Interval: ...


P = TypeVar("P", bound=_Timed)


def _index(items: Iterable[P]) -> _Index[P]:
    return _Index((item.interval, item) for item in items)


def seconds(found: Iterable[Shortage], gap: Gap) -> float:
    """Return the duration of one kind of gap."""
    return sum(part.interval.seconds for part in found if part.gap is gap)


def seconds_by_cause(found: Iterable[Shortage], gap: Gap) -> dict[Cause, float]:
    """Return the duration by cause, in the order of ``Cause``, without empty ones."""
    sums: dict[Cause, float] = {}
    for part in found:
        if part.gap is gap:
            sums[part.cause] = sums.get(part.cause, 0.0) + part.interval.seconds
    return {cause: sums[cause] for cause in Cause if cause in sums}
