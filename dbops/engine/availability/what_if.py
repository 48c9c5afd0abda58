"""What if: a cluster's real history with one thing changed, and what it would have been short of then. Pure.

Only what was in the way of rebuilds is changed. How long rebuilds took and what they waited for stays as it was: nobody knows what they
would have done.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from dbops.engine.availability.days import Amounts, amounts
from dbops.engine.availability.gaps import parts
from dbops.engine.availability.record import HEALTHY, Cause, ClusterRecord, OccupiedPeriod, StatePeriod
from dbops.engine.availability.shortages import Gap
from dbops.engine.schedule.calendar import Interval, clip, merge
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.states import Role

#: A change that removes less than this share of the blocked time is none.
LEAST_PERCENT = 1.0
#: What a source is called that is not there.
ADDED = "another source"

M = TypeVar("M", bound=MethodTraits)


@dataclass(frozen=True, slots=True)
class WhatIfChange:
    """One thing that might be done.

    Args:
        schedule: whose runs are changed; empty for none.
        by: they begin so much later; earlier where it is negative.
        takes: each of them takes so long; ``None``: as long as it took.
        blocks: by which methods no rebuild starts beside them; ``None``: as it was.
        adds_source: there is one more backup instance, always healthy, that no backup reads.
    """

    schedule: str = ""
    by: timedelta = timedelta()
    takes: timedelta | None = None
    blocks: frozenset[str] | None = None
    adds_source: bool = False

    @property
    def effort(self) -> tuple[bool, bool, timedelta]:
        """How much it asks for: another hour less than another kind of backup, that less than another machine."""
        return self.adds_source, self.takes is not None, abs(self.by)


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """What a cluster was short of, and would have been, in microseconds by kind."""

    change: WhatIfChange
    before: Amounts
    after: Amounts

    @property
    def blocked_before(self) -> int:
        return blocked(self.before)

    @property
    def blocked_after(self) -> int:
        return blocked(self.after)

    @property
    def removed_percent(self) -> float:
        """How much of the time in which no rebuild could start it removes; negative where it adds."""
        return 100 * (1 - self.blocked_after / self.blocked_before) if self.blocked_before else 0.0


def blocked(found: Amounts) -> int:
    """Return how long no rebuild could start."""
    return sum(value for kind, value in found.items() if kind.gap is Gap.NOT_REBUILDABLE)


def changed(record: ClusterRecord, change: WhatIfChange, period: Interval) -> ClusterRecord:
    """Return a period's history with a change.

    Runs that are moved over an end of the period come in at the other one: so the same hours of backup stand before and after.
    """
    if change.schedule:
        record = replace(record, occupied=tuple(_changed(record.occupied, change, period)))
    return _with_source(record) if change.adds_source else record


def _changed(occupied: Iterable[OccupiedPeriod], change: WhatIfChange, period: Interval) -> Iterator[OccupiedPeriod]:
    for item in occupied:
        if item.cause is not Cause.BACKUP or item.schedule != change.schedule:
            yield item
            continue
        interval = (
            item.interval if change.takes is None else Interval(item.interval.start, item.interval.start + change.takes)
        )
        blocks = item.blocks if change.blocks is None else change.blocks
        for piece in _moved(interval, change.by, period):
            yield replace(item, interval=piece, blocks=blocks)


def _moved(interval: Interval, by: timedelta, period: Interval) -> list[Interval]:
    """Return the part that lies in a period, moved; what leaves it at one end comes in at the other."""
    if not by:
        return [interval]
    length = period.end - period.start
    found = []
    for part in clip([interval], period):
        for turn in (-1, 0, 1):
            shift = by + turn * length
            found += clip([Interval(part.start + shift, part.end + shift)], period)
    return found


def _with_source(record: ClusterRecord) -> ClusterRecord:
    """Add a backup instance that was healthy whenever anybody looked at the cluster at all."""
    there = merge(interval for _, _, interval in record.expected)
    looked = merge(item.interval for item in record.seen)
    return replace(
        record,
        expected=(*record.expected, *((ADDED, Role.BACKUP, interval) for interval in there)),
        seen=(*record.seen, *(StatePeriod(ADDED, Role.BACKUP, HEALTHY, interval) for interval in looked)),
    )


def compare(record: ClusterRecord, change: WhatIfChange, period: Interval, *, method: MethodTraits) -> WhatIfOutcome:
    """Return what one change would have made of a period."""
    return _compared(record, change, period, method, _amounts(record, period, method))


def _compared(
    record: ClusterRecord, change: WhatIfChange, period: Interval, method: MethodTraits, before: Amounts
) -> WhatIfOutcome:
    return WhatIfOutcome(change, before, _amounts(changed(record, change, period), period, method))


def _amounts(record: ClusterRecord, period: Interval, method: MethodTraits) -> Amounts:
    return amounts(parts(record, period, method=method))


def proposals(
    record: ClusterRecord, changes: Sequence[WhatIfChange], period: Interval, *, method: MethodTraits
) -> list[WhatIfOutcome]:
    """Return the changes that remove a part of the time in which no rebuild could start, the best first; of two that are as good
    the one that asks for less."""
    before = _amounts(record, period, method)
    if not blocked(before):
        return []
    found = [_compared(record, change, period, method, before) for change in changes]
    good = [one for one in found if one.removed_percent >= LEAST_PERCENT]
    return sorted(good, key=lambda one: (one.blocked_after, one.change.effort))


def by_method(record: ClusterRecord, period: Interval, methods: Iterable[M]) -> list[tuple[M, dict[Cause, int]]]:
    """Return by way of rebuilding how long none could start, in microseconds by cause, the longest first. The record has complete
    backups, too."""
    return [(method, _by_cause(_amounts(record, period, method))) for method in methods]


def _by_cause(found: Amounts) -> dict[Cause, int]:
    sums: dict[Cause, int] = defaultdict(int)
    for kind, value in found.items():
        if kind.gap is Gap.NOT_REBUILDABLE:
            sums[kind.cause] += value
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
