"""Forecast of the next week: hours worked out by hand, and properties for any calendar."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.forecast import Busy, Forecast, WaitCause, forecast, week_ahead

BERLIN, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
#: A Wednesday, 12:20.
NOW = datetime(2026, 3, 4, 12, 20, tzinfo=UTC)
HOUR = 3600.0
MONDAY = datetime(2026, 3, 9, tzinfo=UTC)


def nightly(source: str, at_hour: float, hours: float | None, *, days: int = 12) -> list[Busy]:
    """Return a backup of each night from two days before on."""
    start = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=at_hour)
    return [
        Busy(source, one, None if hours is None else one + timedelta(hours=hours), f"{source}'s backup")
        for one in (start + timedelta(days=number) for number in range(days))
    ]


def made(busy: list[Busy], *sources: str, rebuild: float | None = HOUR) -> Forecast:
    return forecast(week_ahead(NOW, UTC), sources or ("backup-1",), busy, rebuild_seconds=rebuild)


def test_week_ahead_begins_now_and_has_each_hour_once() -> None:
    pieces = week_ahead(NOW, UTC)
    assert (pieces[0].weekday, pieces[0].hour, pieces[0].interval.start) == (2, 12, NOW)
    assert pieces[-1].interval.end == NOW + timedelta(days=7)
    assert len({(one.weekday, one.hour) for one in pieces}) == 168
    assert [(one.weekday, one.hour) for one in pieces].count((2, 12)) == 2
    assert len(week_ahead(MONDAY, UTC)) == 168


@pytest.mark.parametrize(("ended", "wait"), [(-1, 0.0), (0, 0.0), (1, 60.0)])
def test_what_has_ended_in_the_current_hour_delays_nothing(ended: int, wait: float) -> None:
    stop = Busy("", NOW - timedelta(minutes=15), NOW + timedelta(minutes=ended), "maintenance")
    hour = made([stop]).of(2, 12)
    assert hour
    assert hour.wait_seconds == wait


def test_current_hour_counts_its_past_minutes_a_week_later() -> None:
    begins = NOW + timedelta(days=7, minutes=-15)
    hour = made([Busy("", begins, begins + timedelta(hours=2), "weekly backup")]).of(2, 12)
    assert hour
    assert (hour.at, hour.wait_seconds) == (begins, 2 * HOUR)


@pytest.mark.parametrize(
    ("zone", "now", "hours", "keys"),
    [
        (BERLIN, datetime(2026, 3, 25, 9, 5, tzinfo=UTC), 167.0, 167),  # 29 March: two o'clock is left out
        (BERLIN, datetime(2026, 10, 21, 9, 5, tzinfo=UTC), 169.0, 168),  # 25 October: it comes twice
        (LORD_HOWE, datetime(2026, 4, 1, 9, 5, tzinfo=UTC), 168.5, 168),  # 5 April: half an hour comes twice
        (ZoneInfo("Asia/Kathmandu"), datetime(2026, 4, 1, 9, 5, tzinfo=UTC), 168.0, 168),
    ],
)
def test_week_ahead_handles_clock_changes(zone: ZoneInfo, now: datetime, hours: float, keys: int) -> None:
    pieces = week_ahead(now, zone)
    assert sum(one.interval.seconds for one in pieces) == hours * HOUR
    assert len({(one.weekday, one.hour) for one in pieces}) == keys
    assert all(one.interval.end == other.interval.start for one, other in zip(pieces, pieces[1:], strict=False))
    assert all(one.interval.start.astimezone(zone).hour == one.hour for one in pieces)
    found = forecast(pieces, ("backup-1",), [], rebuild_seconds=HOUR)
    assert len(found.hours) == keys


def test_forecast_waits_for_a_backup_from_two_to_five() -> None:
    found = made(nightly("backup-1", 2, 3))
    shown = {hour: found.of(0, hour) for hour in (1, 2, 3, 4, 5)}
    assert {hour: one.seconds / HOUR for hour, one in shown.items() if one and one.seconds} == {
        1: 1,
        2: 4,
        3: 3,
        4: 2,
        5: 1,
    }
    assert found.worst
    assert (found.worst.weekday, found.worst.hour, found.worst.why) == (3, 2, "backup-1's backup")
    assert (found.breaches(2 * HOUR), found.breaches(4 * HOUR), found.unknown(HOUR)) == (14, 0, 0)


def test_hour_takes_its_worst_moment_when_a_backup_begins_within_it() -> None:
    found = made(nightly("backup-1", 2.5, 1))
    two, three = found.of(0, 2), found.of(0, 3)
    assert two
    assert three
    assert (two.at, two.wait_seconds) == (MONDAY + timedelta(hours=2.5), HOUR)
    assert (three.at, three.wait_seconds) == (MONDAY + timedelta(hours=3), HOUR / 2)


def test_forecast_uses_a_second_free_source() -> None:
    both = [*nightly("backup-1", 2, 3), *nightly("backup-2", 4, 3)]
    found = made(both, "backup-1", "backup-2")
    waits = [one.wait_seconds for hour in (3, 4, 5) if (one := found.of(0, hour))]
    assert waits == [0, HOUR, 0]
    four = found.of(0, 4)
    assert four
    assert four.why == "backup-1's backup"


def test_forecast_joins_consecutive_backups_into_one_wait() -> None:
    found = made([*nightly("backup-1", 2, 3), *nightly("backup-1", 5, 2)])
    two = found.of(0, 2)
    assert two
    assert two.wait_seconds == 5 * HOUR


def test_maintenance_stops_all_sources() -> None:
    stop = Busy("", MONDAY, MONDAY + timedelta(hours=6), "maintenance")
    found = made([stop], "backup-1", "backup-2")
    assert found.worst
    assert (found.worst.at, found.worst.seconds) == (MONDAY, 7 * HOUR)
    assert sum(bool(one.wait_seconds) for one in found.hours) == 6


def test_forecast_has_no_estimate_when_a_backup_has_no_end() -> None:
    found = made([Busy("backup-1", MONDAY, None, "weekly")])
    noon = found.of(0, 12)
    assert noon
    assert (noon.wait_seconds, noon.seconds, noon.cause) == (None, None, WaitCause.NO_END)
    assert "weekly" in noon.why
    sunday = found.of(6, 23)
    assert sunday
    assert sunday.seconds == HOUR
    assert found.unknown(4 * HOUR) == 61, "from Monday to Wednesday 12:20"
    assert found.worst
    assert found.worst.seconds == HOUR


def test_forecast_has_only_the_wait_without_a_measured_rebuild() -> None:
    found = made(nightly("backup-1", 2, 6), rebuild=None)
    assert found.worst is None
    assert found.longest_wait
    assert (found.longest_wait.hour, found.longest_wait.wait_seconds) == (2, 6 * HOUR)
    assert (found.breaches(4 * HOUR), found.unknown(4 * HOUR)) == (14, 154), (
        "two and three o'clock wait too long as it is"
    )


def test_forecast_names_the_cause_when_no_source_is_ever_free() -> None:
    nobody = forecast(week_ahead(NOW, UTC), (), [], rebuild_seconds=HOUR)
    assert {one.cause for one in nobody.hours} == {WaitCause.NO_SOURCE}
    always = made(nightly("backup-1", 0, 24, days=20))
    assert {one.cause for one in always.hours} == {WaitCause.NEVER_FREE}
    assert always.worst is None


@st.composite
def calendars(draw: st.DrawFn) -> list[Busy]:
    found = []
    for _ in range(draw(st.integers(0, 8))):
        start = NOW + timedelta(minutes=draw(st.integers(-3000, 10_000)))
        minutes = draw(st.integers(0, 3000))
        end = None if minutes > 2900 else start + timedelta(minutes=minutes)
        found.append(Busy(draw(st.sampled_from(["", "a", "b"])), start, end, "x"))
    return found


def waits(found: Forecast) -> list[float]:
    return [float("inf") if one.wait_seconds is None else one.wait_seconds for one in found.hours]


@given(calendars())
def test_forecast_never_grows_with_fewer_blockers_or_more_sources(busy: list[Busy]) -> None:
    pieces = week_ahead(NOW, BERLIN)
    given_ = waits(forecast(pieces, ("a",), busy, rebuild_seconds=HOUR))
    for better in (
        forecast(pieces, ("a", "b"), busy, rebuild_seconds=HOUR),
        forecast(pieces, ("a",), busy[1:], rebuild_seconds=HOUR),
    ):
        assert all(one <= other for one, other in zip(waits(better), given_, strict=True))
    free = forecast(pieces, ("a", "c"), [one for one in busy if one.source], rebuild_seconds=HOUR)
    assert set(waits(free)) == {0.0}


@given(calendars(), st.integers(0, 167), st.integers(0, 59))
def test_hour_wait_is_an_upper_bound_of_its_moments(busy: list[Busy], number: int, minute: int) -> None:
    pieces = week_ahead(NOW, UTC)
    moment = pieces[number].interval.start + timedelta(minutes=minute)
    found = forecast(pieces, ("a",), busy, rebuild_seconds=None).hours[number].wait_seconds
    of_it = [one for one in busy if one.source in ("", "a")]
    at = moment
    while held := [one for one in of_it if one.start <= at and (one.end is None or at < one.end)]:
        if any(one.end is None for one in held):
            assert found is None
            return
        at = max(one.end for one in held if one.end)
    assert found is None or (at - moment).total_seconds() <= found
