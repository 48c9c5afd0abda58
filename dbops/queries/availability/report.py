"""Read the monthly availability report of all clusters, and of one."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from dbops.engine.availability.rebuild_times import MethodTimes
from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap
from dbops.engine.availability.verified_sources import VerifiedSource
from dbops.engine.schedule.calendar import Interval, day
from dbops.models import Cluster
from dbops.queries.availability.forecast import ClusterForecast, cluster_forecast
from dbops.queries.availability.overview import LISTED_GAPS, MICROSECONDS, ClusterGaps, ClusterSums, Sum, gaps_of, sums
from dbops.queries.availability.sums import totals
from dbops.queries.rebuilds import history
from dbops.queries.restore_tests import RestoreStatus, restores


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """A calendar month or week, cut at now if unfinished. ``key`` names it in a URL."""

    title: str
    key: str
    period: Interval
    is_over: bool


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The report of all clusters.

    ``rows`` and ``causes`` start with the longest blocked time; ``restores`` has the restore tests of each cluster's
    sources.
    """

    span: ReportPeriod
    computed_at: datetime
    rows: tuple[ClusterSums, ...]
    whole: tuple[Sum, ...]
    causes: tuple[tuple[Gap, tuple[tuple[Cause, float], ...]], ...]
    restores: tuple[tuple[str, RestoreStatus], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The report of one cluster, with verified sources, restore tests and the week ahead of its computation."""

    span: ReportPeriod
    computed_at: datetime
    cluster: Cluster
    gaps: ClusterGaps
    times: tuple[MethodTimes, ...]
    verified_sources: tuple[tuple[VerifiedSource, bool], ...]
    restores: tuple[RestoreStatus, ...]
    ahead: ClusterForecast


def month_of(first: date, now: datetime, zone: tzinfo) -> ReportPeriod | None:
    """Return a month; ``None`` for a future one."""
    start = day(first, zone).start
    end = day(_next(first), zone).start
    if start >= now:
        return None
    return ReportPeriod(f"{first:%B %Y}", f"{first:%Y-%m}", Interval(start, min(end, now)), end <= now)


def last_week(now: datetime, zone: tzinfo) -> tuple[date, ReportPeriod]:
    """Return the Monday of the last finished week, and that week."""
    today = now.astimezone(zone).date()
    until = today - timedelta(days=today.weekday())
    monday = until - timedelta(days=7)
    period = Interval(day(monday, zone).start, day(until, zone).start)
    return monday, ReportPeriod(f"the week of {monday.day} {monday:%B %Y}", f"{monday:%Y-%m-%d}", period, is_over=True)


def last_month(now: datetime, zone: tzinfo) -> date:
    """Return the first day of the last finished month."""
    return (now.astimezone(zone).date().replace(day=1) - timedelta(days=1)).replace(day=1)


def _next(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1)


def fleet_report(span: ReportPeriod, now: datetime) -> FleetReport:
    """Return a month or a week of all clusters. At most 27 queries."""
    names = dict(Cluster.objects.order_by("name").values_list("pk", "name"))
    short = totals(list(names), span.period, now)
    rows = [ClusterSums(name, sums(short[key], span.period, LISTED_GAPS), short[key]) for key, name in names.items()]
    whole: dict[Gap, float] = defaultdict(float)
    causes: dict[tuple[Gap, Cause], float] = defaultdict(float)
    for found in short.values():
        for kind, value in found.items():
            whole[kind.gap] += value / MICROSECONDS
            causes[kind.gap, kind.cause] += value / MICROSECONDS
    of_seconds = span.period.seconds * len(names)
    known = restores(now)
    return FleetReport(
        span=span,
        computed_at=now,
        rows=tuple(sorted(rows, key=lambda row: tuple(-one.seconds for one in row.sums))),
        whole=tuple(Sum(gap, whole[gap], of_seconds) for gap in Gap),
        causes=tuple(
            (gap, tuple((cause, causes[gap, cause]) for cause in Cause if causes.get((gap, cause))))
            for gap in Gap
            if whole[gap]
        ),
        restores=tuple((names[key], one) for key in names for one in known.get(key, ())),
    )


def cluster_report(cluster: Cluster, span: ReportPeriod, now: datetime) -> ClusterReport:
    """Return a month of one cluster, with every interval. 26 queries."""
    sources = history.verified_sources(cluster)
    return ClusterReport(
        span=span,
        computed_at=now,
        cluster=cluster,
        gaps=gaps_of(cluster, span.period, now, gap=None),
        times=history.times(cluster, span.period),
        verified_sources=tuple((source, source.is_stale(now)) for source in sources),
        restores=tuple(restores(now, [cluster.pk]).get(cluster.pk, ())),
        ahead=cluster_forecast(cluster, now),
    )
