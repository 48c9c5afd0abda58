"""Forecast the time to full redundancy after a failure, for each hour of the week ahead."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from dbops.engine.availability.forecast import LOOK_AHEAD, WEEK, Busy, Forecast, forecast, week_ahead
from dbops.engine.methods import DEFAULT_METHOD
from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import Duration, Prediction
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import REPLICAS, Role, RunBy
from dbops.loaders.availability_records import blocked_methods
from dbops.loaders.cluster_snapshots import predicted
from dbops.models import BackupSchedule, Cluster, Instance, Maintenance
from dbops.queries.backups.schedules import learned
from dbops.queries.schedule.windows import planned

#: A backup that started longer ago has ended, however long it takes.
LONGEST = timedelta(days=7)
#: Maximum number of due times of one schedule.
WINDOWS = 30_000


@dataclass(frozen=True, slots=True)
class ClusterForecast:
    """A cluster's forecast.

    ``rebuild`` is the predicted duration by ``method``; ``goal_seconds`` is the cluster's or the default.
    """

    forecast: Forecast
    rebuild: Prediction
    sources: tuple[str, ...]
    method: str
    goal_seconds: int
    has_own_goal: bool = False

    @property
    def breaches(self) -> int:
        return self.forecast.breaches(self.goal_seconds)

    @property
    def unknown(self) -> int:
        return self.forecast.unknown(self.goal_seconds)


def cluster_forecast(cluster: Cluster, now: datetime) -> ClusterForecast:
    """Return the week ahead of one cluster. Seven queries."""
    return forecasts([cluster.pk], now)[cluster.pk]


def forecasts(only: Collection[int], now: datetime) -> dict[int, ClusterForecast]:
    """Return the week ahead of clusters, by primary key. Seven queries, however many there are."""
    sources = _sources(only)
    found = predicted(DEFAULT_METHOD, {key: one.bytes_to_copy for key, one in sources.items()})
    pieces = week_ahead(now, timezone.get_current_timezone())
    within = Interval(pieces[0].interval.start, now + WEEK + LOOK_AHEAD)
    backups, stops, goals = _backups(sources, within), _maintenance(only, within), _goals(only)
    return {
        key: ClusterForecast(
            forecast=forecast(
                pieces,
                sources[key].names,
                [*backups[key], *stops[key]],
                rebuild_seconds=duration.p50_seconds if (duration := found[key].duration) else None,
            ),
            rebuild=found[key],
            sources=sources[key].names,
            method=DEFAULT_METHOD,
            goal_seconds=settings.REDUNDANCY_GOAL_SECONDS if (own := goals[key]) is None else own,
            has_own_goal=goals[key] is not None,
        )
        for key in only
    }


def _goals(only: Collection[int]) -> dict[int, int | None]:
    """Return each cluster's own goal; ``None`` where the default applies."""
    return dict(Cluster.objects.filter(pk__in=only).order_by().values_list("pk", "redundancy_goal_seconds"))


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources of a cluster's rebuilds, and their smallest measured size."""

    names: tuple[str, ...] = ()
    bytes_to_copy: int | None = None


def _sources(only: Collection[int]) -> dict[int, _Sources]:
    """Return the sources of each cluster's rebuilds, as in ``eligibility.sources_of``."""
    size = KeyTextTransform("data_bytes", KeyTransform("datadir", "state__record"))
    rows = Instance.objects.filter(cluster__in=only, role__in=REPLICAS).annotate(size=size).order_by("name")
    others: dict[int, list[tuple[str, str, str | None]]] = defaultdict(list)
    for key, name, role, measured in rows.values_list("cluster", "name", "role", "size"):
        others[key].append((name, role, measured))
    return {key: _chosen(others[key]) for key in only}


def _chosen(others: Sequence[tuple[str, str, str | None]]) -> _Sources:
    if len(others) < 2:
        return _Sources()
    chosen = [one for one in others if one[1] == Role.BACKUP] or others
    sizes = [int(size) for _, _, size in chosen if size not in (None, "null", "")]
    return _Sources(tuple(name for name, _, _ in chosen), min(sizes, default=None))


def _backups(sources: Mapping[int, _Sources], within: Interval) -> dict[int, list[Busy]]:
    """Return when scheduled backups read sources, by cluster."""
    names = {name for one in sources.values() for name in one.names}
    # Filtered by cluster: a large fleet has more names than a statement may have parameters.
    rows = BackupSchedule.objects.filter(instance__cluster__in=list(sources), is_enabled=True)
    schedules = [row for row in rows.select_related("instance").order_by("pk") if row.instance.name in names]
    durations = learned(schedules)
    found: dict[int, list[Busy]] = defaultdict(list)
    for schedule in schedules:
        found[schedule.instance.cluster_id] += _windows(schedule, durations[schedule.pk], within)
    return found


def _windows(schedule: BackupSchedule, duration: Duration | None, within: Interval) -> Iterable[Busy]:
    if DEFAULT_METHOD not in blocked_methods(schedule.method, schedule.run_by == RunBy.DBOPS):
        return
    # A backup without an estimated end counts from now on: an earlier one is a run by now, or was missed.
    before = min(LONGEST, timedelta(seconds=duration.p50_seconds)) if duration else timedelta()
    within = Interval(within.start - before, within.end)
    for window in planned([schedule], {schedule.pk: duration}, within, most=WINDOWS):
        yield Busy(
            window.instance,
            window.starts_at,
            window.ends_p50,
            phrase("backup {schedule} of {instance}", schedule=window.schedule, instance=window.instance),
        )


def _maintenance(only: Collection[int], within: Interval) -> dict[int, list[Busy]]:
    rows = Maintenance.objects.filter(cluster__in=only, starts_at__lt=within.end)
    found: dict[int, list[Busy]] = defaultdict(list)
    for row in rows.filter(Q(ends_at=None) | Q(ends_at__gt=within.start)).order_by("starts_at", "pk"):
        found[row.cluster_id].append(
            Busy("", row.starts_at, row.ends_at, phrase("maintenance ({reason})", reason=row.reason))
        )
    return found
