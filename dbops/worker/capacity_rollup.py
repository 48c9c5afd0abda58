"""Thin out capacity readings: hourly for two weeks, then one a day, for years."""

import time
from collections import defaultdict
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from django.db import transaction

from dbops.engine.availability.days import DAY, day_of, midnight
from dbops.engine.capacity.rates import COUNTERS
from dbops.models import CapacityReading

#: How long readings are kept hourly, and daily.
HOURLY, DAILY = timedelta(days=14), timedelta(days=5 * 366)
#: Instances of a day that one transaction thins, and old rows that one statement deletes.
INSTANCES, ROWS = 50, 1000
RATES = tuple(f"{name}_per_second" for name in COUNTERS)


def thin(now: datetime, *, seconds: float = 20.0) -> int:
    """Turn readings of days that ended two weeks ago into one a day. Return the number of deleted rows.

    The last reading of a day stays, with the average rates of the day. A concurrent call changes nothing twice.

    Args:
        seconds: no new work starts after this time; the next call continues.
    """
    deleted, began = 0, time.monotonic()
    until = midnight(day_of(now - HOURLY))
    while time.monotonic() - began < seconds:
        oldest = CapacityReading.objects.filter(is_daily=False, at__lt=until).order_by("at").first()
        if oldest is None:
            return deleted + _forget(now)
        deleted += _thin_day(midnight(day_of(oldest.at)))
    return deleted


def _thin_day(start: datetime) -> int:
    """Thin one day of some instances."""
    hourly = CapacityReading.objects.filter(is_daily=False, at__gte=start, at__lt=start + DAY)
    some = list(hourly.order_by("instance_id").values_list("instance_id", flat=True).distinct()[:INSTANCES])
    days: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in hourly.filter(instance__in=some).order_by("at").values("pk", "instance", *RATES):
        days[row["instance"]].append(row)
    deleted = 0
    with transaction.atomic():
        for rows in days.values():
            last = CapacityReading.objects.filter(pk=rows[-1]["pk"], is_daily=False)
            if last.update(is_daily=True, **{name: _average(rows, name) for name in RATES}):
                count, _ = CapacityReading.objects.filter(pk__in=[row["pk"] for row in rows[:-1]]).delete()
                deleted += count
    return deleted


def _average(rows: list[dict[str, Any]], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return fmean(known) if known else None


def _forget(now: datetime) -> int:
    old = list(CapacityReading.objects.filter(is_daily=True, at__lt=now - DAILY).values_list("pk", flat=True)[:ROWS])
    return CapacityReading.objects.filter(pk__in=old).delete()[0] if old else 0
