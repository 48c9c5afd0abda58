"""Find the limits of one cluster in the histories of its instances."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean

from dbops.engine.capacity.limits import THRESHOLD, CapacityLimit, LimitKind, limit_of, ranked
from dbops.engine.capacity.trend import DailyValue, trend_of
from dbops.engine.phrases import phrase

HOUR_SECONDS = 3600
#: Auto-increment columns below this share of their type are far from any limit.
LEAST_SHARE = 0.01

Series = Sequence[DailyValue]


@dataclass(frozen=True, slots=True)
class History:
    """What was read of one instance.

    Args:
        series: known values of each column, in order of time.
        auto_increment: values of each column, by its name; ``largest`` has the largest value of its type.
    """

    name: str
    is_primary: bool = False
    series: Mapping[str, Series] = field(default_factory=dict)
    auto_increment: Mapping[str, Series] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)

    def last(self, column: str) -> float | None:
        """Return the last known value of a column."""
        points = self.series.get(column)
        return points[-1].value if points else None

    def values(self, *columns: str) -> list[DailyValue]:
        """Return the sum of columns at each time when all are known."""
        known = [{point.at: point.value for point in self.series.get(column, ())} for column in columns]
        return [DailyValue(at, sum(one[at] for one in known)) for at in known[0] if all(at in one for one in known)]


@dataclass(frozen=True, slots=True)
class RebuildForecast:
    """How long a rebuild of the cluster takes, from its source ``instance``.

    Args:
        seconds: predicted for the source's present bytes; ``double_seconds`` for twice as many: both are equal if the past
            rebuilds' bytes are unknown.
        goal_seconds: to be restored within.
    """

    instance: str
    seconds: float
    double_seconds: float
    goal_seconds: int


def limits_of(
    histories: Sequence[History], thresholds: Mapping[LimitKind, int], rebuild: RebuildForecast | None = None
) -> tuple[CapacityLimit, ...]:
    """Return the ranked limits of a cluster.

    What replicas share with the primary (schemas, tables, auto-increment columns) is taken from the primary, or from the instance with
    the longest history if it was never read.
    """
    leading = max(histories, key=lambda one: (bool(one.series) and one.is_primary, _length(one)), default=None)
    found: list[CapacityLimit] = []
    if leading:
        found += _shared(leading, thresholds)
    for history in histories:
        found += [*_disk(history, thresholds), *_caches(history), *_load(history)]
    if rebuild:
        found += _rebuild(histories, leading, rebuild)
    return ranked(found)


def _length(history: History) -> int:
    return max(map(len, history.series.values()), default=0)


def _limit(
    kind: LimitKind,
    history: History,
    points: Series,
    value: float | None,
    set_by: str,
    *,
    subject: str = "",
    evidence: Mapping[str, float | None] | None = None,
) -> Iterator[CapacityLimit]:
    """Yield the limit, unless its current or its own value is unknown."""
    trend = trend_of(points)
    if trend.level is None or value is None or value <= 0:
        return
    yield limit_of(
        kind,
        history.name,
        current=trend.level,
        value=value,
        set_by=set_by,
        trend=trend,
        subject=subject,
        evidence={name: f"{figure:.0f}" for name, figure in (evidence or {}).items() if figure is not None},
    )


def _shared(history: History, thresholds: Mapping[LimitKind, int]) -> Iterator[CapacityLimit]:
    for kind, column in ((LimitKind.SCHEMAS, "schemas"), (LimitKind.TABLES, "tables")):
        yield from _limit(kind, history, history.values(column), thresholds.get(kind), THRESHOLD)
    for name, points in history.auto_increment.items():
        largest = history.largest[name]
        if points and points[-1].value >= LEAST_SHARE * largest:
            yield from _limit(LimitKind.AUTO_INCREMENT, history, points, largest, phrase("column type"), subject=name)


def _disk(history: History, thresholds: Mapping[LimitKind, int]) -> Iterator[CapacityLimit]:
    """Yield the lower limit; both once the threshold is reached: the disk can still fill."""
    size, threshold = history.last("disk_bytes"), thresholds.get(LimitKind.DISK)
    free = {point.at: point.value for point in history.series.get("disk_free_bytes", ())}
    used = [
        DailyValue(one.at, one.value - free[one.at]) for one in history.series.get("disk_bytes", ()) if one.at in free
    ]
    limits: dict[str, float | None] = {phrase("file system"): size}
    if threshold is not None and (size is None or threshold < size):
        is_reached = bool(used) and used[-1].value >= threshold
        limits = {THRESHOLD: float(threshold), **(limits if is_reached else {})}
    evidence = {
        name: history.last(name) for name in ("disk_free_bytes", "data_dir_bytes", "kept_bytes", "binlog_bytes")
    }
    for set_by, value in limits.items():
        yield from _limit(LimitKind.DISK, history, used, value, set_by, evidence=evidence)


def _caches(history: History) -> Iterator[CapacityLimit]:
    """Yield the limits of caches: each table and partition that is in use needs a place."""
    files = history.values("tables", "partitions")
    misses = history.last("cache_misses_per_second")
    yield from _limit(
        LimitKind.TABLE_CACHE,
        history,
        files,
        history.last("table_open_cache"),
        "table_open_cache",
        evidence={
            "open_tables": history.last("open_tables"),
            "table_open_cache_instances": history.last("table_open_cache_instances"),
            "cache_misses_per_hour": None if misses is None else misses * HOUR_SECONDS,
        },
    )
    yield from _limit(
        LimitKind.DEFINITIONS,
        history,
        history.values("tables"),
        history.last("table_definition_cache"),
        "table_definition_cache",
        evidence={"open_definitions": history.last("open_definitions")},
    )
    names = ("innodb_open_files", "open_files_limit")
    limits = {name: value for name in names if (value := history.last(name)) is not None}
    if limits:
        binding = min(limits, key=lambda name: limits[name])
        yield from _limit(LimitKind.OPEN_FILES, history, files, limits[binding], binding, evidence=dict(limits))


def _load(history: History) -> Iterator[CapacityLimit]:
    peak = history.values("connections_peak")
    yield from _limit(LimitKind.CONNECTIONS, history, peak, history.last("max_connections"), "max_connections")
    redo = [
        DailyValue(point.at, point.value * HOUR_SECONDS)
        for point in averages(history.series.get("redo_bytes_per_second", ()))
    ]
    yield from _limit(LimitKind.REDO, history, redo, history.last("redo_capacity_bytes"), phrase("redo log capacity"))


def averages(points: Series) -> list[DailyValue]:
    """Return the average of each day, at the time of its last point. The last day is not over: it counts only alone."""
    days = [list(group) for _, group in groupby(points, key=lambda point: point.at.date())]
    return [DailyValue(day[-1].at, fmean(point.value for point in day)) for day in days[:-1] or days]


def _rebuild(
    histories: Iterable[History], leading: History | None, rebuild: RebuildForecast
) -> Iterator[CapacityLimit]:
    """Yield the limits of the rebuild time: the goal, and the binary logs that the new replica must still find."""
    source = next((one for one in histories if one.name == rebuild.instance), None)
    size = source.last("backup_bytes") if source else None
    if source is None or not size:
        return
    more = rebuild.double_seconds - rebuild.seconds
    took = [
        DailyValue(one.at, max(0.0, rebuild.seconds + more * (one.value / size - 1)))
        for one in source.values("backup_bytes")
    ]
    evidence = {"backup_bytes": size}
    yield from _limit(LimitKind.REBUILD_TIME, source, took, rebuild.goal_seconds, "goal", evidence=evidence)
    if leading:
        kept = leading.last("binlog_expire_seconds")
        logs = {"binlog_bytes": leading.last("binlog_bytes")}
        yield from _limit(LimitKind.BINLOG, leading, took, kept, phrase("binlog expiry"), evidence=evidence | logs)
