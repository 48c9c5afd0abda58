"""Rates of counters across restarts."""

from datetime import UTC, datetime, timedelta

from dbops.engine.capacity.rates import COUNTERS, rates

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)


def of(uptime: int | None, value: int | None) -> dict[str, int | None]:
    return {"uptime_seconds": uptime, **dict.fromkeys(COUNTERS, value)}


def test_a_rate_is_the_difference_by_time() -> None:
    assert rates(of(100, 1000), AT, of(3700, 8200), LATER) == dict.fromkeys(COUNTERS, 2.0)


def test_a_restarted_counter_has_counted_since_the_start() -> None:
    assert rates(of(90_000, 10**9), AT, of(600, 1200), LATER)["questions"] == 2.0


def test_a_restart_is_found_though_the_counter_is_larger() -> None:
    assert rates(of(2000, 100), AT, of(600, 1200), LATER)["questions"] == 2.0


def test_a_restart_is_found_though_the_uptime_is_longer() -> None:
    assert rates(of(1200, 600_000), AT, of(3000, 3_000_000), LATER)["questions"] == 1000.0
    assert rates(of(None, 600_000), AT, of(3000, 3_000_000), LATER)["questions"] == 1000.0


def test_a_counter_that_was_set_back_has_no_rate() -> None:
    found = rates(of(100, 1000) | {"writes": 5}, AT, of(3700, 500), LATER)
    assert (found["questions"], found["writes"]) == (None, 495 / 3600)


def test_an_unknown_counter_has_no_rate() -> None:
    assert rates(of(100, None), AT, of(3700, 8200), LATER)["questions"] is None
    assert rates(of(100, 1), AT, of(3700, None), LATER)["questions"] is None
    assert rates(of(100, 1), AT, of(100, 5), AT)["questions"] is None
