"""The walls of a cluster: what its limits are, and their order."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from dbops.engine.capacity.cluster import History, RebuildForecast, averages, walls_of
from dbops.engine.capacity.trend import DailyValue, TrendState
from dbops.engine.capacity.walls import Unit, Wall, WallKind, WallState, most_urgent
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


def of(kind: WallKind, walls: Iterable[Wall]) -> Wall:
    [found] = [wall for wall in walls if wall.kind is kind]
    return found


def after(days: float) -> object:
    return pytest.approx((END + timedelta(days=days)).timestamp(), abs=60)


def test_a_threshold_is_a_wall_and_dates_it() -> None:
    one = history(schemas=line(500, 0.5), tables=line(5000, 5))
    wall = of(WallKind.SCHEMAS, walls_of([one], {WallKind.SCHEMAS: 600}))
    assert (wall.state, wall.limit_is, wall.unit, wall.current) == (WallState.AHEAD, "threshold", Unit.NUMBER, 544.5)
    assert wall.first is not None
    assert wall.first.timestamp() == after(111)
    assert wall.is_soon(END + timedelta(days=25))
    assert not wall.is_soon(END)


def test_without_a_threshold_schemas_have_no_wall() -> None:
    assert walls_of([history(schemas=line(500, 0.5))], {}) == ()
    assert walls_of([], {}) == ()


def test_disk_counts_what_dbops_keeps() -> None:
    used = [10 * GIB + day * GIB for day in range(90)]
    one = history(
        disk_bytes=flat(140 * GIB),
        disk_free_bytes=points([140 * GIB - value for value in used]),
        kept_bytes=flat(7 * GIB),
    )
    wall = of(WallKind.DISK, walls_of([one], {}))
    assert (wall.current, wall.limit, wall.limit_is) == (99 * GIB, 140 * GIB, "file system")
    assert wall.first is not None
    assert wall.first.timestamp() == after(41)
    assert wall.evidence["kept_bytes"] == str(int(7 * GIB))
    lower = of(WallKind.DISK, walls_of([one], {WallKind.DISK: int(100 * GIB)}))
    assert (lower.limit, lower.limit_is) == (100 * GIB, "threshold")
    higher = of(WallKind.DISK, walls_of([one], {WallKind.DISK: int(200 * GIB)}))
    assert higher.limit_is == "file system"


def test_partitions_need_places_in_the_table_cache_and_no_definitions() -> None:
    one = history(
        tables=line(1000, 10),
        partitions=flat(500),
        table_open_cache=flat(4000),
        table_definition_cache=flat(2000),
        innodb_open_files=flat(3000),
        open_files_limit=flat(2600),
    )
    walls = walls_of([one], {})
    found = {wall.kind: (wall.current, wall.limit, wall.limit_is) for wall in walls}
    assert found == {
        WallKind.OPEN_FILES: (2390, 2600, "open_files_limit"),
        WallKind.TABLE_CACHE: (2390, 4000, "table_open_cache"),
        WallKind.DEFINITIONS: (1890, 2000, "table_definition_cache"),
    }
    assert [wall.kind for wall in walls] == [WallKind.DEFINITIONS, WallKind.OPEN_FILES, WallKind.TABLE_CACHE]


def test_each_instance_has_its_own_limits_and_the_cluster_one_number_of_schemas() -> None:
    both = [
        history(schemas=flat(50), tables=line(100, 1), table_definition_cache=flat(400)),
        history("replica-1", is_primary=False, schemas=flat(50), tables=line(100, 1), table_definition_cache=flat(200)),
    ]
    walls = walls_of(both, {WallKind.SCHEMAS: 100})
    assert [(wall.kind, wall.instance) for wall in walls] == [
        (WallKind.DEFINITIONS, "replica-1"),
        (WallKind.DEFINITIONS, "primary-1"),
        (WallKind.SCHEMAS, "primary-1"),
    ]


def test_a_replica_speaks_for_a_primary_that_was_never_read() -> None:
    replica = history("replica-1", is_primary=False, schemas=flat(50))
    wall = of(WallKind.SCHEMAS, walls_of([history(), replica], {WallKind.SCHEMAS: 100}))
    assert (wall.instance, wall.state) == ("replica-1", WallState.NOT_GROWING)


def test_auto_increment_columns_near_their_type_are_walls() -> None:
    one = History(
        "primary-1",
        is_primary=True,
        series={"schemas": flat(1)},
        auto_increment={"shop.a.id": line(2e9, 1e6), "shop.b.id": line(1000, 10)},
        largest={"shop.a.id": 2**31 - 1, "shop.b.id": 2**63 - 1},
    )
    wall = of(WallKind.AUTO_INCREMENT, walls_of([one], {}))
    assert (wall.subject, wall.state) == ("shop.a.id", WallState.AHEAD)


def test_redo_of_an_hour_is_the_average_of_days() -> None:
    hours = [DailyValue(START + timedelta(hours=hour), 100.0 if hour % 24 else 2500.0) for hour in range(24 * 40)]
    one = history(redo_bytes_per_second=hours, redo_capacity_bytes=flat(1e6))
    wall = of(WallKind.REDO, walls_of([one], {}))
    assert wall.current == pytest.approx(200 * 3600)
    assert averages(hours)[1].value == pytest.approx((23 * 100 + 2500) / 24)


def test_the_first_hours_of_a_day_are_no_level_of_redo() -> None:
    midnight = START.replace(hour=0, minute=20)
    hours = [DailyValue(midnight + timedelta(hours=hour), 4e6 if hour % 24 < 2 else 2e5) for hour in range(24 * 40 + 1)]
    one = history(redo_bytes_per_second=hours, redo_capacity_bytes=flat(3600 * 2e6))
    wall = of(WallKind.REDO, walls_of([one], {}))
    assert (wall.current, wall.state) == (pytest.approx(3600 * (2 * 4e6 + 22 * 2e5) / 24), WallState.NOT_GROWING)
    assert [point.value for point in averages(hours[:2])] == [4e6]


def test_rebuild_time_grows_with_the_bytes_and_misses_its_goal() -> None:
    primary = history(binlog_expire_seconds=flat(4 * 3600))
    source = history("backup-1", is_primary=False, backup_bytes=line(1000, 10))
    rebuild = RebuildForecast("backup-1", seconds=1890, double_seconds=3780, goal_seconds=3600)
    walls = walls_of([primary, source], {}, rebuild)
    goal, kept = of(WallKind.REBUILD_TIME, walls), of(WallKind.BINLOG, walls)
    assert (goal.instance, goal.current, goal.limit, goal.unit) == ("backup-1", 1890, 3600, Unit.SECONDS)
    assert goal.first is not None
    assert goal.first.timestamp() == after(171)
    assert (kept.instance, kept.limit, kept.limit_is) == ("primary-1", 4 * 3600, "binlog expiry")
    assert kept.first is not None
    assert kept.first > goal.first
    assert kept.evidence == {"backup_bytes": "1890"}, "unknown binary logs are not 0 bytes"
    known = replace(primary, series={**primary.series, "binlog_bytes": flat(7)})
    assert of(WallKind.BINLOG, walls_of([known, source], {}, rebuild)).evidence["binlog_bytes"] == "7"


def test_rebuild_time_is_constant_while_its_bytes_are_unknown() -> None:
    source = history("backup-1", is_primary=False, backup_bytes=line(1000, 10))
    wall = of(WallKind.REBUILD_TIME, walls_of([source], {}, RebuildForecast("backup-1", 600, 600, 3600)))
    assert wall.state is WallState.NOT_GROWING
    assert walls_of([source], {}, RebuildForecast("gone-1", 600, 600, 3600)) == ()


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
    walls = walls_of([one], {WallKind.SCHEMAS: 20})
    assert [(wall.kind, wall.state) for wall in walls] == [
        (WallKind.DEFINITIONS, WallState.REACHED),
        (WallKind.TABLE_CACHE, WallState.AHEAD),
        (WallKind.OPEN_FILES, WallState.FAR),
        (WallKind.CONNECTIONS, WallState.UNKNOWN),
        (WallKind.SCHEMAS, WallState.NOT_GROWING),
    ]
    assert [wall.first is not None for wall in walls] == [False, True, False, False, False]
    assert (walls[3].trend.state, walls[3].trend.days, walls[3].trend.days_needed) == (TrendState.UNKNOWN, 9, 28)
    assert [wall.is_flagged for wall in walls] == [False, True, False, False, False]
    assert tuple(from_record(Wall, to_record(wall)) for wall in walls) == walls


def disk(days_left: float) -> dict[str, list[DailyValue]]:
    return {"disk_bytes": flat(200), "disk_free_bytes": line(days_left + 89, -1)}


def flag(one: History, thresholds: dict[WallKind, int] | None = None) -> WallKind | None:
    found = most_urgent(walls_of([one], thresholds or {}), END)
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
    thresholds = {WallKind.SCHEMAS: 600}
    walls = walls_of([history(**reached, **disk(2))], thresholds)
    assert [wall.state for wall in walls] == [WallState.REACHED, WallState.AHEAD]
    found = most_urgent(walls, END)
    assert found is not None
    assert (found.kind, found.first and found.first.timestamp()) == (WallKind.DISK, after(2))


def test_a_reached_threshold_does_not_hide_when_the_disk_is_full() -> None:
    walls = walls_of([history(**disk(2))], {WallKind.DISK: 150})
    assert [(wall.limit_is, wall.limit, wall.state) for wall in walls] == [
        ("threshold", 150, WallState.REACHED),
        ("file system", 200, WallState.AHEAD),
    ]
    found = most_urgent(walls, END)
    assert found is not None
    assert found.limit_is == "file system"
    far = most_urgent(walls_of([history(**disk(120))], {WallKind.DISK: 50}), END)
    assert far is not None
    assert (far.state, far.limit_is) == (WallState.REACHED, "threshold")


def test_reached_redo_and_connections_are_listed_but_not_flagged() -> None:
    one = history(
        redo_bytes_per_second=flat(10),
        redo_capacity_bytes=flat(100),
        connections_peak=flat(151),
        max_connections=flat(150),
    )
    assert [wall.state for wall in walls_of([one], {})] == [WallState.REACHED, WallState.REACHED]
    assert flag(one) is None
    assert flag(history(connections_peak=line(10, 1), max_connections=flat(150))) is WallKind.CONNECTIONS


def test_what_is_full_is_flagged_first_and_what_is_far_last() -> None:
    reached, near, far = {"schemas": flat(700)}, {"tables": line(11, 1)}, disk(200)
    thresholds = {WallKind.SCHEMAS: 600, WallKind.TABLES: 110}
    assert flag(history(**reached, **near, **disk(0)), thresholds) is WallKind.DISK
    assert flag(history(**reached, **near, **far), thresholds) is WallKind.TABLES
    assert flag(history(**reached, **far), thresholds) is WallKind.SCHEMAS
    assert flag(history(**far), thresholds) is WallKind.DISK
    full = replace(
        history(**reached, **near, **disk(5)), auto_increment={"shop.a.id": line(38, 1)}, largest={"shop.a.id": 127}
    )
    assert flag(full, thresholds) is WallKind.AUTO_INCREMENT
