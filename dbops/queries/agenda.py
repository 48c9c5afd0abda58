"""The time of clusters: what ran, what is due, when a rebuild could start. For the clusters that a page shows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.db.models import Window as Over
from django.db.models.functions import RowNumber

from dbops.engine.backups import RUN_FINAL, RunStatus
from dbops.engine.calendar import Interval
from dbops.engine.picture import Picture
from dbops.engine.prediction import Past, Prediction, predict
from dbops.engine.states import FINAL, Status
from dbops.engine.timeline import Bar, BarKind, Timeline, timeline
from dbops.engine.verdicts import Verdict, verdict
from dbops.engine.windows import LEARNED_RUNS, Duration, Window
from dbops.models import BackupRun, BackupSchedule, Maintenance, Rebuild
from dbops.queries.clusters import ClusterNow
from dbops.queries.planned import planned
from dbops.queries.schedules import learned

#: A window that begins later than the drawing ends may still be in the way of what starts within it.
LOOK_AHEAD = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Agenda:
    """One cluster: the one answer, its picture with windows, and its time."""

    cluster: ClusterNow
    picture: Picture
    verdict: Verdict
    timeline: Timeline


def agendas(clusters: Sequence[ClusterNow], within: Interval, now: datetime) -> list[Agenda]:
    """Return the agenda of each cluster. Six queries, however many clusters there are."""
    keys = [cluster.pk for cluster in clusters]
    windows, durations = _windows(keys, Interval(now, max(now, within.end) + LOOK_AHEAD))
    predictions = _predictions(keys)
    history = _history(clusters, within)
    found = []
    for cluster in clusters:
        picture = replace(
            cluster.picture,
            windows=tuple(windows[cluster.pk]),
            prediction=predictions[cluster.pk],
            jobs=tuple(
                replace(job, duration=predictions[cluster.pk].duration if job.rebuild else durations.get(job.schedule))
                for job in cluster.picture.jobs
            ),
        )
        found.append(Agenda(cluster, picture, verdict(picture), timeline(picture, history[cluster.pk], within)))
    return found


def _windows(
    keys: Collection[int], within: Interval
) -> tuple[Mapping[int, list[Window]], Mapping[str, Duration | None]]:
    """Return the windows by cluster, and how long runs take by schedule."""
    schedules = list(BackupSchedule.objects.filter(instance__cluster__in=keys).select_related("instance"))
    places = {item.name: item.instance.cluster_id for item in schedules}
    found: dict[int, list[Window]] = defaultdict(list)
    durations = learned(schedules)
    for window in planned(schedules, durations, within):
        found[places[window.schedule]].append(window)
    return found, {item.name: durations[item.pk] for item in schedules}


def _predictions(keys: Collection[int]) -> Mapping[int, Prediction]:
    """How long a rebuild of each cluster takes, from its own last ones."""
    rows = (
        Rebuild.objects.filter(status=Status.SUCCEEDED, target__cluster__in=keys, started_at__isnull=False)
        .annotate(place=Over(RowNumber(), partition_by=F("target__cluster_id"), order_by=F("started_at").desc()))
        .filter(place__lte=LEARNED_RUNS)
        .order_by("-started_at")
        .values_list("target__cluster_id", "started_at", "finished_at")
    )
    past: dict[int, list[Past]] = defaultdict(list)
    for cluster, start, end in rows:
        if start and end:
            past[cluster].append(Past((end - start).total_seconds()))
    return {key: predict(past[key]) for key in keys}


def _history(clusters: Sequence[ClusterNow], within: Interval) -> Mapping[int, list[Bar]]:
    """What has ended, and maintenance, by cluster."""
    places = {member.pk: (member.name, cluster.pk) for cluster in clusters for member in cluster.members}
    keys = [cluster.pk for cluster in clusters]
    found: dict[int, list[Bar]] = defaultdict(list)
    for cluster, bar in (*_of_runs(keys, places, within), *_of_rebuilds(keys, places, within)):
        found[cluster].append(bar)
    stops = Maintenance.objects.filter(cluster__in=keys, starts_at__lt=within.end)
    for stop in stops.filter(Q(ends_at=None) | Q(ends_at__gt=within.start)):
        end = max(stop.starts_at, stop.ends_at or within.end)
        bar = Bar(BarKind.MAINTENANCE, "", Interval(stop.starts_at, end), stop.reason, is_open=stop.ends_at is None)
        found[stop.cluster_id].append(bar)
    return found


def _of_runs(
    keys: Collection[int], places: Mapping[int, tuple[str, int]], within: Interval
) -> Iterable[tuple[int, Bar]]:
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
        title = f"{method} backup of {name}" + (f" ({schedule})" if schedule else "")
        yield cluster, Bar(BarKind.BACKUP, name, Interval(start, end), title, status=status, run=pk)


def _of_rebuilds(
    keys: Collection[int], places: Mapping[int, tuple[str, int]], within: Interval
) -> Iterable[tuple[int, Bar]]:
    rows = Rebuild.objects.filter(
        target__cluster__in=keys, status__in=FINAL, started_at__lt=within.end, finished_at__gt=within.start
    ).values_list("pk", "target_id", "source_id", "status", "started_at", "finished_at")
    for pk, target, source, status, start, end in rows:
        if start is None or end is None or end < start:
            continue
        name, cluster = places[target]
        busy = (places[source][0],) if source in places else ()
        title = f"rebuild {pk} of {name}" + (f" from {busy[0]}" if busy else "")
        yield (
            cluster,
            Bar(BarKind.REBUILD, name, Interval(start, end), title, status=status, busy=busy, rebuild=pk),
        )
