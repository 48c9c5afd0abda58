"""Samples: how often, which are kept, and the rates between them."""

from dbops.engine.rebuilds.metrics import (
    INTERVAL_SECONDS,
    SHOWN,
    Figures,
    Spread,
    StepSample,
    figures_of,
    number_at,
    points,
    spacing,
    spread,
    thinned,
)


def sample(number: int, step: str = "stream", **figures: float | None) -> StepSample:
    return StepSample(number, 1000.0 + number * INTERVAL_SECONDS, step, Figures(**figures))  # type: ignore[arg-type]


def test_spacing_grows_with_the_duration() -> None:
    short = INTERVAL_SECONDS * SHOWN
    assert [spacing(seconds) for seconds in (0, short, short + 1, 2 * short + 1)] == [
        INTERVAL_SECONDS * factor for factor in (1, 1, 2, 4)
    ]


def test_numbers_never_fall_and_a_day_and_a_half_has_a_few_thousand() -> None:
    numbers = [number_at(second / 2) for second in range(2 * 36 * 3600)]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) < 5 * SHOWN
    assert number_at(-3.0) == 0


def test_two_drivers_at_the_same_moment_write_the_same_number() -> None:
    assert number_at(10.1) == number_at(11.9) == 5


def test_points_have_the_rate_since_the_previous_sample() -> None:
    found = points([sample(0, bytes=0), sample(1, bytes=600, disk_read_bytes=10), sample(3, bytes=1000)])
    assert [point.rate for point in found] == [None, 300.0, 100.0]
    assert [point.disk_read for point in found] == [None, None, None]


def test_points_have_no_rate_between_steps_or_processes() -> None:
    found = points([sample(0, bytes=500), sample(1, bytes=100), sample(2, "prepare", bytes=900)])
    assert [point.rate for point in found] == [None, None, None]


def test_lag_is_of_the_moment_and_zero_is_a_number() -> None:
    assert [point.source_lag_seconds for point in points([sample(0, source_lag_seconds=0.0), sample(1)])] == [0.0, None]
    assert points([]) == []


def test_thinning_keeps_every_byte_and_the_highest_lag() -> None:
    many = [
        sample(number, bytes=number * 100, source_lag_seconds=60.0 if number == 1234 else 0.0) for number in range(2500)
    ]
    few = thinned(many, 100)
    assert len(few) == 100
    assert few[-1].number == 2499
    assert max(item.figures.source_lag_seconds or 0.0 for item in few) == 60.0
    assert {point.rate for point in points(few)[1:]} == {50.0}
    assert thinned(many, 2500) == many


def test_spread_has_minimum_median_and_maximum() -> None:
    assert spread([None, 4.0, 1.0, 10.0]) == Spread(1.0, 4.0, 10.0)
    assert spread([None]) is None


def test_figures_of_reads_the_counters_of_one_process() -> None:
    counters = {"unpack.disk_read_bytes": 1, "unpack.disk_write_bytes": 2, "transport.disk_read_bytes": 9}
    assert figures_of(counters, "unpack") == Figures(disk_read_bytes=1, disk_written_bytes=2)
    assert figures_of({}, "unpack") == Figures()
