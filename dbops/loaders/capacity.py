"""Load what is known of a cluster's capacity: the histories of its instances, its thresholds, and its rebuild time."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings

from dbops.engine.capacity.cluster import History, RebuildForecast, limits_of
from dbops.engine.capacity.limits import CapacityLimit, LimitKind
from dbops.engine.capacity.trend import DailyValue
from dbops.engine.methods import DEFAULT_METHOD
from dbops.engine.states import REPLICAS, Role
from dbops.loaders.cluster_snapshots import predicted
from dbops.models import CapacityReading, CapacityThreshold, Cluster, Instance

#: How far back readings count: what grew before is no guide to what comes.
WINDOW = timedelta(days=180)
COLUMNS = (
    *("schemas", "tables", "partitions", "backup_bytes", "open_tables", "open_definitions"),
    *("table_open_cache", "table_open_cache_instances", "table_definition_cache", "innodb_open_files"),
    *("open_files_limit", "connections_peak", "max_connections", "binlog_bytes", "binlog_expire_seconds"),
    *("disk_bytes", "disk_free_bytes", "data_dir_bytes", "kept_bytes"),
    *("redo_capacity_bytes", "redo_bytes_per_second", "cache_misses_per_second"),
)


def limits_now(cluster: Cluster, now: datetime) -> tuple[CapacityLimit, ...]:
    """Return the ranked limits of a cluster. It takes 30 ms for each series: for the worker, not for pages."""
    histories = histories_of(cluster, now)
    return limits_of(histories, thresholds_of(cluster.pk), rebuild_forecast_of(cluster, histories))


def histories_of(cluster: Cluster, now: datetime) -> list[History]:
    """Return what was read of each instance within ``WINDOW``, by name. Two queries."""
    series: dict[int, dict[str, list[DailyValue]]] = defaultdict(lambda: defaultdict(list))
    counters: dict[int, dict[str, list[DailyValue]]] = defaultdict(lambda: defaultdict(list))
    largest: dict[int, dict[str, int]] = defaultdict(dict)
    rows = CapacityReading.objects.filter(instance__cluster=cluster, at__gte=now - WINDOW, at__lte=now).order_by("at")
    for key, at, found, *values in rows.values_list("instance", "at", "auto_increment", *COLUMNS):
        for name, value in zip(COLUMNS, values, strict=True):
            if value is not None:
                series[key][name].append(DailyValue(at, float(value)))
        for one in found or ():
            name = f"{one['schema']}.{one['table']}.{one['column']}"
            counters[key][name].append(DailyValue(at, float(one["value"])))
            largest[key][name] = one["largest"]
    return [
        History(name, role == Role.PRIMARY, series[key], counters[key], largest[key])
        for key, name, role in Instance.objects.filter(cluster=cluster)
        .order_by("name")
        .values_list("pk", "name", "role")
    ]


def thresholds_of(cluster_id: int) -> dict[LimitKind, int]:
    """Return the thresholds that people set for a cluster. One query."""
    rows = CapacityThreshold.objects.filter(cluster=cluster_id).order_by("kind")
    return {LimitKind(kind): value for kind, value in rows.values_list("kind", "value")}


def rebuild_forecast_of(cluster: Cluster, histories: Sequence[History]) -> RebuildForecast | None:
    """Return how long a rebuild takes from the smallest source, ``None`` if that is unknown. At most five queries."""
    others = Instance.objects.filter(cluster=cluster, role__in=REPLICAS).values_list("name", "role")
    roles = dict(others)
    backups = {name for name, role in roles.items() if role == Role.BACKUP}
    sizes = {
        history.name: int(size)
        for history in histories
        if history.name in (backups or roles) and (size := history.last("backup_bytes"))
    }
    if len(roles) < 2 or not sizes:
        return None
    source = min(sizes, key=lambda name: sizes[name])
    once, twice = (
        predicted(DEFAULT_METHOD, {cluster.pk: factor * sizes[source]})[cluster.pk].duration for factor in (1, 2)
    )
    if once is None or twice is None:
        return None
    own = cluster.redundancy_goal_seconds
    return RebuildForecast(
        instance=source,
        seconds=once.p50_seconds,
        double_seconds=twice.p50_seconds,
        goal_seconds=settings.REDUNDANCY_GOAL_SECONDS if own is None else own,
    )
