"""Read the agenda of clusters: past jobs, upcoming windows, and eligibility. For the clusters on a page."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from dbops.engine.methods import DEFAULT_METHOD, METHODS, method_named
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.eligibility import Eligibility, eligibility_of
from dbops.engine.schedule.snapshot import ClusterSnapshot
from dbops.engine.schedule.timeline import BarKind, Timeline, TimelineBar, timeline
from dbops.engine.states import FINAL, RUN_FINAL, RunStatus
from dbops.loaders.cluster_snapshots import snapshots
from dbops.models import BackupRun, Maintenance, Rebuild
from dbops.queries.fleet.cluster_status import ClusterNow

#: A window that begins after the end of the drawing can still block a start within it.
LOOK_AHEAD = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Agenda:
    """One cluster: its eligibility, its snapshot with windows, and its history."""

    cluster: ClusterNow
    snapshot: ClusterSnapshot
    eligibility: Eligibility
    timeline: Timeline


def agendas(clusters: Sequence[ClusterNow], within: Interval, now: datetime) -> list[Agenda]:
    """Return the agenda of each cluster. Thirteen queries, however many clusters there are."""
    ahead = max(now, within.end) + LOOK_AHEAD - now
    # Full hours, so that computed due times are reused by the next page.
    horizon = timedelta(hours=1 + ahead // timedelta(hours=1))
    made = snapshots(only=[cluster.pk for cluster in clusters], now=now, horizon=horizon)
    history = _history(clusters, within)
    found, method = [], METHODS[DEFAULT_METHOD]
    for cluster in clusters:
        snapshot = made[cluster.pk]
        eligibility = eligibility_of(snapshot, method=method)
        found.append(
            Agenda(cluster, snapshot, eligibility, timeline(snapshot, history[cluster.pk], within, method=method))
        )
    return found


def _history(clusters: Sequence[ClusterNow], within: Interval) -> Mapping[int, list[TimelineBar]]:
    """Return ended jobs and maintenance, by cluster."""
    places = {member.pk: (member.name, cluster.pk) for cluster in clusters for member in cluster.members}
    keys = [cluster.pk for cluster in clusters]
    found: dict[int, list[TimelineBar]] = defaultdict(list)
    for cluster, bar in (*_of_runs(keys, places, within), *_of_rebuilds(keys, places, within)):
        found[cluster].append(bar)
    # Maintenance that was marked afterwards blocked nothing.
    stops = Maintenance.objects.filter(cluster__in=keys, starts_at__lt=within.end, marked_at=None)
    for stop in stops.filter(Q(ends_at=None) | Q(ends_at__gt=within.start)):
        end = max(stop.starts_at, stop.ends_at or within.end)
        bar = TimelineBar(
            BarKind.MAINTENANCE, "", Interval(stop.starts_at, end), stop.reason, is_open=stop.ends_at is None
        )
        found[stop.cluster_id].append(bar)
    return found


def _of_runs(
    keys: Collection[int], places: Mapping[int, tuple[str, int]], within: Interval
) -> Iterable[tuple[int, TimelineBar]]:
    rows = BackupRun.objects.filter(
        instance__cluster__in=keys,
        status__in=RUN_FINAL - {RunStatus.MISSED},
        started_at__lt=within.end,
        finished_at__gt=within.start,
    ).values_list("pk", "instance_id", "status", "method", "started_at", "finished_at", "schedule__name")
    for pk, instance, status, method, start, end, schedule in rows:
        if start is None or end is None or end < start:
            continue
        name, cluster = places[instance]
        title = (
            phrase("{method} backup of {name} ({schedule})", method=method, name=name, schedule=schedule)
            if schedule
            else phrase("{method} backup of {name}", method=method, name=name)
        )
        yield cluster, TimelineBar(BarKind.BACKUP, name, Interval(start, end), title, status=status, run=pk)


def _of_rebuilds(
    keys: Collection[int], places: Mapping[int, tuple[str, int]], within: Interval
) -> Iterable[tuple[int, TimelineBar]]:
    rows = Rebuild.objects.filter(
        target__cluster__in=keys, status__in=FINAL, started_at__lt=within.end, finished_at__gt=within.start
    ).values_list("pk", "method", "target_id", "source_id", "status", "started_at", "finished_at")
    for pk, method, target, source, status, start, end in rows:
        if start is None or end is None or end < start:
            continue
        name, cluster = places[target]
        busy = (places[source][0],) if source in places and method_named(method).reads_source else ()
        title = (
            phrase("rebuild {pk} of {name} from {source}", pk=pk, name=name, source=busy[0])
            if busy
            else phrase("rebuild {pk} of {name}", pk=pk, name=name)
        )
        yield (
            cluster,
            TimelineBar(BarKind.REBUILD, name, Interval(start, end), title, status=status, busy=busy, rebuild=pk),
        )
