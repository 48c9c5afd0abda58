"""What a drawing says to those who do not see it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.timeline import Bar, BarKind, Timeline
from dbops.web.charts.timeline import calendar_row, words

MIDNIGHT = datetime(2026, 3, 4, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return MIDNIGHT + timedelta(hours=hour, minutes=minute, seconds=second)


def line(*free: Interval, end: datetime, now: datetime = MIDNIGHT) -> Timeline:
    return Timeline(Interval(MIDNIGHT, end), now, bars=(), blocked=(), perhaps=(), free=free)


@pytest.mark.parametrize(
    ("free", "told"),
    [
        ((Interval(at(7, 36), at(10, 34, 5)), Interval(at(10, 34, 40), at(23, 30))), "free 07:36 to 23:30"),
        ((Interval(at(7, 36), at(10, 34)), Interval(at(10, 35), at(24))), "free 07:36 to 10:34, 10:35 to 24:00"),
    ],
)
def test_what_lies_within_one_minute_is_no_end_of_a_free_slot(free: tuple[Interval, ...], told: str) -> None:
    with timezone.override(UTC):
        assert words(line(*free, end=at(24))) == told


def test_slots_of_several_days_name_their_days() -> None:
    slots = Interval(at(1), at(23, 59, 10)), Interval(at(23, 59, 50), at(30))
    with timezone.override(UTC):
        assert words(line(*slots, end=at(48))) == "free Wed 01:00 to Thu 06:00"


def test_a_job_without_a_known_end_is_drawn_up_to_now_and_maintenance_to_the_edge() -> None:
    day = Interval(at(0), at(24))
    bars = tuple(
        Bar(kind, "backup-1", Interval(at(6), at(24)), kind.value, "running", is_open=True)
        for kind in (BarKind.BACKUP, BarKind.MAINTENANCE)
    )
    drawn = [
        shape
        for shape in calendar_row(Timeline(day, at(12), bars, (), (), ()), name="shop", days=1).shapes
        if "bar-shape" in shape.css
    ]
    widths = {shape.title.partition(":")[0]: shape.width for shape in drawn}
    assert widths == {"backup": "25.000%", "maintenance": "75.000%"}
    assert all("end not known" in shape.title for shape in drawn)
