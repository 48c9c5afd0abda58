"""Sum up gaps of a period: finished days from stored sums, the rest from the record."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db.models import Sum as Total

from dbops.engine.availability.days import (
    RULES,
    Amounts,
    SumKey,
    added,
    amounts,
    day_of,
    first_full_day,
    microseconds,
    midnight,
)
from dbops.engine.availability.gaps import parts
from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.calendar import Interval
from dbops.loaders.availability_records import records
from dbops.models import CountedDays, GapDay

GAPS = {gap.name.lower(): gap for gap in Gap}
CAUSES = {cause.name.lower(): cause for cause in Cause}
UNSEEN = SumKey(Gap.NOT_OBSERVED, Cause.NOT_PROBED, False)


class _Counted(NamedTuple):
    """The sums of one cluster."""

    since: datetime
    until: datetime
    revision: int


def totals(only: Collection[int], period: Interval, now: datetime) -> dict[int, Amounts]:
    """Return the durations of gaps in microseconds, by gap and cause.

    At most 23 queries, plus ten for each day at which stored sums end for some clusters.

    The numbers are the same with and without stored days.
    """
    counted = _counted(only)
    stored = _stored(counted, period)
    # Stored days may have changed between the two queries: compute the changed ones from the record.
    again = _counted(only) if counted else {}
    counted = {key: mark for key, mark in counted.items() if again.get(key) == mark}
    found: dict[int, list[Amounts]] = {key: [stored[key]] if key in counted else [] for key in only}
    todo: dict[Interval, list[int]] = defaultdict(list)
    for key in only:
        for piece in _left(counted.get(key), period):
            todo[piece].append(key)
        if key in counted:
            found[key].append(_before(counted[key], period))
    for piece, keys in todo.items():
        for key, record in records(keys, piece, now, method=METHODS[DEFAULT_METHOD]).items():
            found[key].append(amounts(parts(record, piece, method=METHODS[DEFAULT_METHOD])))
    return {key: added(*found[key]) for key in only}


def _counted(only: Collection[int]) -> dict[int, _Counted]:
    rows = CountedDays.objects.filter(cluster__in=only, rules=RULES)
    return {
        key: _Counted(midnight(since), midnight(until), revision)
        for key, since, until, revision in rows.values_list("cluster", "since", "until", "revision")
    }


def _stored(counted: Collection[int], period: Interval) -> dict[int, Amounts]:
    """Return the sums of the full days of a period. One query."""
    found: dict[int, Amounts] = defaultdict(dict)
    if not counted:
        return found
    days = GapDay.objects.filter(
        cluster__in=list(counted), day__gte=first_full_day(period.start), day__lt=day_of(period.end)
    )
    kinds = days.order_by().values_list("cluster", "gap", "cause", "is_planned").annotate(total=Total("microseconds"))
    for key, gap, cause, is_planned, total in kinds:
        found[key][SumKey(GAPS[gap], CAUSES[cause], is_planned)] = int(total)
    return found


def _left(mark: _Counted | None, period: Interval) -> list[Interval]:
    """Return the parts of a period without stored sums, from the first known moment on."""
    first, last = midnight(first_full_day(period.start)), midnight(day_of(period.end))
    if mark is None or mark.since >= period.end or first >= min(last, mark.until):
        return [period]
    head = Interval(period.start, first) if mark.since < first else None
    tail = Interval(min(last, mark.until), period.end)
    return [piece for piece in (head, tail) if piece and piece.seconds]


def _before(mark: _Counted, period: Interval) -> Amounts:
    """Return the time before anything was known of a cluster: it counts as not observed."""
    if _left(mark, period) == [period] or mark.since < midnight(first_full_day(period.start)):
        return {}
    return {UNSEEN: microseconds(Interval(period.start, mark.since))}
