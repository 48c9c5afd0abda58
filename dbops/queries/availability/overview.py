"""Read how well clusters can be rebuilt: their state now, and their gaps of a period with causes."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.paginator import Page
from django.utils import timezone

from dbops.engine.availability.days import Amounts, amounts
from dbops.engine.availability.debt import Week, debt, weeks
from dbops.engine.availability.gaps import parts, seconds_by_cause
from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.rebuilds.follow_ups import ROLLBACK
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import RunStatus, Status
from dbops.loaders.availability_records import records
from dbops.models import BackupRun, Cluster, Rebuild
from dbops.queries.availability.forecast import ClusterForecast, forecasts
from dbops.queries.availability.sums import totals
from dbops.queries.fleet.cluster_status import ClusterNow
from dbops.queries.fleet.overview import FleetPage, FleetRow, Show, fleet, matching
from dbops.queries.rebuilds.history import Last, newest

#: Periods that pages offer, in days up to now.
PERIODS = (7, 30, 90)
MICROSECONDS = 1_000_000
#: The gaps in the list of all clusters; a cluster's own page has all of them.
LISTED_GAPS = (Gap.NOT_REBUILDABLE, Gap.SHORT, Gap.NOT_OBSERVED)


@dataclass(frozen=True, slots=True)
class Sum:
    """The duration of one gap in a period of ``of_seconds``."""

    gap: Gap
    seconds: float
    of_seconds: float

    @property
    def percent(self) -> float:
        return 100 * self.seconds / self.of_seconds if self.of_seconds else 0.0


@dataclass(frozen=True, slots=True)
class Today:
    """One cluster now, its gaps, and its week ahead.

    ``rebuild`` and ``backup`` are the last successful ones or ``None``.
    """

    row: FleetRow
    rebuild: Last | None
    backup: Last | None
    sums: tuple[Sum, ...]
    ahead: ClusterForecast


@dataclass(frozen=True, slots=True)
class AvailabilityPage:
    """One page of clusters, with the period of their sums."""

    fleet: FleetPage
    period: Interval
    rows: tuple[Today, ...]

    @property
    def page(self) -> Page[ClusterNow]:
        return self.fleet.page


def period_of(days: int, now: datetime) -> Interval:
    """Return the last days up to now."""
    return Interval(now - timedelta(days=days), now)


def today(
    now: datetime, *, days: int, text: str = "", show: Show = Show.ALL, number: str | int = 1
) -> AvailabilityPage:
    """Return one page of clusters, with problems first. At most 32 queries more than the fleet page."""
    period = period_of(days, now)
    found = fleet(now, text=text, show=show, number=number, with_backups=False)
    keys = [row.agenda.cluster.pk for row in found.rows]
    rebuilds = newest(Rebuild.objects.filter(status=Status.SUCCEEDED).exclude(method=ROLLBACK), "target__cluster", keys)
    backups = newest(BackupRun.objects.filter(status=RunStatus.SUCCEEDED), "instance__cluster", keys)
    short, ahead = totals(keys, period, now), forecasts(keys, now)
    rows = (
        Today(row, rebuilds.get(key), backups.get(key), sums(short[key], period, LISTED_GAPS), ahead[key])
        for key, row in zip(keys, found.rows, strict=True)
    )
    return AvailabilityPage(fleet=found, period=period, rows=tuple(rows))


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """The gaps of one cluster in a period."""

    name: str
    sums: tuple[Sum, ...]
    amounts: Amounts


def everything(
    now: datetime, *, days: int, text: str = "", show: Show = Show.ALL
) -> tuple[Interval, tuple[ClusterSums, ...]]:
    """Return the sums of all clusters on the pages of ``today``, and their period."""
    period, clusters = period_of(days, now), matching(now, text=text, show=show)
    short = totals([cluster.pk for cluster in clusters], period, now)
    rows = (ClusterSums(one.name, sums(short[one.pk], period), short[one.pk]) for one in clusters)
    return period, tuple(rows)


def cluster_sums(now: datetime, *, days: int, only: Collection[int] | None = None) -> list[ClusterSums]:
    """Return the sums of all clusters, or of those with these primary keys, by name."""
    period = period_of(days, now)
    clusters = Cluster.objects.all() if only is None else Cluster.objects.filter(pk__in=only)
    names = dict(clusters.order_by("name").values_list("pk", "name"))
    short = totals(list(names), period, now)
    return [ClusterSums(name, sums(short[pk], period), short[pk]) for pk, name in names.items()]


def sums(found: Amounts, period: Interval, gaps: Iterable[Gap] = Gap) -> tuple[Sum, ...]:
    """Return the durations of some gaps of a cluster, by default of all."""
    by_gap: dict[Gap, int] = defaultdict(int)
    for kind, value in found.items():
        by_gap[kind.gap] += value
    return tuple(Sum(gap, by_gap[gap] / MICROSECONDS, period.seconds) for gap in gaps)


@dataclass(frozen=True, slots=True)
class ClusterGaps:
    """The gaps of one cluster in a period: sums, causes of the chosen gap, intervals and weeks below target."""

    period: Interval
    sums: tuple[Sum, ...]
    causes: tuple[tuple[Cause, float], ...]
    parts: tuple[Shortage, ...]
    weeks: tuple[Week, ...]
    record: ClusterRecord


def cluster_gaps(cluster: Cluster, now: datetime, *, days: int, gap: Gap) -> ClusterGaps:
    """Return the gaps of one cluster with the intervals behind each number. Ten queries."""
    return gaps_of(cluster, period_of(days, now), now, gap=gap)


def gaps_of(cluster: Cluster, period: Interval, now: datetime, *, gap: Gap | None) -> ClusterGaps:
    """Return the gaps of any period. ``None`` means all gaps, without causes."""
    record = records([cluster.pk], period, now, method=METHODS[DEFAULT_METHOD])[cluster.pk]
    found = parts(record, period, method=METHODS[DEFAULT_METHOD])
    return ClusterGaps(
        period=period,
        sums=sums(amounts(found), period),
        causes=tuple(seconds_by_cause(found, gap).items()) if gap else (),
        parts=tuple(part for part in reversed(found) if gap in (None, part.gap)),
        weeks=tuple(debt(found, weeks(period, timezone.get_current_timezone()))),
        record=record,
    )
