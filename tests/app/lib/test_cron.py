"""When a schedule is due, in the hour that is missing and in the hour that comes twice."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from dbops.lib.cron import BadSchedule, due_times, next_due

BERLIN = "Europe/Berlin"


def first(count: int, expression: str, zone: str, after: datetime) -> list[str]:
    return [f"{moment:%m-%d %H:%M}" for moment in islice(due_times(expression, zone, after), count)]


def test_next_due_is_the_start_of_the_missing_hour() -> None:
    assert first(3, "30 2 * * *", BERLIN, datetime(2026, 3, 28, 0, tzinfo=UTC)) == [
        "03-28 01:30",
        "03-29 01:00",
        "03-30 00:30",
    ]


def test_next_due_is_once_in_the_doubled_hour_for_a_fixed_time() -> None:
    assert first(3, "30 2 * * *", BERLIN, datetime(2026, 10, 24, 12, tzinfo=UTC)) == [
        "10-25 00:30",
        "10-26 01:30",
        "10-27 01:30",
    ]


def test_next_due_is_in_each_real_hour_for_an_interval() -> None:
    spring = first(4, "0 * * * *", BERLIN, datetime(2026, 3, 28, 23, 30, tzinfo=UTC))
    assert spring == ["03-29 00:00", "03-29 01:00", "03-29 02:00", "03-29 03:00"]
    autumn = first(4, "0 * * * *", BERLIN, datetime(2026, 10, 24, 22, 30, tzinfo=UTC))
    assert autumn == ["10-24 23:00", "10-25 00:00", "10-25 01:00", "10-25 02:00"]


def test_next_due_is_constant_without_daylight_saving() -> None:
    assert first(2, "0 3 * * *", "Asia/Kolkata", datetime(2026, 3, 28, 12, tzinfo=UTC)) == [
        "03-28 21:30",
        "03-29 21:30",
    ]


def test_next_due_is_after_the_given_time() -> None:
    due = next_due("0 3 * * *", "UTC", datetime(2026, 1, 1, tzinfo=UTC))
    assert due == datetime(2026, 1, 1, 3, tzinfo=UTC)
    assert next_due("0 3 * * *", "UTC", due) == datetime(2026, 1, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [("x", "UTC"), ("", "UTC"), ("0 0 30 2 *", "UTC"), ("0 0 * * *", "Mars/North"), ("0 0 * * *", "../etc/passwd")],
)
def test_next_due_refuses_unreadable_expressions(expression: str, zone: str) -> None:
    with pytest.raises(BadSchedule):
        next_due(expression, zone, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "expression", ["0 0 2 * * *", "0 2 L * *", "0 2 * * 5L", "0 2 * * MON#2", "0 2 * * 1#1", "@reboot", "@often", ""]
)
def test_next_due_refuses_expressions_that_debian_cron_reads_differently(expression: str) -> None:
    with pytest.raises(BadSchedule):
        next_due(expression, "UTC", datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("@daily", datetime(2026, 3, 2, tzinfo=UTC)),
        ("@Hourly", datetime(2026, 3, 1, 1, tzinfo=UTC)),
        ("0 2 1 JUL *", datetime(2026, 7, 1, 2, tzinfo=UTC)),
        ("0 2 * jul wed", datetime(2026, 7, 1, 2, tzinfo=UTC)),
        ("0\t2 * * *", datetime(2026, 3, 1, 2, tzinfo=UTC)),
    ],
)
def test_next_due_reads_expressions_of_debian_cron(expression: str, due: datetime) -> None:
    assert next_due(expression, "UTC", datetime(2026, 3, 1, tzinfo=UTC)) == due
