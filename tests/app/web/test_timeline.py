"""What a drawing says to those who do not see it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone, translation

from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.timeline import BarKind, Timeline, TimelineBar
from dbops.web.charts.timeline import calendar_row, hours, strip, summary

MIDNIGHT = datetime(2026, 3, 4, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return MIDNIGHT + timedelta(hours=hour, minutes=minute, seconds=second)


def line(*free: Interval, end: datetime, now: datetime = MIDNIGHT) -> Timeline:
    return Timeline(Interval(MIDNIGHT, end), now, bars=(), blocked=(), perhaps=(), free=free)


@pytest.mark.parametrize(
    ("free", "times"),
    [
        ((Interval(at(7, 36), at(10, 34, 5)), Interval(at(10, 34, 40), at(23, 30))), ["07:36", "23:30"]),
        ((Interval(at(7, 36), at(10, 34)), Interval(at(10, 35), at(24))), ["07:36", "10:34", "10:35", "24:00"]),
    ],
)
def test_summary_ignores_a_slot_end_within_one_minute(free: tuple[Interval, ...], times: list[str]) -> None:
    with timezone.override(UTC):
        assert re.findall(r"\d\d:\d\d", summary(line(*free, end=at(24)))) == times


def test_summary_names_the_days_of_several_days() -> None:
    slots = Interval(at(1), at(23, 59, 10)), Interval(at(23, 59, 50), at(30))
    with timezone.override(UTC):
        assert re.findall(r"[A-Z]\w\w \d\d:\d\d", summary(line(*slots, end=at(48)))) == ["Wed 01:00", "Thu 06:00"]


def test_bars_without_end_are_drawn_to_now_and_maintenance_to_the_edge() -> None:
    day = Interval(at(0), at(24))
    bars = tuple(
        TimelineBar(kind, "backup-1", Interval(at(6), at(24)), kind.value, "running", is_open=True)
        for kind in (BarKind.BACKUP, BarKind.MAINTENANCE)
    )
    drawn = [
        shape
        for shape in calendar_row(Timeline(day, at(12), bars, (), (), ()), name="shop", days=1).shapes
        if "bar-shape" in shape.css
    ]
    widths = {shape.title.partition(":")[0]: shape.width for shape in drawn}
    assert widths == {"backup": "25.000%", "maintenance": "75.000%"}
    assert all("bar-open" in shape.css for shape in drawn)
    assert all(len(re.findall(r"\d\d:\d\d", shape.title)) == 1 for shape in drawn), "a start and no end"


def test_dense_strip_keeps_its_bars_inside_and_has_no_hours() -> None:
    day = Interval(at(0), at(24))
    bars = tuple(TimelineBar(BarKind.BACKUP, "b", Interval(at(6), at(8)), f"run {number}") for number in range(5))
    line = Timeline(day, at(12), bars, (), (), ())
    dense, loose = (strip(line, name="shop", is_dense=is_dense) for is_dense in (True, False))
    assert dense.height < loose.height
    assert all(shape.y + shape.height <= dense.height for shape in dense.shapes)
    assert not any(hour.label for hour in dense.hours)
    with timezone.override(UTC):
        assert re.findall(r">(\d\d)<", hours(line)) == [hour.label for hour in loose.hours]


@pytest.mark.parametrize(("title", "stays"), [("Disk", True), (phrase("Disk"), False)])
def test_reason_of_a_person_is_no_word_of_dbops(title: str, stays: bool) -> None:
    bar = TimelineBar(BarKind.MAINTENANCE, "", Interval(at(6), at(8)), title)
    with translation.override("ja"):
        line = Timeline(Interval(at(0), at(24)), at(12), (bar,), (), (), ())
        shapes = calendar_row(line, name="shop", days=1).shapes
    assert ["Disk" in shape.title for shape in shapes if "bar-shape" in shape.css] == [stays]
