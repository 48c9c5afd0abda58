"""Gaps of days add up to the gaps of any time, to the microsecond."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given

from dbops.engine.availability.days import (
    Amounts,
    SumKey,
    added,
    amounts,
    by_day,
    day_of,
    first_full_day,
    midnight,
    settled_until,
)
from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval
from tests.engine.by_name import parts

from .test_record import HOURS, WEEK, gaps, records, span


@given(records())
def test_by_day_sums_equal_the_whole(given: ClusterRecord) -> None:
    found = gaps(given)
    sums: Amounts = {}
    for (_, kind), value in by_day(found).items():
        sums = added(sums, {kind: value})
    assert sums == amounts(found)


@given(records(), HOURS, HOURS)
def test_full_days_and_judged_edges_equal_any_period(given: ClusterRecord, one: int, other: int) -> None:
    period = span(min(one, other), max(one, other) + 0.5)
    first, last = midnight(first_full_day(period.start)), midnight(day_of(period.end))
    if first >= last:
        return
    stored = by_day(gaps(given, WEEK))
    days: Amounts = {}
    for (day, kind), value in stored.items():
        if first <= midnight(day) < last:
            days = added(days, {kind: value})
    edges = [Interval(period.start, first), Interval(last, period.end)]
    judged = [amounts(parts(given, edge, method="xbstream")) for edge in edges]
    assert added(days, *judged) == amounts(gaps(given, period))


def test_by_day_splits_a_gap_at_midnight() -> None:
    night = Interval(datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 30, 1, 30, tzinfo=UTC))
    kind = SumKey(Gap.SHORT, Cause.STREAM, False)
    assert by_day([Shortage(Gap.SHORT, night, Cause.STREAM)]) == {
        (date(2026, 3, 28), kind): 3600 * 10**6,
        (date(2026, 3, 29), kind): 86400 * 10**6,
        (date(2026, 3, 30), kind): 5400 * 10**6,
    }


@pytest.mark.parametrize(
    ("clock", "first_open"),
    [("23:59", 29), ("00:59", 29), ("01:00", 30), ("12:00", 30)],
)
def test_settled_until_includes_a_day_one_hour_after_its_end(clock: str, first_open: int) -> None:
    day = 29 if clock == "23:59" else 30
    now = datetime.fromisoformat(f"2026-03-{day}T{clock}:00+00:00")
    assert settled_until(now, timedelta(seconds=60)) == date(2026, 3, first_open)


def test_settled_until_waits_longer_when_probes_are_rare() -> None:
    assert settled_until(datetime(2026, 3, 30, 1, 59, tzinfo=UTC), timedelta(hours=1)) == date(2026, 3, 29)


def test_first_full_day_includes_a_day_that_starts_exactly_then() -> None:
    assert first_full_day(datetime(2026, 3, 30, tzinfo=UTC)) == date(2026, 3, 30)
    assert first_full_day(datetime(2026, 3, 30, 0, 0, 1, tzinfo=UTC)) == date(2026, 3, 31)
