"""What the capacity pages show: the stored forecast and the series of a cluster, and the flags of the fleet."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max

from dbops.engine.capacity.limits import SOON, CapacityLimit, LimitKind
from dbops.engine.facts.instance import from_record
from dbops.loaders.capacity import thresholds_of
from dbops.models import CapacityForecast, CapacityReading, Cluster

#: Columns of a reading that a chart or a file can show.
SERIES = (
    *("schemas", "tables", "partitions", "data_bytes", "index_bytes", "file_bytes", "backup_bytes"),
    *("open_tables", "open_definitions", "open_files", "connections", "connections_peak", "binlog_bytes"),
    *("disk_bytes", "disk_free_bytes", "data_dir_bytes", "kept_bytes"),
    *("questions_per_second", "writes_per_second", "redo_bytes_per_second", "cache_misses_per_second"),
)


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """A cluster's ranked limits when they were computed. ``computed_at`` is ``None`` before the first time.

    ``flagged`` is the most urgent one, ``None`` if none is flagged.
    """

    limits: tuple[CapacityLimit, ...]
    flagged: CapacityLimit | None
    computed_at: datetime | None
    thresholds: dict[LimitKind, int]


def cluster_limits(cluster: Cluster) -> ClusterLimits:
    """Return the ranked limits of one cluster. Two queries."""
    row = CapacityForecast.objects.filter(cluster=cluster).first()
    return ClusterLimits(
        limits=tuple(from_record(CapacityLimit, one) for one in row.limits) if row else (),
        flagged=from_record(CapacityLimit, row.soonest) if row and row.soonest else None,
        computed_at=row.computed_at if row else None,
        thresholds=thresholds_of(cluster.pk),
    )


def readings_of(cluster: Cluster, since: datetime) -> Iterator[tuple[Any, ...]]:
    """Return instance, time and the values of ``SERIES`` of each reading since a time, by instance and time. One query."""
    rows = CapacityReading.objects.filter(instance__cluster=cluster, at__gte=since).order_by("instance__name", "at")
    return rows.values_list("instance__name", "at", *SERIES).iterator()


def series_of(
    cluster: Cluster, instance: str, since: datetime, columns: Collection[str]
) -> dict[str, list[tuple[datetime, float]]]:
    """Return the known values of each column of an instance since a time, in order of time. One query."""
    rows = CapacityReading.objects.filter(instance__cluster=cluster, instance__name=instance, at__gte=since)
    found: dict[str, list[tuple[datetime, float]]] = {name: [] for name in columns}
    for at, *values in rows.order_by("at").values_list("at", *columns):
        for name, value in zip(columns, values, strict=True):
            if value is not None:
                found[name].append((at, value))
    return found


def latest_readings(cluster: Cluster) -> dict[str, CapacityReading]:
    """Return the last reading of each instance, by name. One query."""
    last = (
        CapacityReading.objects.filter(instance__cluster=cluster).order_by().values("instance").annotate(last=Max("pk"))
    )
    rows = CapacityReading.objects.filter(pk__in=last.values("last")).select_related("instance")
    return {row.instance.name: row for row in rows}


def soon_by_cluster(now: datetime, only: int | None = None) -> dict[int, CapacityLimit]:
    """Return the flagged limit of each cluster that has one within ``SOON``, by the cluster's key. One query.

    Args:
        only: the key of one cluster.
    """
    rows = CapacityForecast.objects.filter(first_at__lte=now + SOON).order_by()
    rows = rows if only is None else rows.filter(cluster=only)
    return {key: from_record(CapacityLimit, limit) for key, limit in rows.values_list("cluster_id", "soonest")}
