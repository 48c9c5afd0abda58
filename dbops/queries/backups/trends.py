"""Read durations and sizes of backup runs: one series per schedule, and one per instance without one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.core.paginator import Page, Paginator
from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import Coalesce, Lower, RowNumber
from django.db.models.lookups import Contains

from dbops.engine.backups.trends import PastRun, odd_ones
from dbops.engine.schedule.backup_windows import LEARNED_RUNS, Duration, learn
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import RUN_FINAL, RunStatus
from dbops.models import BackupRun, BackupSchedule
from dbops.queries.backups.schedules import learned

SERIES_ON_A_PAGE = 10
PERIODS = (30, 90, 365)
#: Maximum number of runs per series; a schedule of every minute has half a million runs a year.
RUNS_DRAWN = 400


class SeriesKey(NamedTuple):
    """One series, in page order. ``schedule`` is 0 for runs without a schedule."""

    instance_name: str
    name: str
    schedule: int
    instance: int
    method: str
    cluster: str


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one series that ended in the period, oldest first. ``total`` counts all of them."""

    key: SeriesKey
    within: Interval
    duration: Duration | None
    runs: tuple[PastRun, ...]
    total: int

    @property
    def odd(self) -> list[PastRun]:
        return odd_ones(self.runs)

    @property
    def newest_first(self) -> tuple[PastRun, ...]:
        return self.runs[::-1]

    @property
    def last(self) -> PastRun | None:
        """Return the newest run with a size or a duration."""
        return next((run for run in self.newest_first if run.seconds is not None or run.bytes is not None), None)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    page: Page[SeriesKey]
    series: tuple[Series, ...]
    within: Interval


def history(now: datetime, *, days: int, text: str = "", number: str | int = 1) -> HistoryPage:
    """Return one page of series. Six queries at most, however many schedules and runs there are.

    Args:
        days: how far back from now.
        text: looked for in the names of schedules, instances and clusters.
    """
    within = Interval(now - timedelta(days=days), now)
    keys = sorted([*_schedules(text), *_without_schedule(text, within)])
    page = Paginator(keys, SERIES_ON_A_PAGE).get_page(number)
    return HistoryPage(page, tuple(_series(list(page.object_list), within)), within)


def _matching(text: str, *names: str) -> Q:
    # `icontains` would not do: it is case-sensitive with MariaDB's binary collation.
    wanted = Q()
    for name in names:
        wanted |= Q(Contains(Lower(name), text.lower()))
    return wanted if text else Q()


def _schedules(text: str) -> Iterable[SeriesKey]:
    found = BackupSchedule.objects.filter(_matching(text, "name", "instance__name", "instance__cluster__name"))
    columns = ("instance__name", "name", "pk", "instance_id", "method", "instance__cluster__name")
    return (SeriesKey(*row) for row in found.order_by().values_list(*columns))


def _without_schedule(text: str, within: Interval) -> Iterable[SeriesKey]:
    found = _of_period(within).filter(schedule=None)
    found = found.filter(_matching(text, "instance__name", "instance__cluster__name"))
    columns = ("instance__name", "instance_id", "method", "instance__cluster__name")
    for instance_name, instance, method, cluster in found.order_by().values_list(*columns).distinct():
        yield SeriesKey(instance_name, "", 0, instance, method, cluster)


def _of_period(within: Interval) -> QuerySet[BackupRun]:
    # A missed run ends when it is recorded as missed.
    return BackupRun.objects.filter(status__in=RUN_FINAL, finished_at__gt=within.start)


def _series(keys: Collection[SeriesKey], within: Interval) -> Iterable[Series]:
    scheduled = [key.schedule for key in keys if key.schedule]
    durations = learned(BackupSchedule.objects.filter(pk__in=scheduled)) if scheduled else {}
    found = {**_runs_of_schedules(scheduled, within), **_runs_without(keys, within)}
    for key in keys:
        runs, total = found.get((key.schedule, key.instance, key.method) if not key.schedule else key.schedule, ([], 0))
        duration = durations.get(key.schedule) if key.schedule else _learned_from(runs)
        yield Series(key, within, duration, tuple(reversed(runs)), total)


def _learned_from(runs: Iterable[PastRun]) -> Duration | None:
    known = [run.seconds for run in runs if run.status == RunStatus.SUCCEEDED and run.seconds is not None]
    return learn(known[:LEARNED_RUNS])


_Found = Mapping[object, tuple[list[PastRun], int]]


def _runs_of_schedules(schedules: Collection[int], within: Interval) -> _Found:
    return _newest(_of_period(within).filter(schedule__in=schedules), ("schedule_id",)) if schedules else {}


def _runs_without(keys: Collection[SeriesKey], within: Interval) -> _Found:
    instances = [key.instance for key in keys if not key.schedule]
    if not instances:
        return {}
    rows = _of_period(within).filter(schedule=None, instance__in=instances)
    found = _newest(rows, ("instance_id", "method"))
    return {(0, *key): runs for key, runs in found.items() if isinstance(key, tuple)}


def _newest(rows: QuerySet[BackupRun], by: tuple[str, ...]) -> _Found:
    """Return the newest runs of each group with their number. One query."""
    groups = [F(name) for name in by]
    moment = Coalesce("started_at", "due_at", "queued_at", "finished_at")
    found: dict[object, list[PastRun]] = defaultdict(list)
    totals: dict[object, int] = {}
    rows = rows.annotate(
        moment=moment,
        place=Window(RowNumber(), partition_by=groups, order_by=[moment.desc(), F("pk").desc()]),
        total=Window(Count("pk"), partition_by=groups),
    ).filter(place__lte=RUNS_DRAWN)
    columns = ("pk", "moment", "status", "flags", "started_at", "finished_at", "bytes_written", "total")
    for row in rows.order_by("place").values_list(*by, *columns):
        group = row[0] if len(by) == 1 else row[: len(by)]
        pk, at, status, flags, start, end, size, total = row[len(by) :]
        seconds = max(0.0, (end - start).total_seconds()) if start and end else None
        found[group].append(PastRun(pk, at, status, tuple(flags or ()), seconds, size))
        totals[group] = total
    return {group: (runs, totals[group]) for group, runs in found.items()}
