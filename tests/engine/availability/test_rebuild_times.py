"""Times to rebuild and the age of restore tests."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.rebuild_times import MeasuredRebuild, rebuild_times
from dbops.engine.availability.verified_sources import STALE_AFTER, VerifiedSource, oldest_first

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
RUNS = st.lists(
    st.builds(
        MeasuredRebuild,
        st.sampled_from(["xbstream", "dump"]),
        st.floats(1, 1e6),
        st.dictionaries(st.sampled_from(["Stream", "Prepare", "Start"]), st.floats(0, 1e5)),
    ),
    max_size=12,
)


def took(seconds: float, method: str = "xbstream", **steps: float) -> MeasuredRebuild:
    return MeasuredRebuild(method, seconds, steps)


def test_rebuild_times_compare_method_and_steps_with_the_period_before() -> None:
    [found] = rebuild_times(
        [took(100, Stream=60, Prepare=30), took(200, Stream=150), took(300, Stream=240, Prepare=40)],
        [took(100, Stream=100), took(160, Stream=160)],
    )
    assert (found.method, found.whole.runs) == ("xbstream", 3)
    assert (found.whole.p50, found.whole.p90, found.whole.worst) == (200, 300, 300)
    assert found.whole.trend_percent == pytest.approx(100)
    stream, prepare = found.steps
    assert (stream.what, stream.runs, stream.p50, stream.before_p50) == ("Stream", 3, 150, 100)
    assert (prepare.what, prepare.runs, prepare.p90, prepare.before_p50) == ("Prepare", 2, None, None)
    assert prepare.trend_percent is None


def test_rebuild_times_sort_by_use_and_omit_unused_methods() -> None:
    found = rebuild_times([took(1, "dump"), took(2), took(3)], [took(9, "archive")])
    assert [one.method for one in found] == ["xbstream", "dump"]


@given(RUNS, RUNS)
def test_figures_lie_in_their_order_and_every_rebuild_counts_once(
    now: list[MeasuredRebuild], before: list[MeasuredRebuild]
) -> None:
    found = rebuild_times(now, before)
    assert sum(one.whole.runs for one in found) == len(now)
    for one in found:
        for row in (one.whole, *one.steps):
            assert row.p50 <= (row.p90 or row.worst) <= row.worst
            assert row.runs <= one.whole.runs


def test_restore_test_age_becomes_old() -> None:
    fresh, old = (
        VerifiedSource("a", 1, NOW - STALE_AFTER),
        VerifiedSource("b", 2, NOW - STALE_AFTER - timedelta(seconds=1)),
    )
    never = VerifiedSource("c")
    assert [restore_test.is_stale(NOW) for restore_test in (fresh, old, never)] == [False, True, True]
    assert oldest_first([fresh, old, never]) == [never, old, fresh]
