"""Runs over time: the scale they are drawn on, and what is out of the ordinary."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dbops.engine.backups.trends import SCALE_LINES, Figure, PastRun, odd_ones, scale

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
GIB = 1024**3


@pytest.mark.parametrize(
    ("most", "figure", "lines"),
    [
        (0, Figure.SECONDS, (1,)),
        (50, Figure.SECONDS, (30, 60)),
        (61 * 60, Figure.SECONDS, (30 * 60, 60 * 60, 90 * 60)),
        (9000, Figure.SECONDS, (3600, 7200, 10800)),
        (300 * GIB, Figure.BYTES, (128 * GIB, 256 * GIB, 384 * GIB)),
        (1.4 * 1024 * GIB, Figure.BYTES, (512 * GIB, 1024 * GIB, 1536 * GIB)),
    ],
)
def test_scale_has_few_lines_at_round_numbers(most: float, figure: Figure, lines: tuple[float, ...]) -> None:
    assert scale([most], figure).lines == lines


@given(some.lists(some.floats(0, 2**62), max_size=5), some.sampled_from(Figure))
def test_scale_contains_every_value(values: list[float], figure: Figure) -> None:
    found = scale(values, figure)
    assert all(value <= found.top for value in values)
    assert all(0 <= found.share(value) <= 1 for value in values)
    if figure is Figure.BYTES or max(values, default=0) < 100 * 86400:
        assert 1 <= len(found.lines) <= SCALE_LINES


def test_shape_follows_the_flag() -> None:
    both = PastRun(1, NOW, "succeeded", ("too_long", "small"), 60, 60)
    assert both.mark(Figure.SECONDS) == "too_long"
    assert both.mark(Figure.BYTES) == "small"
    assert PastRun(2, NOW, "failed", ("late",)).mark(Figure.BYTES) == "failed"
    assert PastRun(3, NOW, "succeeded").mark(Figure.SECONDS) == ""


def test_odd_ones_are_named_newest_first() -> None:
    runs = [
        PastRun(number, NOW + timedelta(days=number), status, flags)
        for number, (status, flags) in enumerate(
            [("missed", ()), ("succeeded", ()), ("failed", ("late",)), ("ended", ()), ("succeeded", ("large",))]
        )
    ]
    assert [run.run for run in odd_ones(runs)] == [4, 2, 0]
    assert odd_ones(runs)[1].codes == ("failed", "late")
