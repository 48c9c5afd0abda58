"""Redundancy debt by week: nothing is lost between weeks, also where the clock changes in one."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.debt import causes_of, debt, weeks
from dbops.engine.availability.gaps import seconds_by_cause
from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval

from .test_record import WEEK, gaps, records

BERLIN = ZoneInfo("Europe/Berlin")
MARCH = Interval(datetime(2026, 3, 18, 12, tzinfo=UTC), datetime(2026, 4, 8, 12, tzinfo=UTC))


def test_weeks_begin_on_monday_with_one_hour_less_at_dst() -> None:
    found = weeks(MARCH, BERLIN)
    assert [f"{item.start.astimezone(BERLIN):%a %d %b %H:%M}" for item in found] == [
        "Wed 18 Mar 13:00",
        "Mon 23 Mar 00:00",
        "Mon 30 Mar 00:00",
        "Mon 06 Apr 00:00",
    ]
    assert found[1].seconds == (7 * 24 - 1) * 3600
    assert sum(item.seconds for item in found) == MARCH.seconds


@given(st.integers(0, 10_000), st.integers(1, 3_000))
def test_weeks_cover_the_whole_period(first: int, hours: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=first)
    period = Interval(start, start + timedelta(hours=hours))
    found = weeks(period, BERLIN)
    assert (found[0].start, found[-1].end) == (period.start, period.end)
    assert all(one.end == other.start for one, other in zip(found, found[1:], strict=False))


@given(records())
def test_weeks_make_up_the_debt_of_the_period_cause_by_cause(given: ClusterRecord) -> None:
    parts = gaps(given)
    found = debt(parts, weeks(WEEK, ZoneInfo("Asia/Kolkata")))
    sums = {cause: sum(week.of(cause) for week in found) for cause in causes_of(found)}
    assert sums == seconds_by_cause(parts, Gap.SHORT)


def test_debt_splits_a_gap_at_sunday_and_counts_missing_replicas_only() -> None:
    night = Interval(datetime(2026, 3, 22, 22, tzinfo=UTC), datetime(2026, 3, 23, 2, tzinfo=UTC))
    found = debt(
        [Shortage(Gap.SHORT, night, Cause.STREAM), Shortage(Gap.PAUSED, night, Cause.REBUILD)], weeks(MARCH, BERLIN)
    )
    assert [week.causes for week in found] == [((Cause.STREAM, 3600.0),), ((Cause.STREAM, 10800.0),), (), ()]
