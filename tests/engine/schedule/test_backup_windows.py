"""What is learned from past runs, and when one that runs is expected to end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.schedule.backup_windows import (
    LEARNED_RUNS,
    Basis,
    Duration,
    Past,
    expected_end,
    learn,
    predict,
    spell,
)
from tests.engine.snapshots import HOUR, NOW, hours, window

seconds = st.floats(min_value=0, max_value=10 * 86400, allow_nan=False)


@pytest.mark.parametrize(
    ("past", "expected", "learned"),
    [
        ([], None, None),
        ([], 3600, Duration(3600, 3600, 0)),
        ([100], 3600, Duration(100, 100, 1)),
        ([100, 300], None, Duration(200, 300, 2)),
        (list(range(1, 11)), None, Duration(5.5, 9, 10)),
        ([10] * 9 + [99], None, Duration(10, 10, 10)),
        ([10] * 8 + [99, 99], None, Duration(10, 99, 10)),
    ],
)
def test_learn_returns_p50_p90_or_the_expectation(
    past: list[float], expected: float | None, learned: Duration | None
) -> None:
    assert learn(past, expected) == learned


def test_only_the_latest_runs_count() -> None:
    assert learn([60.0] * LEARNED_RUNS + [9999.0] * 100) == Duration(60, 60, LEARNED_RUNS)


@given(st.lists(seconds, min_size=1, max_size=40))
def test_learn_stays_within_the_observed_range(past: list[float]) -> None:
    learned = learn(past)
    assert learned is not None
    assert min(past) <= learned.p50_seconds <= learned.p90_seconds <= max(past)


def test_expected_end_is_start_plus_median() -> None:
    end = expected_end(hours(-1), Duration(2 * HOUR, 4 * HOUR, 20), NOW)
    assert (end.p50, end.p90) == (hours(1), hours(3))
    assert end.basis is Basis.HISTORY
    assert "20" in end.reason


def test_expected_end_lies_between_now_and_p90_after_the_median() -> None:
    end = expected_end(hours(-3), Duration(2 * HOUR, 4 * HOUR, 20), NOW)
    assert (end.p50, end.p90) == (hours(0.5), hours(1))


def test_expected_end_is_unknown_after_p90() -> None:
    end = expected_end(hours(-5), Duration(2 * HOUR, 4 * HOUR, 20), NOW)
    assert (end.p50, end.p90) == (None, None)
    assert end.basis is Basis.OVERDUE
    assert spell(5 * HOUR) in end.reason
    assert spell(4 * HOUR) in end.reason


def test_expected_end_is_unknown_without_history() -> None:
    assert expected_end(hours(-1), None, NOW).basis is Basis.NO_RUN
    assert (window(duration=None).ends_p50, window(duration=None).basis) == (None, Basis.NO_RUN)
    assert expected_end(hours(-1), Duration(2 * HOUR, 2 * HOUR, 0), NOW).basis is Basis.EXPECTATION


@given(taken=st.floats(min_value=-1e6, max_value=1e6), p50=seconds, more=seconds)
def test_expected_end_is_never_in_the_past(taken: float, p50: float, more: float) -> None:
    end = expected_end(NOW - timedelta(seconds=taken), Duration(p50, p50 + more, 3), NOW)
    assert (end.p50 is None) == (end.p90 is None)
    if end.p50 and end.p90:
        assert NOW <= end.p50 <= end.p90


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (4.24, "4.2 s"),
        (5, "5 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (11100, "3 h 05 min"),
        (183600, "2 d 3 h"),
    ],
)
def test_spell_names_seconds(value: float, text: str) -> None:
    assert spell(value) == text


def test_predict_scales_own_history_by_size() -> None:
    found = predict([Past(100, 10), Past(300, 30)], [Past(1, 1)], bytes_to_copy=20)
    assert found.duration == Duration(200, 200, 2)
    assert found.basis is Basis.HISTORY
    assert "2" in found.reason


def test_predict_uses_size_and_fleet_speed_without_own_history() -> None:
    found = predict([], [Past(100, 10), Past(400, None)], bytes_to_copy=50)
    assert found.duration == Duration(500, 500, 1)


@pytest.mark.parametrize(
    ("others", "size", "why"), [([], 50, Basis.NO_REBUILD), ([Past(100, 10)], None, Basis.NO_SIZE)]
)
def test_predict_is_unknown_without_any_history(others: list[Past], size: int | None, why: Basis) -> None:
    found = predict([], others, bytes_to_copy=size)
    assert (found.duration, found.basis) == (None, why)
