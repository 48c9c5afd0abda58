"""What is not as usual with a run."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.backups.flags import RunFigures, flags_of, percentile
from dbops.engine.backups.matching import fits
from tests.engine.builders import NOW

MB = 1_000_000


def run(**changes: Any) -> RunFigures:
    values: dict[str, Any] = {"started_at": NOW, "seconds": 100.0, "bytes": 100 * MB, "is_succeeded": True}
    return RunFigures(**{**values, **changes})


USUAL = [run() for _ in range(6)]
CASES = [
    ("as usual", run(), USUAL, {}, []),
    ("a little less", run(bytes=86 * MB), USUAL, {}, []),
    ("much less", run(bytes=84 * MB), USUAL, {}, ["small"]),
    ("much more", run(bytes=116 * MB), USUAL, {}, ["large"]),
    ("too few to compare with", run(bytes=1 * MB), USUAL[:2], {}, []),
    ("nothing in it, first run", run(bytes=20), [], {}, ["small"]),
    ("nothing in it, small database", run(bytes=20), [run(bytes=9000)] * 5, {}, ["small"]),
    ("a small database doubles", run(bytes=400_000), [run(bytes=200_000)] * 5, {}, []),
    ("it failed", run(bytes=20, is_succeeded=False), USUAL, {}, []),
    ("size unknown", run(bytes=None), USUAL, {}, []),
    ("one outlier does not speak", run(), [run(bytes=MB), *USUAL], {}, []),
    ("long, but within", run(seconds=180.0), USUAL, {}, []),
    ("too long", run(seconds=190.0), USUAL, {}, ["too_long"]),
    ("too long for what was expected", run(seconds=190.0), USUAL[:4], {"expected_seconds": 100}, ["too_long"]),
    ("history knows better than a person", run(seconds=150.0), USUAL, {"expected_seconds": 10}, []),
    ("unknown", run(seconds=9999.0), USUAL[:4], {}, []),
    ("in time", run(due_at=NOW - timedelta(seconds=900)), USUAL, {}, []),
    ("late", run(due_at=NOW - timedelta(seconds=901)), USUAL, {}, ["late"]),
    ("still waiting", run(due_at=NOW - timedelta(hours=1), started_at=None, seconds=None), USUAL, {}, ["late"]),
    ("all of it", run(due_at=NOW - timedelta(hours=1), seconds=999.0, bytes=1), USUAL, {}, ["late", "too_long", "small"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "history", "options", "flags"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_flags_of_marks_unusual_runs(
    one: RunFigures, history: list[RunFigures], options: dict[str, Any], flags: list[str]
) -> None:
    assert flags_of(one, history, now=NOW, **options) == flags


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_at_least_the_share_does_not_exceed_the_percentile(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


@given(st.lists(st.integers(10_000, 10**12), min_size=3, max_size=20))
def test_flags_of_never_flags_the_median_size(sizes: list[int]) -> None:
    middle = sorted(sizes[:5])[len(sizes[:5]) // 2]
    same_everywhere = [run(bytes=middle) for _ in sizes]
    assert flags_of(run(bytes=middle), same_everywhere, now=NOW) == []


@pytest.mark.parametrize(
    ("minutes", "following_hours", "belongs"),
    [(0, 24, True), (-4, 24, True), (-6, 24, False), (359, 24, True), (361, 24, False), (29, 1, True), (31, 1, False)],
)
def test_fits_accepts_a_run_near_its_due_time(minutes: int, following_hours: int, belongs: bool) -> None:
    following = NOW + timedelta(hours=following_hours)
    assert fits(NOW + timedelta(minutes=minutes), NOW, following, 900) is belongs


def test_fits_accepts_any_run_within_the_grace_period() -> None:
    assert fits(NOW + timedelta(minutes=14), NOW, NOW + timedelta(minutes=15), 900)
