"""Intervals, days of 23 and 25 hours, and positions on a time line."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.schedule.calendar import (
    ClockChange,
    Interval,
    clip,
    common,
    day,
    days,
    free,
    lanes,
    merge,
    next_clock_change,
    place,
    position,
    ticks,
)

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Cairo")]
DAY = day(date(2026, 11, 21), ZoneInfo("UTC"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}+00:00")


def span(start: str, end: str) -> Interval:
    return Interval(at(start), at(end))


minutes = st.integers(-1000, 2500)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    start, length = draw(minutes), draw(st.integers(0, 1500))
    begin = DAY.start + timedelta(minutes=start)
    return Interval(begin, begin + timedelta(minutes=length))


def covered(parts: list[Interval]) -> float:
    return sum(part.seconds for part in parts)


def test_interval_refuses_reversed_ends_and_naive_times() -> None:
    with pytest.raises(ValueError, match=r"01:00.*02:00"):
        span("21T02:00", "21T01:00")
    with pytest.raises(ValueError, match="zone"):
        Interval(datetime(2026, 1, 1), datetime(2026, 1, 2))  # noqa: DTZ001


def test_merge_joins_overlaps_and_neighbors() -> None:
    found = merge([span("21T04:00", "21T05:00"), span("21T01:00", "21T03:00"), span("21T03:00", "21T04:00")])
    assert found == [span("21T01:00", "21T05:00")]


def test_free_splits_a_run_across_midnight() -> None:
    assert free([span("20T23:00", "21T06:10"), span("21T23:00", "22T04:00")], DAY) == [span("21T06:10", "21T23:00")]


@given(st.lists(intervals()))
def test_free_and_blocked_cover_the_day_without_overlap(blocked: list[Interval]) -> None:
    left, taken = free(blocked, DAY), merge(clip(blocked, DAY))
    assert covered(left) + covered(taken) == DAY.seconds
    assert merge([*left, *taken]) == [DAY]
    assert not any(one.meets(other) for one in left for other in blocked)
    assert all(one.end < other.start for one, other in zip(left, left[1:], strict=False))


@given(st.lists(intervals()))
def test_merging_keeps_every_moment_and_no_overlap(found: list[Interval]) -> None:
    merged = merge(found)
    assert all(one.end < other.start for one, other in zip(merged, merged[1:], strict=False))
    assert all(any(one.start <= item.start and item.end <= one.end for one in merged) for item in found if item.seconds)
    assert merge(merged) == merged


@given(st.lists(st.lists(intervals(), max_size=4), min_size=1, max_size=3), minutes)
def test_common_time_is_in_every_set(sets: list[list[Interval]], minute: int) -> None:
    moment = DAY.start + timedelta(minutes=minute % 1440)
    everywhere = all(any(item.holds(moment) for item in one) for one in sets)
    assert any(item.holds(moment) for item in common(sets, DAY)) == everywhere


@pytest.mark.parametrize(("on", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-21", 24)])
def test_day_has_the_hours_of_the_local_clock(on: str, hours: int) -> None:
    assert day(date.fromisoformat(on), BERLIN).seconds == hours * 3600


def test_day_starts_at_the_jump_when_midnight_is_missing() -> None:
    """In Cairo the clock goes from Thursday, 24:00 to Friday, 01:00."""
    found = day(date(2026, 4, 24), ZoneInfo("Africa/Cairo"))
    assert found.seconds == 23 * 3600
    assert found.start == datetime(2026, 4, 23, 22, tzinfo=UTC)


@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.sampled_from(ZONES))
def test_days_follow_each_other_without_a_gap(first: date, zone: ZoneInfo) -> None:
    week = days(first, 7, zone)
    assert all(one.end == other.start for one, other in zip(week, week[1:], strict=False))
    assert all(one.seconds in (23 * 3600, 24 * 3600, 25 * 3600) for one in week)


@given(intervals())
def test_place_stays_within_the_line(interval: Interval) -> None:
    placed = place(interval, DAY)
    if placed is None:
        assert interval.within(DAY) is None
    else:
        assert 0 <= placed.left <= placed.right <= 100 + 1e-9


def test_position_is_none_outside_the_day() -> None:
    assert position(at("21T06:00"), DAY) == 25
    assert position(at("22T06:00"), DAY) is None


def test_ticks_repeat_the_doubled_hour_and_omit_the_missing_one() -> None:
    def hours(on: str) -> list[int]:
        line = day(date.fromisoformat(on), BERLIN)
        return [tick.at.astimezone(BERLIN).hour for tick in ticks(line, BERLIN, 1)]

    assert hours("2026-10-25")[1:5] == [1, 2, 2, 3]
    assert hours("2026-03-29")[1:4] == [1, 3, 4]


def test_ticks_are_full_hours_in_fractional_zones() -> None:
    kathmandu = ZoneInfo("Asia/Kathmandu")
    found = ticks(day(date(2026, 11, 21), kathmandu), kathmandu, 6)
    assert [f"{tick.at.astimezone(kathmandu):%H:%M}" for tick in found] == ["00:00", "06:00", "12:00", "18:00", "00:00"]
    assert [tick.left for tick in found] == [0, 25, 50, 75, 100]


@given(st.lists(intervals().filter(lambda item: item.seconds > 0)))
def test_lanes_never_overlap_and_are_minimal(found: list[Interval]) -> None:
    placed = lanes((item, item) for item in found)
    for one in placed:
        assert sum(other.lane == one.lane and other.item.meets(one.item) for other in placed) <= found.count(one.item)
        same = [other for other in placed if other is not one and other.lane == one.lane]
        assert not any(other.item.meets(one.item) for other in same)
    worst = max((sum(item.holds(one.start) for item in found) for one in found), default=0)
    assert len({one.lane for one in placed}) == worst


def test_next_clock_change_is_exact_to_the_minute() -> None:
    winter, summer = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 10, 1, 7, 31, 12, tzinfo=UTC)
    assert next_clock_change(BERLIN, winter, 45) == ClockChange(datetime(2026, 3, 29, 1, tzinfo=UTC), 3600)
    assert next_clock_change(BERLIN, summer, 45) == ClockChange(datetime(2026, 10, 25, 1, tzinfo=UTC), -3600)
    assert next_clock_change(BERLIN, winter, 20) is None
    assert next_clock_change(ZoneInfo("UTC"), winter, 366) is None
