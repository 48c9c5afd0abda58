"""Periods of what probes saw: they touch where probes follow each other, and leave out the time without probes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.periods import ProbedState, end_of_period, longest_gap
from dbops.engine.states import Role

T0 = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
GAP = longest_gap(15)
HEALTHY, STOPPED = ProbedState("healthy", Role.REPLICA, "1"), ProbedState("stopped", Role.REPLICA, "1")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_end_of_period_is_none_when_the_state_is_unchanged() -> None:
    assert end_of_period(HEALTHY, HEALTHY, last_seen_at=at(0), at=at(15), gap=GAP) is None
    assert end_of_period(HEALTHY, HEALTHY, last_seen_at=at(0), at=at(60), gap=GAP) is None


def test_end_of_period_is_the_probe_that_saw_the_change() -> None:
    assert end_of_period(HEALTHY, STOPPED, last_seen_at=at(0), at=at(15), gap=GAP) == at(15)


@pytest.mark.parametrize("now", [HEALTHY, STOPPED])
def test_end_of_period_is_the_last_probe_before_a_gap(now: ProbedState) -> None:
    assert end_of_period(HEALTHY, now, last_seen_at=at(0), at=at(61), gap=GAP) == at(0)


@pytest.mark.parametrize(
    "other",
    [ProbedState("healthy", Role.PRIMARY, "1"), ProbedState("healthy", Role.REPLICA, "2")],
    ids=["role", "cluster"],
)
def test_end_of_period_ends_at_another_role_or_cluster(other: ProbedState) -> None:
    assert end_of_period(HEALTHY, other, last_seen_at=at(0), at=at(15), gap=GAP) == at(15)


def test_rare_probes_may_be_farther_apart() -> None:
    assert longest_gap(15) == timedelta(seconds=60)
    assert longest_gap(60) == timedelta(seconds=180)


@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.sampled_from(["healthy", "stopped", "lagging"])), min_size=1, max_size=40
    )
)
def test_periods_cover_exactly_the_time_between_probes_that_follow_each_other(probes: list[tuple[int, str]]) -> None:
    periods: list[list[object]] = []
    seen: ProbedState | None = None
    last, moment, watched = None, T0, timedelta()
    for wait, word in probes:
        moment += timedelta(seconds=wait)
        now = ProbedState(word, Role.REPLICA, "1")
        end = end_of_period(seen, now, last_seen_at=last, at=moment, gap=GAP) if seen else moment
        if end is not None:
            if periods:
                periods[-1][1] = end
            periods.append([moment, None, word])
        if last is not None and moment - last <= GAP:
            watched += moment - last
        seen, last = now, moment
    periods[-1][1] = last
    assert sum((end - start for start, end, _ in periods), timedelta()) == watched
    for (_, end, word), (start, _, following) in zip(periods, periods[1:], strict=False):
        assert end <= start
        assert end < start or word != following
