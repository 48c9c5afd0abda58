"""Readings become one a day after two weeks, and stay for years."""

from datetime import UTC, datetime, timedelta

import pytest

from dbops.models import CapacityReading, Instance
from dbops.worker import capacity_rollup
from tests.app.capacity_rows import NOW
from tests.app.factories import make_trio

pytestmark = pytest.mark.django_db
FIRST_HOURLY = datetime(2026, 11, 6, tzinfo=UTC)


def make_hours(instance: Instance, first: datetime, hours: int) -> None:
    CapacityReading.objects.bulk_create(
        CapacityReading(
            instance=instance,
            at=first + timedelta(hours=hour),
            schemas=hour,
            questions_per_second=float(hour % 24) if hour % 24 > 1 else None,
        )
        for hour in range(hours)
    )


def daily(instance: Instance) -> list[tuple[datetime, int | None, float | None]]:
    rows = CapacityReading.objects.filter(instance=instance, is_daily=True)
    return list(rows.values_list("at", "schemas", "questions_per_second"))


def test_the_last_reading_of_a_day_stays_with_the_rates_of_the_day() -> None:
    primary, backup, _ = make_trio()
    for instance in (primary, backup):
        make_hours(instance, FIRST_HOURLY - timedelta(days=2), 24 * 3)
    assert capacity_rollup.thin(NOW) == 2 * 2 * 23
    for instance in (primary, backup):
        assert daily(instance) == [
            (FIRST_HOURLY - timedelta(hours=25), 23, 12.5),
            (FIRST_HOURLY - timedelta(hours=1), 47, 12.5),
        ]
        assert CapacityReading.objects.filter(instance=instance, is_daily=False).count() == 24
    assert capacity_rollup.thin(NOW) == 0


def test_unknown_rates_stay_unknown() -> None:
    primary, _, _ = make_trio()
    make_hours(primary, FIRST_HOURLY - timedelta(days=2), 2)
    capacity_rollup.thin(NOW)
    assert daily(primary) == [(FIRST_HOURLY - timedelta(hours=47), 1, None)]


def test_more_instances_than_one_transaction_takes_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity_rollup, "INSTANCES", 2)
    trio = make_trio()
    for instance in trio:
        make_hours(instance, FIRST_HOURLY - timedelta(days=1), 24)
    assert capacity_rollup.thin(NOW) == 3 * 23
    assert [len(daily(instance)) for instance in trio] == [1, 1, 1]


def test_a_call_without_time_continues_later() -> None:
    primary, _, _ = make_trio()
    make_hours(primary, FIRST_HOURLY - timedelta(days=1), 24)
    assert capacity_rollup.thin(NOW, seconds=0) == 0
    assert capacity_rollup.thin(NOW) == 23


def test_readings_are_kept_for_five_years() -> None:
    primary, _, _ = make_trio()
    for days in (0, 1, 2):
        at = NOW - capacity_rollup.DAILY - timedelta(days=days) + timedelta(hours=1)
        CapacityReading.objects.create(instance=primary, at=at, is_daily=True)
    assert capacity_rollup.thin(NOW) == 2
    assert CapacityReading.objects.count() == 1
