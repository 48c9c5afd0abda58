"""The limits of a cluster: what sets them, and their order."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from dbops.engine.capacity.cluster import History, RebuildForecast, averages, limits_of
from dbops.engine.capacity.limits import CapacityLimit, LimitKind, LimitState, Unit, most_urgent
from dbops.engine.capacity.trend import DailyValue, TrendState
from dbops.engine.facts.instance import from_record, to_record
from tests.engine.capacity.series import START, points

GIB = 1024.0**3
END = START + timedelta(days=89)


def line(start: float, per_day: float, days: int = 90) -> list[DailyValue]:
    return points([start + per_day * day for day in range(days)])


def flat(value: float, days: int = 90) -> list[DailyValue]:
    return line(value, 0, days)


def history(name: str = "primary-1", *, is_primary: bool = True, **series: list[DailyValue]) -> History:
    return History(name, is_primary, series)


def of(kind: LimitKind, limits: Iterable[CapacityLimit]) -> CapacityLimit:
    [found] = [limit for limit in limits if limit.kind is kind]
    return found


def after(days: float) -> object:
    return pytest.approx((END + timedelta(days=days)).timestamp(), abs=60)


def test_a_threshold_is_a_limit_and_dates_it() -> None:
    one = history(schemas=line(500, 0.5), tables=line(5000, 5))
    limit = of(LimitKind.SCHEMAS, limits_of([one], {LimitKind.SCHEMAS: 600}))
    assert (limit.state, limit.set_by, limit.unit, limit.current) == (LimitState.AHEAD, "threshold", Unit.NUMBER, 544.5)
    assert limit.first is not None
    assert limit.first.timestamp() == after(111)
    assert limit.is_soon(END + timedelta(days=25))
    assert not limit.is_soon(END)


def test_without_a_threshold_schemas_have_no_limit() -> None:
    assert limits_of([history(schemas=line(500, 0.5))], {}) == ()
    assert limits_of([], {}) == ()


def test_disk_counts_what_dbops_keeps() -> None:
    used = [10 * GIB + day * GIB for day in range(90)]
    one = history(
        disk_bytes=flat(140 * GIB),
        disk_free_bytes=points([140 * GIB - value for value in used]),
        kept_bytes=flat(7 * GIB),
    )
    limit = of(LimitKind.DISK, limits_of([one], {}))
    assert (limit.current, limit.value, limit.set_by) == (99 * GIB, 140 * GIB, "file system")
    assert limit.first is not None
    assert limit.first.timestamp() == after(41)
    assert limit.evidence["kept_bytes"] == str(int(7 * GIB))
    lower = of(LimitKind.DISK, limits_of([one], {LimitKind.DISK: int(100 * GIB)}))
    assert (lower.value, lower.set_by) == (100 * GIB, "threshold")
    higher = of(LimitKind.DISK, limits_of([one], {LimitKind.DISK: int(200 * GIB)}))
    assert higher.set_by == "file system"


def test_partitions_need_places_in_the_table_cache_and_no_definitions() -> None:
    one = history(
        tables=line(1000, 10),
        partitions=flat(500),
        table_open_cache=flat(4000),
        table_definition_cache=flat(2000),
        innodb_open_files=flat(3000),
        open_files_limit=flat(2600),
    )
    limits = limits_of([one], {})
    found = {limit.kind: (limit.current, limit.value, limit.set_by) for limit in limits}
    assert found == {
        LimitKind.OPEN_FILES: (2390, 2600, "open_files_limit"),
        LimitKind.TABLE_CACHE: (2390, 4000, "table_open_cache"),
        LimitKind.DEFINITIONS: (1890, 2000, "table_definition_cache"),
    }
    assert [limit.kind for limit in limits] == [LimitKind.DEFINITIONS, LimitKind.OPEN_FILES, LimitKind.TABLE_CACHE]


def test_each_instance_has_its_own_limits_and_the_cluster_one_number_of_schemas() -> None:
    both = [
        history(schemas=flat(50), tables=line(100, 1), table_definition_cache=flat(400)),
        history("replica-1", is_primary=False, schemas=flat(50), tables=line(100, 1), table_definition_cache=flat(200)),
    ]
    limits = limits_of(both, {LimitKind.SCHEMAS: 100})
    assert [(limit.kind, limit.instance) for limit in limits] == [
        (LimitKind.DEFINITIONS, "replica-1"),
        (LimitKind.DEFINITIONS, "primary-1"),
        (LimitKind.SCHEMAS, "primary-1"),
    ]


def test_a_replica_speaks_for_a_primary_that_was_never_read() -> None:
    replica = history("replica-1", is_primary=False, schemas=flat(50))
    limit = of(LimitKind.SCHEMAS, limits_of([history(), replica], {LimitKind.SCHEMAS: 100}))
    assert (limit.instance, limit.state) == ("replica-1", LimitState.NOT_GROWING)


def test_auto_increment_columns_near_their_type_are_limits() -> None:
    one = History(
        "primary-1",
        is_primary=True,
        series={"schemas": flat(1)},
        auto_increment={"shop.a.id": line(2e9, 1e6), "shop.b.id": line(1000, 10)},
        largest={"shop.a.id": 2**31 - 1, "shop.b.id": 2**63 - 1},
    )
    limit = of(LimitKind.AUTO_INCREMENT, limits_of([one], {}))
    assert (limit.subject, limit.state) == ("shop.a.id", LimitState.AHEAD)


def test_redo_of_an_hour_is_the_average_of_days() -> None:
    hours = [DailyValue(START + timedelta(hours=hour), 100.0 if hour % 24 else 2500.0) for hour in range(24 * 40)]
    one = history(redo_bytes_per_second=hours, redo_capacity_bytes=flat(1e6))
    limit = of(LimitKind.REDO, limits_of([one], {}))
    assert limit.current == pytest.approx(200 * 3600)
    assert averages(hours)[1].value == pytest.approx((23 * 100 + 2500) / 24)


def test_the_first_hours_of_a_day_are_no_level_of_redo() -> None:
    midnight = START.replace(hour=0, minute=20)
    hours = [DailyValue(midnight + timedelta(hours=hour), 4e6 if hour % 24 < 2 else 2e5) for hour in range(24 * 40 + 1)]
    one = history(redo_bytes_per_second=hours, redo_capacity_bytes=flat(3600 * 2e6))
    limit = of(LimitKind.REDO, limits_of([one], {}))
    assert (limit.current, limit.state) == (pytest.approx(3600 * (2 * 4e6 + 22 * 2e5) / 24), LimitState.NOT_GROWING)
    assert [point.value for point in averages(hours[:2])] == [4e6]


def test_rebuild_time_grows_with_the_bytes_and_misses_its_goal() -> None:
    primary = history(binlog_expire_seconds=flat(4 * 3600))
    source = history("backup-1", is_primary=False, backup_bytes=line(1000, 10))
    rebuild = RebuildForecast("backup-1", seconds=1890, double_seconds=3780, goal_seconds=3600)
    limits = limits_of([primary, source], {}, rebuild)
    goal, kept = of(LimitKind.REBUILD_TIME, limits), of(LimitKind.BINLOG, limits)
    assert (goal.instance, goal.current, goal.value, goal.unit) == ("backup-1", 1890, 3600, Unit.SECONDS)
    assert goal.first is not None
    assert goal.first.timestamp() == after(171)
    assert (kept.instance, kept.value, kept.set_by) == ("primary-1", 4 * 3600, "binlog expiry")
    assert kept.first is not None
    assert kept.first > goal.first
    assert kept.evidence == {"backup_bytes": "1890"}, "unknown binary logs are not 0 bytes"
    known = replace(primary, series={**primary.series, "binlog_bytes": flat(7)})
    assert of(LimitKind.BINLOG, limits_of([known, source], {}, rebuild)).evidence["binlog_bytes"] == "7"


def test_rebuild_time_is_constant_while_its_bytes_are_unknown() -> None:
    source = history("backup-1", is_primary=False, backup_bytes=line(1000, 10))
    limit = of(LimitKind.REBUILD_TIME, limits_of([source], {}, RebuildForecast("backup-1", 600, 600, 3600)))
    assert limit.state is LimitState.NOT_GROWING
    assert limits_of([source], {}, RebuildForecast("gone-1", 600, 600, 3600)) == ()


def test_order_is_reached_dated_far_unknown_and_not_growing() -> None:
    one = history(
        tables=line(300, 1),
        partitions=flat(0),
        schemas=flat(10),
        connections_peak=line(50, 1, days=9),
        max_connections=flat(100),
        table_definition_cache=flat(350),
        table_open_cache=flat(500),
        open_files_limit=flat(1e6),
    )
    limits = limits_of([one], {LimitKind.SCHEMAS: 20})
    assert [(limit.kind, limit.state) for limit in limits] == [
        (LimitKind.DEFINITIONS, LimitState.REACHED),
        (LimitKind.TABLE_CACHE, LimitState.AHEAD),
        (LimitKind.OPEN_FILES, LimitState.FAR),
        (LimitKind.CONNECTIONS, LimitState.UNKNOWN),
        (LimitKind.SCHEMAS, LimitState.NOT_GROWING),
    ]
    assert [limit.first is not None for limit in limits] == [False, True, False, False, False]
    assert (limits[3].trend.state, limits[3].trend.days, limits[3].trend.days_needed) == (TrendState.UNKNOWN, 9, 28)
    assert [limit.is_flagged for limit in limits] == [False, True, False, False, False]
    assert tuple(from_record(CapacityLimit, to_record(limit)) for limit in limits) == limits


def disk(days_left: float) -> dict[str, list[DailyValue]]:
    return {"disk_bytes": flat(200), "disk_free_bytes": line(days_left + 89, -1)}


def flag(one: History, thresholds: dict[LimitKind, int] | None = None) -> LimitKind | None:
    found = most_urgent(limits_of([one], thresholds or {}), END)
    return found.kind if found else None


@pytest.mark.parametrize(
    "reached",
    [
        {"redo_bytes_per_second": flat(10), "redo_capacity_bytes": flat(100)},
        {"connections_peak": flat(151), "max_connections": flat(150)},
        {"schemas": flat(700)},
    ],
)
def test_a_reached_limit_hides_no_disk_that_fills_in_two_days(reached: dict[str, list[DailyValue]]) -> None:
    thresholds = {LimitKind.SCHEMAS: 600}
    limits = limits_of([history(**reached, **disk(2))], thresholds)
    assert [limit.state for limit in limits] == [LimitState.REACHED, LimitState.AHEAD]
    found = most_urgent(limits, END)
    assert found is not None
    assert (found.kind, found.first and found.first.timestamp()) == (LimitKind.DISK, after(2))


def test_a_reached_threshold_does_not_hide_when_the_disk_is_full() -> None:
    limits = limits_of([history(**disk(2))], {LimitKind.DISK: 150})
    assert [(limit.set_by, limit.value, limit.state) for limit in limits] == [
        ("threshold", 150, LimitState.REACHED),
        ("file system", 200, LimitState.AHEAD),
    ]
    found = most_urgent(limits, END)
    assert found is not None
    assert found.set_by == "file system"
    far = most_urgent(limits_of([history(**disk(120))], {LimitKind.DISK: 50}), END)
    assert far is not None
    assert (far.state, far.set_by) == (LimitState.REACHED, "threshold")


def test_reached_redo_and_connections_are_listed_but_not_flagged() -> None:
    one = history(
        redo_bytes_per_second=flat(10),
        redo_capacity_bytes=flat(100),
        connections_peak=flat(151),
        max_connections=flat(150),
    )
    assert [limit.state for limit in limits_of([one], {})] == [LimitState.REACHED, LimitState.REACHED]
    assert flag(one) is None
    assert flag(history(connections_peak=line(10, 1), max_connections=flat(150))) is LimitKind.CONNECTIONS


def test_what_is_full_is_flagged_first_and_what_is_far_last() -> None:
    reached, near, far = {"schemas": flat(700)}, {"tables": line(11, 1)}, disk(200)
    thresholds = {LimitKind.SCHEMAS: 600, LimitKind.TABLES: 110}
    assert flag(history(**reached, **near, **disk(0)), thresholds) is LimitKind.DISK
    assert flag(history(**reached, **near, **far), thresholds) is LimitKind.TABLES
    assert flag(history(**reached, **far), thresholds) is LimitKind.SCHEMAS
    assert flag(history(**far), thresholds) is LimitKind.DISK
    full = replace(
        history(**reached, **near, **disk(5)), auto_increment={"shop.a.id": line(38, 1)}, largest={"shop.a.id": 127}
    )
    assert flag(full, thresholds) is LimitKind.AUTO_INCREMENT
