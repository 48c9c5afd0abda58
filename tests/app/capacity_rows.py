"""Readings of instances that grow in a known way."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dbops.engine.facts.growth import AutoIncrement, GrowthReading, TableSize
from dbops.models import CapacityReading, Instance

NOW = datetime(2026, 11, 20, 13, 30, 17, tzinfo=UTC)
GIB = 1024**3


def make_growth(read_at: datetime = NOW, **values: Any) -> GrowthReading:
    """Return a reading as a probe makes it."""
    given: dict[str, Any] = {
        "schemas": 40,
        "tables": 800,
        "partitions": 12,
        "data_bytes": 90 * GIB,
        "index_bytes": 20 * GIB,
        "largest": (TableSize("shop", "orders", 30 * GIB),),
        "auto_increment": (AutoIncrement("shop", "orders", "id", 2 * 10**9, 2**31 - 1),),
        "table_definition_cache": 2000,
        "max_connections": 500,
        "connections_peak": 90,
        "uptime_seconds": 86400,
        "questions": 1_000_000,
        "writes": 1000,
        "redo_bytes": 10**9,
        "cache_misses": 50,
    }
    return GrowthReading(read_at, **(given | values))


def make_readings(
    instance: Instance, days: int = 90, *, until: datetime = NOW, per_day: dict[str, float] | None = None, **values: Any
) -> list[CapacityReading]:
    """Store one reading a day, the last one at ``until``. ``per_day``: how much columns grow; ``values``: their last values."""
    grows = per_day or {}
    return CapacityReading.objects.bulk_create(
        CapacityReading(
            instance=instance,
            at=until - timedelta(days=back),
            is_daily=back > 14,
            **{name: value - back * grows.get(name, 0) for name, value in values.items()},
        )
        for back in reversed(range(days))
    )
