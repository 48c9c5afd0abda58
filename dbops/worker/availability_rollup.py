"""Count the gaps of finished days once and store them, so that pages need not judge a whole year."""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min

from dbops.engine.availability.days import DAY, RULES, by_day, day_of, midnight, settled_until
from dbops.engine.availability.gaps import parts
from dbops.engine.availability.periods import longest_gap
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.calendar import Interval
from dbops.lifecycle import availability_rollups
from dbops.loaders.availability_records import records
from dbops.models import Cluster, CountedDays, GapDay, InstancePeriod, Maintenance, Rebuild

#: Number of clusters read at once, and of days of each.
CLUSTERS, DAYS = 50, timedelta(days=92)
ROWS = 500


def count_days(now: datetime, *, seconds: float = 20.0) -> int:
    """Count and store days that are finished. Return the number of clusters with new days.

    A concurrent call counts the same days and stores nothing.

    Args:
        seconds: no new work starts after this time; the next call continues.
    """
    _begin(now)
    until, counted, began = settled_until(now, longest_gap(settings.PROBE_INTERVAL_SECONDS)), 0, time.monotonic()
    while time.monotonic() - began < seconds:
        marks = list(CountedDays.objects.filter(until__lt=until).order_by("until", "pk")[:CLUSTERS])
        marks = [mark for mark in marks if mark.until == marks[0].until]
        if not marks:
            break
        kept = _count(marks, min(until, marks[0].until + DAYS), now)
        if not kept:
            break
        counted += kept
    return counted


def _begin(now: datetime) -> None:
    """Create the rows of clusters without one, or counted by other rules. Four queries if there is none."""
    if other := list(CountedDays.objects.exclude(rules=RULES).values_list("cluster", flat=True)):
        availability_rollups.recount(other, None, now)
    new = list(Cluster.objects.filter(gap_count=None).order_by().values_list("pk", flat=True))
    if not new:
        return
    firsts: dict[int, list[datetime]] = defaultdict(list)
    for rows, cluster, moment in (
        (InstancePeriod.objects.all(), "cluster", "started_at"),
        (Rebuild.objects.all(), "target__cluster", "requested_at"),
        (Maintenance.objects.all(), "cluster", "starts_at"),
    ):
        found = rows.filter(**{f"{cluster}__in": new}).order_by().values_list(cluster).annotate(first=Min(moment))
        for key, first in found:
            firsts[key].append(first)
    # A day earlier: rows being written now may be slightly older than what is read here.
    days = {key: day_of(min([*firsts[key], now])) - DAY for key in new}
    CountedDays.objects.bulk_create(
        [CountedDays(cluster_id=key, since=day, until=day, rules=RULES) for key, day in days.items()],
        ignore_conflicts=True,
    )


def _count(marks: Sequence[CountedDays], until: date, now: datetime) -> int:
    whole = Interval(midnight(marks[0].until), midnight(until))
    past = records([mark.cluster_id for mark in marks], whole, now, method=METHODS[DEFAULT_METHOD])
    sums = {mark.pk: by_day(parts(past[mark.cluster_id], whole, method=METHODS[DEFAULT_METHOD])) for mark in marks}
    with transaction.atomic():
        kept = [mark for mark in marks if _claim(mark, until)]
        rows = (
            GapDay(
                cluster_id=mark.cluster_id,
                day=day,
                gap=kind.gap.name.lower(),
                cause=kind.cause.name.lower(),
                is_planned=kind.is_planned,
                microseconds=value,
            )
            for mark in kept
            for (day, kind), value in sums[mark.pk].items()
        )
        GapDay.objects.bulk_create(rows, batch_size=ROWS)
    return len(kept)


def _claim(mark: CountedDays, until: date) -> bool:
    """Move the end, unless another process did, or the past has changed since it was read."""
    same = CountedDays.objects.filter(pk=mark.pk, until=mark.until, revision=mark.revision)
    return bool(same.update(until=until, revision=F("revision") + 1))
