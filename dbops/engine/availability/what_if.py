"""Replay the history of a cluster with one change.

Only the blockers of rebuilds change. Rebuild durations and waiting times stay as recorded.
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
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval, clip, merge
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.states import Role

#: A change that removes less than this share of the blocked time is ignored.
LEAST_PERCENT = 1.0
#: The name of the additional source.
ADDED = phrase("another source")

M = TypeVar("M", bound=MethodTraits)


@dataclass(frozen=True, slots=True)
class WhatIfChange:
    """A possible change.

    Args:
        schedule: the schedule whose runs change; empty for none.
        by: shift of the runs; negative is earlier.
        takes: duration of each run; ``None``: unchanged.
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
        """Return the effort: moving a schedule, then changing the backup method, then adding a machine."""
        return self.adds_source, self.takes is not None, abs(self.by)


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """The recorded and the changed gaps, in microseconds by key."""

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
        """Return the removed share of the blocked time; negative if the change adds to it."""
        return 100 * (1 - self.blocked_after / self.blocked_before) if self.blocked_before else 0.0


def blocked(found: Amounts) -> int:
    """Return the blocked time."""
    return sum(value for kind, value in found.items() if kind.gap is Gap.NOT_REBUILDABLE)


def changed(record: ClusterRecord, change: WhatIfChange, period: Interval) -> ClusterRecord:
    """Return the history of a period with a change.

    Runs moved over an end of the period reappear at the other end, so that the hours of backups stay the same.
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
    """Return the part within a period, moved; the part beyond one end reappears at the other."""
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
    """Add a backup instance that was healthy while the cluster was observed."""
    there = merge(interval for _, _, interval in record.expected)
    observed = merge(item.interval for item in record.seen)
    return replace(
        record,
        expected=(*record.expected, *((ADDED, Role.BACKUP, interval) for interval in there)),
        seen=(*record.seen, *(StatePeriod(ADDED, Role.BACKUP, HEALTHY, interval) for interval in observed)),
    )


def compare(record: ClusterRecord, change: WhatIfChange, period: Interval, *, method: MethodTraits) -> WhatIfOutcome:
    """Return the outcome of one change."""
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
    """Return the changes that reduce the blocked time, best first; of equal ones the one with less effort first."""
    before = _amounts(record, period, method)
    if not blocked(before):
        return []
    found = [_compared(record, change, period, method, before) for change in changes]
    good = [one for one in found if one.removed_percent >= LEAST_PERCENT]
    return sorted(good, key=lambda one: (one.blocked_after, one.change.effort))


def by_method(record: ClusterRecord, period: Interval, methods: Iterable[M]) -> list[tuple[M, dict[Cause, int]]]:
    """Return the blocked time by method, in microseconds by cause, longest first. The record has complete backups."""
    return [(method, _by_cause(_amounts(record, period, method))) for method in methods]


def _by_cause(found: Amounts) -> dict[Cause, int]:
    sums: dict[Cause, int] = defaultdict(int)
    for kind, value in found.items():
        if kind.gap is Gap.NOT_REBUILDABLE:
            sums[kind.cause] += value
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
