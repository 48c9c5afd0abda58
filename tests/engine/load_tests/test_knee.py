"""The knee on generated curves: the share of seeds in which it is found where it is, or rightly not shown."""

import math
from collections.abc import Callable
from random import Random

import pytest

from dbops.engine.load_tests.knee import Knee, KneeKind, StepLatencies, find_knee

#: Relative latency by the value and the place of the knee.
SHAPES: dict[str, Callable[[float, float], float]] = {
    "flat": lambda value, knee: 1,
    "drift": lambda value, knee: value**0.25,
    "linear": lambda value, knee: value,
    "wall": lambda value, knee: 8 if value >= knee else 1,
    "bend": lambda value, knee: max(1, 2 * value / knee) ** 1.5,
}
SEEDS = range(20)


def curve(shape: str, seed: int, *, noise: float, steps: int = 6, repeats: int = 3) -> list[StepLatencies]:
    random = Random(seed)
    values = [2.0**number for number in range(steps)]

    def measure(value: float) -> float:
        return SHAPES[shape](value, values[steps // 2]) * math.exp(random.gauss(0, noise))

    return [StepLatencies(value, tuple(measure(value) for _ in range(repeats))) for value in values]


def knees(shape: str, **fields: float) -> list[Knee]:
    return [find_knee(curve(shape, seed, **fields), seed=seed) for seed in SEEDS]


@pytest.mark.parametrize(
    ("shape", "noise", "kind", "at", "least_hits"),
    [
        ("flat", 0.15, KneeKind.NONE, None, 20),
        ("flat", 0.30, KneeKind.NONE, None, 19),
        ("wall", 0.15, KneeKind.WALL, 8, 20),
        ("wall", 0.30, KneeKind.WALL, 8, 18),
        ("bend", 0.05, KneeKind.SLOPE, 8, 18),
        ("bend", 0.15, KneeKind.SLOPE, 8, 14),
        ("linear", 0.15, KneeKind.EVEN_RISE, 4, 18),
    ],
)
def test_knees_are_found_in_most_seeds(
    shape: str, noise: float, kind: KneeKind, at: float | None, least_hits: int
) -> None:
    found = knees(shape, noise=noise)
    hits = sum((knee.kind, knee.at) == (kind, at) for knee in found)
    assert hits >= least_hits, found


def test_a_slow_drift_is_no_knee() -> None:
    found = knees("drift", noise=0.15, steps=8)
    assert sum(knee.kind in (KneeKind.NONE, KneeKind.EVEN_RISE) for knee in found) >= 18


def test_a_wall_has_a_ratio_with_its_interval() -> None:
    knee = find_knee(curve("wall", 1, noise=0.1), seed=1)
    assert (knee.after, knee.at) == (4, 8)
    assert knee.low is not None
    assert knee.high is not None
    assert knee.ratio == pytest.approx(8, rel=0.3)
    assert 2 < knee.low < 8 < knee.high * 1.3


def test_a_single_bad_step_is_no_knee() -> None:
    steps = [StepLatencies(value, (1.0, 1.05, 0.95)) for value in (1, 2, 4, 8)]
    steps[2] = StepLatencies(4, (9.0, 8.0, 10.0))
    assert find_knee(steps, seed=1).kind is KneeKind.NONE


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [StepLatencies(value, (1.0, 1.0, 1.0)) for value in (1, 2)],
        [StepLatencies(value, (1.0, 1.0)) for value in (1, 2, 3)],
        [StepLatencies(value, (1.0, 1.0, 0.0)) for value in (1, 2, 3)],
    ],
)
def test_too_little_is_not_known(steps: list[StepLatencies]) -> None:
    knee = find_knee(steps, seed=1)
    assert (knee.kind, knee.at, bool(knee.reason)) == (KneeKind.UNKNOWN, None, True)


def test_the_same_seed_gives_the_same_interval_in_any_order() -> None:
    steps = curve("bend", 3, noise=0.3)
    assert find_knee(steps, seed=5) == find_knee(steps[::-1], seed=5)
