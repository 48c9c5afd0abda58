"""Trends of generated series: steps, seasons, deletions and gaps."""

from datetime import timedelta

import pytest

from dbops.engine.capacity.trend import (
    DAYS_NEEDED,
    MOST_POINTS,
    NEVER,
    Crossing,
    DailyValue,
    RateUsed,
    Trend,
    TrendState,
    by_day,
    theil_sen,
    trend_of,
)
from tests.engine.capacity.series import START, grown, points, purged

DAY = timedelta(days=1)


def rates(trend: Trend) -> tuple[float, float, float]:
    assert trend.net_per_day is not None
    assert trend.gross_per_day is not None
    assert trend.rate_per_day is not None
    return trend.net_per_day, trend.gross_per_day, trend.rate_per_day


def spans(trend: Trend, rate: float) -> bool:
    """Whether the range of the rate contains this one."""
    return (
        trend.low_per_day is not None
        and trend.high_per_day is not None
        and trend.low_per_day <= rate <= trend.high_per_day
    )


def test_a_line_is_followed_exactly() -> None:
    trend = trend_of(points([100.0 + day for day in range(90)]))
    assert rates(trend) == pytest.approx((1, 1, 1))
    assert (trend.state, trend.used, trend.days, trend.steps) == (TrendState.GROWING, RateUsed.NET, 90, 0)
    crossing = trend.reaches(289.0)
    assert crossing.first == crossing.last == START + 189 * DAY


@pytest.mark.parametrize("at", [20, 45, 80])
def test_a_single_deletion_is_no_growth(at: int) -> None:
    trend = trend_of(points(grown(lambda day: 100 + day - (40 if day >= at else 0))))
    _, gross, rate = rates(trend)
    assert rate == pytest.approx(1, abs=0.02)
    assert gross == pytest.approx(1, abs=0.05)
    assert (trend.state, trend.used, trend.steps) == (TrendState.GROWING, RateUsed.WITHOUT_STEPS, 1)


def test_net_rate_keeps_the_deletion_that_dates_leave_out() -> None:
    net, _, rate = rates(trend_of(points(grown(lambda day: 100 + day - (40 if day >= 45 else 0)))))
    assert net == pytest.approx(0.52, abs=0.02)
    assert rate == pytest.approx(1, abs=0.02)


def test_a_step_up_and_one_down_are_left_out() -> None:
    trend = trend_of(points(grown(lambda day: 100 + day + (50 if day >= 30 else 0) - (45 if day >= 60 else 0))))
    assert rates(trend)[2] == pytest.approx(1, abs=0.02)
    assert trend.steps == 2


def test_a_monthly_purge_belongs_to_the_growth() -> None:
    trend = trend_of(points(grown(purged, days=120)))
    net, gross, rate = rates(trend)
    assert (net, gross) == (pytest.approx(0.4, abs=0.03), pytest.approx(1, abs=0.03))
    assert rate == net
    assert (trend.used, trend.steps) == (RateUsed.NET, 3)
    assert spans(trend, 1 / 3)


def test_a_week_of_five_days_grows_by_its_average() -> None:
    total, values = 100.0, []
    for day in range(90):
        total += 1.4 if day % 7 < 5 else 0.0
        values.append(total)
    net, gross, rate = rates(trend_of(points(values)))
    assert (net, gross) == (pytest.approx(1, abs=0.02), pytest.approx(1.4))
    assert rate == net


def test_a_weekly_season_is_no_growth() -> None:
    season = points(grown(lambda day: 100 + (10 if day % 7 < 5 else 0)))
    assert trend_of(season).state is TrendState.NOT_GROWING
    rising = trend_of(points(grown(lambda day: 100 + day / 2 + (10 if day % 7 < 5 else 0))))
    assert rates(rising)[2] == pytest.approx(0.5, abs=0.02)


def test_days_without_readings_change_no_rate() -> None:
    values: list[float | None] = [*grown(lambda day: 100 + day)]
    for day in (*range(20, 40), 50, 51, 85):
        values[day] = None
    trend = trend_of(points(values))
    assert rates(trend) == pytest.approx((1, 1, 1), abs=0.02)
    assert (trend.days, trend.steps) == (67, 0)


