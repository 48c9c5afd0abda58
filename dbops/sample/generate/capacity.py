"""Generate months of capacity readings of the sample's instances, and the forecast from them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sin, tau
from typing import Any

from dbops.engine.capacity.limits import LimitKind
from dbops.lifecycle.capacity_forecasts import store_limits
from dbops.loaders.capacity import limits_now
from dbops.models import CapacityForecast, CapacityReading, CapacityThreshold, Cluster, Instance
from dbops.sample.generate.clusters import CLUSTERS, GIB, SampleCluster, free_bytes_of

DAY = timedelta(days=1)
#: Readings of each hour reach back this far, those of each day as long as the cluster is read.
HOURLY = timedelta(days=2)
INT_UNSIGNED = 2**32 - 1
FILE_SYSTEM_SHARE = 1.04
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SampleGrowth:
    """How a cluster grows. Numbers are of today; ``schemas_a_day``, ``connections_a_day`` and ``ids_a_day`` go back from there.

    ``days``: how long it is read. ``step``: days ago and share of the data that was deleted then.
    """

    schemas: int
    tables_of_schema: int
    cache: int
    days: int = 150
    schemas_a_day: float = 0.0
    connections: int = 120
    connections_a_day: float = 0.0
    growth: bool = True
    ids: int = 0
    ids_a_day: int = 0
    step: tuple[int, float] | None = None
    questions: int = 2400


#: One cluster for each thing that the page can show: a full disk, nothing that grows, an auto-increment column, a new cluster, schemas.
GROWTH = {
    "billing": SampleGrowth(24, 41, 4000, step=(71, 0.03)),
    "crm": SampleGrowth(6, 190, 4000, growth=False, questions=310),
    "search": SampleGrowth(
        3, 64, 2000, connections=431, connections_a_day=0.4, ids=4_050_000_000, ids_a_day=3_100_000, questions=8900
    ),
    "sessions": SampleGrowth(1, 12, 2000, days=8, questions=5200),
    "shop": SampleGrowth(561, 40, 8000, schemas_a_day=0.52, questions=3700),
}
THRESHOLDS = {"shop": {LimitKind.SCHEMAS: 600}}
MAX_CONNECTIONS = 500
#: Largest tables: share of the data.
LARGEST = {
    "billing": {
        "billing.invoice_lines": 0.31,
        "billing.postings": 0.17,
        "billing.invoices": 0.09,
        "archive.lines_2019": 0.05,
    },
    "crm": {"crm.mails": 0.38, "crm.contacts": 0.08, "crm.activities": 0.06},
    "search": {"search.queries": 0.42, "search.clicks": 0.23, "search.documents": 0.11},
    "sessions": {"sessions.sessions": 0.81, "sessions.devices": 0.07},
    "shop": {f"shop_{number:04d}.order_lines": 0.021 - 0.0012 * number for number in range(1, 11)},
}


def write_readings(instances: dict[str, Instance], now: datetime, seed: int) -> int:
    """Store readings, thresholds and forecasts of all clusters. Return the number of readings."""
    dice = random.Random(seed)  # noqa: S311 - it guards nothing, and is to be the same each time
    rows = [
        row
        for cluster in CLUSTERS
        for number, name in enumerate(cluster.instances)
        for row in _readings(cluster, instances[name], number, now, dice)
    ]
    CapacityReading.objects.bulk_create(rows, batch_size=ROWS_AT_ONCE)
    for row in Cluster.objects.order_by("name"):
        for kind, value in THRESHOLDS.get(row.name, {}).items():
            CapacityThreshold.objects.create(cluster=row, kind=kind, value=value)
        store_limits(CapacityForecast.objects.create(cluster=row, due_at=now), limits_now(row, now), now)
    return len(rows)


def _readings(
    cluster: SampleCluster, instance: Instance, number: int, now: datetime, dice: random.Random
) -> Iterator[CapacityReading]:
    plan, last = GROWTH[cluster.name], now - timedelta(minutes=3 + number)
    hours = HOURLY // timedelta(hours=1)
    times = [(last - days * DAY, True) for days in range(plan.days, HOURLY // DAY, -1)]
    times += [(last - timedelta(hours=ago), False) for ago in range(hours, -1, -1)]
    for at, is_daily in times:
        # The rates of a daily reading are averages of the day.
        of_hour = 0.0 if is_daily else sin(tau * (at.hour - 8) / 24)
        values = _values(cluster, plan, instance.name, (now - at) / DAY, of_hour, dice)
        yield CapacityReading(instance=instance, at=at, is_daily=is_daily, **values)


def _values(
    cluster: SampleCluster, plan: SampleGrowth, name: str, days_ago: float, of_hour: float, dice: random.Random
) -> dict[str, Any]:
    """Return all columns of one reading."""
    data = cluster.data_bytes * (1 - plan.growth * cluster.growth * days_ago / 7) * dice.gauss(1, 0.0006)
    if plan.step and days_ago > plan.step[0]:
        data += cluster.data_bytes * plan.step[1]
    used_now, data_bytes = int(cluster.data_bytes * FILE_SYSTEM_SHARE), int(data)
    disk = used_now + free_bytes_of(cluster, name)
    schemas = plan.schemas - round(plan.schemas_a_day * days_ago)
    tables = schemas * plan.tables_of_schema
    is_backup = "-b" in name
    load = (1 + 0.35 * of_hour) * dice.gauss(1, 0.03) * (0.05 if is_backup else 1.0)
    peak = min(MAX_CONNECTIONS, round(plan.connections - plan.connections_a_day * days_ago + dice.gauss(0, 3)))
    return {
        "schemas": schemas,
        "tables": tables,
        "partitions": 0,
        "data_bytes": int(data_bytes * 0.71),
        "index_bytes": int(data_bytes * 0.27),
        "file_bytes": int(data_bytes * 0.98),
        "backup_bytes": data_bytes,
        "largest": _largest(cluster, data_bytes) if days_ago < 1 else None,
        "auto_increment": _auto_increment(cluster.name, plan, days_ago),
        "open_tables": min(tables, plan.cache),
        "open_definitions": min(tables, 2000),
        "open_files": min(tables, plan.cache) + 40,
        "table_open_cache": plan.cache,
        "table_open_cache_instances": 16 if cluster.flavor == "mysql" else 8,
        "table_definition_cache": 2000,
        "innodb_open_files": plan.cache,
        "open_files_limit": 1_048_576,
        "connections": round(peak * 0.6),
        "connections_peak": peak if not is_backup else 14,
        "max_connections": MAX_CONNECTIONS,
        "binlog_bytes": int(cluster.data_bytes * 0.04),
        "binlog_expire_seconds": 7 * 86400,
        "redo_capacity_bytes": 16 * GIB,
        "disk_bytes": disk,
        "disk_free_bytes": disk - int(data_bytes * FILE_SYSTEM_SHARE),
        "data_dir_bytes": int(data_bytes * FILE_SYSTEM_SHARE),
        "kept_bytes": 0,
        "uptime_seconds": max(3600, int((41 - days_ago) % 41 * 86400)),
        "questions_per_second": plan.questions * load,
        "writes_per_second": plan.questions * 0.08 * load,
        "redo_bytes_per_second": 350_000 * (1 - 0.001 * plan.growth * days_ago) * dice.gauss(1, 0.02),
        "cache_misses_per_second": max(0.0, (tables - plan.cache) / 200 * load),
    }


def _auto_increment(cluster: str, plan: SampleGrowth, days_ago: float) -> list[dict[str, Any]] | None:
    if not plan.ids:
        return None
    value = plan.ids - round(plan.ids_a_day * days_ago)
    return [{"schema": cluster, "table": "queries", "column": "id", "value": value, "largest": INT_UNSIGNED}]


def _largest(cluster: SampleCluster, data_bytes: int) -> list[dict[str, Any]]:
    found = []
    for name, share in LARGEST[cluster.name].items():
        schema, _, table = name.partition(".")
        found.append({"schema": schema, "table": table, "bytes": int(share * data_bytes)})
    return found
