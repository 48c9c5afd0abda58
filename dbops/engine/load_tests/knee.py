"""Find the knee of a curve of latency: the step from which it leaves its baseline and stays away.

Chosen by trials on generated curves. Methods that look for the sharpest bend (Kneedle) find one on every curve, flat ones included. A fit
of two lines misses a jump. A threshold with an interval over the repeats finds jumps and bends, and asks the operator's own question: where
does the latency leave its budget? A second look at the slopes tells a wall, a slope and an even rise apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from random import Random
from statistics import fmean, median

from dbops.engine.phrases import phrase

#: Latency beyond this multiple of the first step's is past the budget.
BUDGET = 2.0
#: Each step needs this many repeats, and a curve this many steps.
LEAST_REPEATS, LEAST_STEPS = 3, 3
#: A jump between neighbours of at least this ratio, and this much beyond the curve's other ones, is a wall.
WALL_RATIO, WALL_BEYOND = 1.5, 2.0
#: A slope (logarithm by logarithm) that increases by at least this is a bend: the knee is a slope.
BEND = 0.25
DRAWS, ONE_SIDED = 1000, 0.05


class KneeKind(StrEnum):
    """What was found."""

    WALL = "wall"
    SLOPE = "slope"
    EVEN_RISE = "even rise"
    NONE = "no knee shown"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StepLatencies:
    """One step: the value that was raised, such as the number of schemas, and a percentile in ms of each valid repeat."""

    value: float
    latencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Knee:
    """The first step beyond the budget, after the last one within it.

    ``ratio`` is the latency there by that of the first step, with an interval of 90 %. All are ``None`` where there is none.
    ``reason`` says why a knee is unknown.
    """

    kind: KneeKind
    after: float | None = None
    at: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def find_knee(steps: Sequence[StepLatencies], *, seed: int, budget: float = BUDGET) -> Knee:
    """Return the knee of a curve.

    A step is beyond the budget if the lower end of its ratio is, and every later step's ratio is beyond it too.

    Args:
        steps: in any order. Latencies are positive.
        seed: of the bootstrap over repeats.
        budget: the multiple of the first step's latency.
    """
    if reason := _why_unknown(steps):
        return Knee(KneeKind.UNKNOWN, reason=reason)
    curve = _Curve(sorted(steps, key=lambda step: step.value), seed)
    beyond = [curve.ratio(place) > budget for place in range(len(curve.steps))]
    for place in range(1, len(curve.steps)):
        low, high = curve.interval(place)
        if low > budget and all(beyond[place:]):
            before, at = curve.steps[place - 1].value, curve.steps[place].value
            return Knee(_kind(curve, place), before, at, curve.ratio(place), low, high)
    return Knee(KneeKind.NONE)


def _why_unknown(steps: Sequence[StepLatencies]) -> str:
    if len({step.value for step in steps}) < LEAST_STEPS:
        return phrase("fewer than {least_steps} steps", least_steps=LEAST_STEPS)
    if any(len(step.latencies) < LEAST_REPEATS for step in steps):
        return phrase("fewer than {least_repeats} valid repeats of a step", least_repeats=LEAST_REPEATS)
    if any(latency <= 0 for step in steps for latency in step.latencies):
        return phrase("a latency is unknown")
    return ""


class _Curve:
    """Means of logarithms by step, as measured and in each draw of the bootstrap."""

    def __init__(self, steps: Sequence[StepLatencies], seed: int) -> None:
        random = Random(seed)  # noqa: S311 - a bootstrap, not a secret
        self.steps = steps
        logs = [[math.log(latency) for latency in step.latencies] for step in steps]
        self.means = [fmean(values) for values in logs]
        # Three repeats vary less than the truth: the variance of a draw is too small by (n - 1) / n.
        self.draws = [
            [
                mean + (fmean(random.choices(values, k=len(values))) - mean) * _widening(len(values))
                for values, mean in zip(logs, self.means, strict=True)
            ]
            for _ in range(DRAWS)
        ]
        self.places = [math.log(max(step.value, 1e-9)) for step in steps]

    def ratio(self, place: int) -> float:
        return math.exp(self.means[place] - self.means[0])

    def interval(self, place: int) -> tuple[float, float]:
        return _interval([math.exp(draw[place] - draw[0]) for draw in self.draws])

    def jump_low(self, place: int) -> float:
        """Return the lower end of the ratio of a step to the one before."""
        return _interval([math.exp(draw[place] - draw[place - 1]) for draw in self.draws])[0]

    def jumps(self) -> list[float]:
        return [math.exp(after - before) for before, after in pairwise(self.means)]

    def bend_low(self, place: int) -> float:
        """Return the lower end of how much steeper the curve is from a step on than before it."""
        return _interval(
            [
                _slope(self.places[place:], draw[place:]) - _slope(self.places[: place + 1], draw[: place + 1])
                for draw in self.draws
            ]
        )[0]


def _widening(repeats: int) -> float:
    return math.sqrt(repeats / (repeats - 1))


def _kind(curve: _Curve, place: int) -> KneeKind:
    """Return what leads to the first step beyond the budget. A wall can also be climbed in the step before."""
    jumps = curve.jumps()
    for end in (place, place - 1):
        if end >= 1 and curve.jump_low(end) > WALL_RATIO:
            others = [jump for number, jump in enumerate(jumps, 1) if number != end]
            if jumps[end - 1] > WALL_BEYOND * median(others):
                return KneeKind.WALL
    corners = [corner for corner in range(1, place) if corner < len(curve.steps) - 1]
    return KneeKind.SLOPE if any(curve.bend_low(corner) > BEND for corner in corners) else KneeKind.EVEN_RISE


def _slope(places: Sequence[float], values: Sequence[float]) -> float:
    middle, mean = fmean(places), fmean(values)
    width = sum((place - middle) ** 2 for place in places)
    return sum((place - middle) * (value - mean) for place, value in zip(places, values, strict=True)) / width


def _interval(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    cut = int(ONE_SIDED * len(ordered))
    return ordered[cut], ordered[-1 - cut]