def test_a_step_within_a_gap_is_found() -> None:
    values: list[float | None] = [*grown(lambda day: 100 + day - (40 if day >= 45 else 0))]
    values[40:50] = [None] * 10
    trend = trend_of(points(values))
    assert rates(trend)[2] == pytest.approx(1, abs=0.03)
    assert trend.steps == 1


def test_growth_in_rare_units_is_growth() -> None:
    trend = trend_of(points([500.0 + 3 * (day // 9) for day in range(90)]))
    assert rates(trend) == (pytest.approx(1 / 3, abs=0.01), 0, pytest.approx(1 / 3, abs=0.01))


def test_a_constant_never_reaches_a_limit() -> None:
    trend = trend_of(points([600.0] * 90))
    assert (trend.state, trend.reaches(601)) == (TrendState.NOT_GROWING, NEVER)


def test_a_shrinking_series_never_reaches_a_limit() -> None:
    trend = trend_of(points(grown(lambda day: 600.0 - day)))
    assert (trend.state, trend.reaches(1000)) == (TrendState.NOT_GROWING, NEVER)


def test_noise_alone_rarely_looks_like_growth() -> None:
    states = [trend_of(points(grown(lambda _: 100.0, noise=3, seed=seed))).state for seed in range(100)]
    assert states.count(TrendState.GROWING) <= 2


def test_a_forecast_needs_four_weeks() -> None:
    short = trend_of(points([100.0 + day for day in range(DAYS_NEEDED - 1)]))
    assert (short.state, short.days, short.level, short.rate_per_day) == (TrendState.UNKNOWN, 27, 126, None)
    assert short.reaches(200) == NEVER
    assert trend_of(points([100.0 + day for day in range(DAYS_NEEDED)])).state is TrendState.GROWING
    assert trend_of([]) == Trend(TrendState.UNKNOWN, 0)


def test_hours_of_one_day_are_one_day() -> None:
    hourly = [DailyValue(START + timedelta(hours=hour), float(hour)) for hour in range(48)]
    assert [point.value for point in by_day(hourly)] == [11, 35, 47]
    assert trend_of(hourly).state is TrendState.UNKNOWN


def test_backtest_widens_the_range_when_growth_changed() -> None:
    steady = trend_of(points(grown(lambda day: 100.0 + day)))
    bent = trend_of(points(grown(lambda day: 100.0 + day + max(0, day - 60) * 2)))
    assert steady.backtest_error is not None
    assert bent.backtest_error is not None
    assert steady.backtest_error < 1
    assert bent.backtest_error == pytest.approx(60, rel=0.1)
    assert bent.backtest_days == 30
    assert spans(bent, 3)
    assert not spans(steady, 1.1)


def test_ranges_hold_the_truth_of_a_random_walk() -> None:
    """Errors of growth add up, so an interval that takes them for independent would miss its truth far too often."""
    held = 0
    for seed in range(60):
        total, values = 0.0, []
        for step in grown(lambda _: 1.0, days=120, noise=2.0, seed=seed):
            total += step
            values.append(total)
        held += spans(trend_of(points(values)), 1.0)
    assert held >= 50


def test_a_last_date_is_open_if_growth_may_have_ended() -> None:
    trend = trend_of(points(grown(lambda day: 100.0 + min(day, 60))))
    crossing = trend.reaches(400)
    assert trend.state is TrendState.GROWING
    assert crossing.first is not None
    assert crossing.last is None


def test_dates_end_at_the_horizon() -> None:
    trend = trend_of(points([100.0 + day for day in range(90)]))
    assert trend.reaches(1e9) == Crossing(None, None)
    assert trend.reaches(50) == Crossing(START + 89 * DAY, START + 89 * DAY)


def test_long_series_are_thinned() -> None:
    days = [float(day) for day in range(5 * MOST_POINTS)]
    assert theil_sen(days, [2 * day for day in days]).slope == pytest.approx(2)


def test_whole_numbers_of_a_slow_series_are_no_steps() -> None:
    trend = trend_of(points([int(0.52 * day) for day in range(180)]))
    assert trend.steps == 0
    assert trend.rate_per_day == pytest.approx(0.52, abs=0.01)
