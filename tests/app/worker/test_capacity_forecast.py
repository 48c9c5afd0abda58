"""The limits of each cluster are computed by the worker and read by pages."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from dbops.engine.capacity.limits import LimitKind, LimitState
from dbops.engine.capacity.trend import TrendState
from dbops.engine.states import Status
from dbops.loaders import capacity
from dbops.models import CapacityForecast, CapacityThreshold, Cluster, Instance, Rebuild
from dbops.queries.capacity import cluster_limits, latest_readings, readings_of, series_of, soon_by_cluster
from dbops.worker import capacity_forecast
from tests.app.capacity_rows import GIB, NOW, make_readings
from tests.app.factories import make_rebuild, make_trio

pytestmark = pytest.mark.django_db


def fill(primary: Instance, **values: Any) -> None:
    make_readings(
        primary,
        schemas=500,
        tables=2100,
        table_definition_cache=2000,
        disk_bytes=100 * GIB,
        disk_free_bytes=41 * GIB,
        per_day={"schemas": 1, "tables": 1, "disk_free_bytes": -GIB},
        **values,
    )


def states(cluster: Cluster) -> dict[LimitKind, LimitState]:
    return {limit.kind: limit.state for limit in cluster_limits(cluster).limits}


def test_limits_are_stored_and_read() -> None:
    primary, _, _ = make_trio()
    fill(primary)
    CapacityThreshold.objects.create(cluster=primary.cluster, kind=LimitKind.SCHEMAS, value=600)
    assert capacity_forecast.forecast_due(NOW) == 1
    found = cluster_limits(primary.cluster)
    assert (found.computed_at, found.thresholds) == (NOW, {LimitKind.SCHEMAS: 600})
    assert states(primary.cluster) == {
        LimitKind.DEFINITIONS: LimitState.REACHED,
        LimitKind.DISK: LimitState.AHEAD,
        LimitKind.SCHEMAS: LimitState.AHEAD,
    }
    disk = found.limits[1]
    assert disk.first is not None
    assert abs(disk.first - NOW - timedelta(days=41)) < timedelta(minutes=5)
    assert soon_by_cluster(NOW) == {primary.cluster_id: disk}
    assert soon_by_cluster(NOW - timedelta(days=60)) == {}


def test_a_forecast_is_computed_again_when_it_is_due() -> None:
    primary, _, _ = make_trio()
    fill(primary)
    assert [capacity_forecast.forecast_due(NOW + timedelta(hours=hour)) for hour in (0, 5, 6)] == [1, 0, 1]
    CapacityForecast.objects.update(due_at=NOW + timedelta(days=3))  # the clock was set back
    assert capacity_forecast.forecast_due(NOW) == 1
    assert capacity_forecast.forecast_due(NOW + timedelta(days=1), seconds=0) == 0


def test_a_threshold_that_changes_meanwhile_makes_it_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make_trio()
    later = NOW + timedelta(seconds=1)

    def change(cluster: Cluster, *_: object) -> None:
        CapacityForecast.objects.filter(cluster=cluster).update(due_at=later)

    with monkeypatch.context() as patch:
        patch.setattr(capacity, "rebuild_forecast_of", change)
        assert capacity_forecast.forecast_due(NOW) == 0
    assert capacity_forecast.forecast_due(later) == 1


def test_a_fault_in_one_cluster_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    (broken, _, _), (other, _, _) = make_trio("broken"), make_trio("other")
    fill(other)
    [reading, *_] = make_readings(broken, 1)
    type(reading).objects.filter(instance=broken).update(auto_increment=[{}])
    CapacityForecast.objects.create(cluster=broken.cluster, due_at=NOW - timedelta(minutes=5))
    assert capacity_forecast.forecast_due(NOW) == 1
    assert cluster_limits(other.cluster).computed_at == NOW
    assert [record.args for record in caplog.records] == [("broken",)]
    row = CapacityForecast.objects.get(cluster=broken.cluster)
    assert (row.computed_at, row.due_at) == (None, NOW + timedelta(hours=1))
    type(reading).objects.filter(instance=broken).update(auto_increment=None)
    assert capacity_forecast.forecast_due(row.due_at) == 1


def test_few_days_are_not_known_yet() -> None:
    primary, _, _ = make_trio()
    make_readings(primary, 9, disk_bytes=100 * GIB, disk_free_bytes=41 * GIB, per_day={"disk_free_bytes": -GIB})
    capacity_forecast.forecast_due(NOW)
    [limit] = cluster_limits(primary.cluster).limits
    assert (limit.state, limit.trend.state, limit.trend.days) == (LimitState.UNKNOWN, TrendState.UNKNOWN, 9)
    assert soon_by_cluster(NOW) == {}


def test_a_reached_disk_is_flagged_at_once() -> None:
    primary, _, _ = make_trio()
    make_readings(primary, 9, disk_bytes=100 * GIB, disk_free_bytes=0)
    capacity_forecast.forecast_due(NOW)
    assert [limit.kind for limit in soon_by_cluster(NOW).values()] == [LimitKind.DISK]


def test_a_reached_limit_of_connections_hides_no_disk_that_fills() -> None:
    primary, _, _ = make_trio()
    fill(primary, connections_peak=151, max_connections=151)
    capacity_forecast.forecast_due(NOW)
    assert states(primary.cluster)[LimitKind.CONNECTIONS] is LimitState.REACHED
    assert [limit.kind for limit in soon_by_cluster(NOW).values()] == [LimitKind.DISK]
    flagged = cluster_limits(primary.cluster).flagged
    assert flagged == soon_by_cluster(NOW)[primary.cluster_id]
    assert soon_by_cluster(NOW - timedelta(days=60)) == {}


def test_rebuild_time_follows_the_source_that_is_read(settings: Any) -> None:
    settings.REDUNDANCY_GOAL_SECONDS = 7200
    primary, backup, replica = make_trio()
    make_readings(primary, binlog_expire_seconds=86400)
    make_readings(backup, backup_bytes=100 * GIB, per_day={"backup_bytes": GIB / 2})
    make_readings(replica, backup_bytes=50 * GIB)
    done = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    Rebuild.objects.filter(pk=done.pk).update(
        started_at=NOW - timedelta(hours=2),
        finished_at=NOW - timedelta(hours=1),
        checkpoint={"stream.bytes": 100 * GIB},
    )
    capacity_forecast.forecast_due(NOW)
    limits = {limit.kind: limit for limit in cluster_limits(primary.cluster).limits}
    goal = limits[LimitKind.REBUILD_TIME]
    assert (goal.instance, goal.current, goal.value) == (backup.name, 3600, 7200)
    assert goal.first is not None
    assert abs(goal.first - NOW - timedelta(days=200)) < timedelta(minutes=30)
    assert limits[LimitKind.BINLOG].value == 86400
    Cluster.objects.update(redundancy_goal_seconds=3000)
    capacity_forecast.forecast_due(NOW + timedelta(days=1))
    own = {limit.kind: limit for limit in cluster_limits(primary.cluster).limits}[LimitKind.REBUILD_TIME]
    assert (own.value, own.state) == (3000, LimitState.REACHED)


def test_histories_are_of_the_window_with_auto_increment_columns() -> None:
    primary, backup, _ = make_trio()
    column = {"schema": "shop", "table": "orders", "column": "id", "value": 2 * 10**9, "largest": 2**31 - 1}
    [first, *_] = make_readings(primary, 200, schemas=10)
    type(first).objects.filter(instance=primary).update(auto_increment=[column])
    found = {one.name: one for one in capacity.histories_of(primary.cluster, NOW)}
    assert len(found[primary.name].series["schemas"]) == 181
    assert found[primary.name].is_primary
    assert found[primary.name].auto_increment["shop.orders.id"][-1].value == 2 * 10**9
    assert found[primary.name].largest == {"shop.orders.id": 2**31 - 1}
    assert found[backup.name].series == {}


def test_pages_read_with_a_fixed_number_of_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    trios = [make_trio(name) for name in ("shop", "blog", "wiki")]
    for trio in trios:
        for instance in trio:
            fill(instance)
    capacity_forecast.forecast_due(NOW)
    primary, backup, replica = trios[0]
    cluster = Cluster.objects.get(pk=primary.cluster_id)
    with django_assert_num_queries(1):
        assert len(soon_by_cluster(NOW)) == 3
    with django_assert_num_queries(2):
        cluster_limits(cluster)
    with django_assert_num_queries(1):
        series = series_of(cluster, primary.name, NOW - timedelta(days=10), ("schemas", "open_tables"))
    assert series["schemas"][-1] == (NOW, 500)
    assert (len(series["schemas"]), series["open_tables"]) == (11, [])
    with django_assert_num_queries(1):
        readings = list(readings_of(cluster, NOW - timedelta(days=10)))
    assert [(name, at) for name, at, *_ in readings] == [
        (name, NOW - timedelta(days=back))
        for name in sorted((primary.name, backup.name, replica.name))
        for back in range(10, -1, -1)
    ]
    with django_assert_num_queries(1):
        latest = latest_readings(cluster)
    assert {name: row.at for name, row in latest.items()} == dict.fromkeys(
        (primary.name, backup.name, replica.name), NOW
    )
