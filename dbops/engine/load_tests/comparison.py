"""Compare measurements: the pairs of an A/B test, and the steps of two load tests.

Speed is compared by ratios, on a logarithmic scale: 2 and 0.5 are equally far from 1. Rounds of one pair ran right after each other, so
what slows the machine for minutes is in both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev
from typing import Any

from dbops.engine.load_tests.planning import LEAST_AA_PAIRS, LEAST_PAIRS
from dbops.engine.load_tests.report import valid_repeats
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.rounds import Round

#: Quantiles of Student's t for 95 % intervals, by degrees of freedom from 1; the last one serves all above.
#: Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
#: A test ends early when the upper end of the ratio is at most this multiple of the lower one.
WANTED_WIDTH = 1.10

Pairs = Sequence[tuple[float, float]]


class Verdict(StrEnum):
    """What an A/B test shows of B."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    NOT_ENOUGH = "not enough pairs"
    NOISY = "machine too noisy"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio (B by A) with its 95 % interval, ``None`` with fewer than two pairs. ``pairs``: on how many it rests."""

    pairs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def excludes_one(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def width(self) -> float | None:
        """The upper end by the lower one."""
        return self.high / self.low if self.low and self.high else None


@dataclass(frozen=True, slots=True)
class AbComparison:
    """The verdict on B, the ratio of B to A, and that of the A/A test, which ought to be 1."""

    verdict: Verdict
    ab: Ratio
    aa: Ratio


def ratio_of(pairs: Pairs) -> Ratio:
    """Return the geometric mean of B by A over pairs (A, B), with the 95 % interval of the paired t-test on logarithms.

    A pair with a value that is not positive is left out.
    """
    logs = [math.log(b / a) for a, b in pairs if a > 0 and b > 0]
    if not logs:
        return Ratio(0)
    mean = fmean(logs)
    if len(logs) < 2:
        return Ratio(len(logs), math.exp(mean))
    half = _t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(len(logs), math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def compare_pairs(ab: Pairs, aa: Pairs = ()) -> AbComparison:
    """Judge an A/B test by speeds, such as transactions a second. Both tests need enough pairs.

    If the A/A test shows a difference between equal servers, a difference between A and B proves nothing. Such an A/A test is a matter of
    chance in one of 20 tests on a quiet machine.

    Args:
        ab: speeds of A and B in each pair.
        aa: the same of the A/A test.
    """
    between, beside = ratio_of(ab), ratio_of(aa)
    return AbComparison(_verdict(between, beside), between, beside)


def _verdict(ab: Ratio, aa: Ratio) -> Verdict:
    if ab.pairs < LEAST_PAIRS or aa.pairs < LEAST_AA_PAIRS or ab.ratio is None:
        return Verdict.NOT_ENOUGH
    if aa.excludes_one:
        return Verdict.NOISY
    if not ab.excludes_one:
        return Verdict.NO_DIFFERENCE
    return Verdict.FASTER if ab.ratio > 1 else Verdict.SLOWER


def is_enough(pairs: Pairs, wanted_width: float = WANTED_WIDTH) -> bool:
    """Return whether the interval is narrow enough to end the test. Its position does not matter: a test that ends as soon as it shows a
    difference would show one too often.
    """
    found = ratio_of(pairs)
    return found.pairs >= LEAST_PAIRS and found.width is not None and found.width <= wanted_width


def speeds(
    measured: Sequence[tuple[Round, RoundResult]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the speeds (events a second) of the whole pairs of the A/B test and of the A/A test, in the order of their numbers.

    Args:
        measured: the valid rounds. A pair of which one is missing is left out.
    """
    found: dict[tuple[int, str], float] = {}
    for one, result in measured:
        seconds = (result.finished_at - result.started_at).total_seconds()
        if one.arm and seconds > 0:
            found[one.pair, one.arm] = result.events / seconds
    numbers = sorted({pair for pair, _ in found})
    both = (("a", "b"), ("a1", "a2"))
    ab, aa = ([(found[n, x], found[n, y]) for n in numbers if (n, x) in found and (n, y) in found] for x, y in both)
    return ab, aa


#: What is compared between two tests, by step.
COMPARED = ("TotalQPS", "P50", "P95", "P99", "P999")


def compare_reports(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Put two reports side by side: for each step of the same conditions the ratio of the second to the first.

    Only valid repeats count. They are not pairs: the interval is that of two independent samples (Welch's t-test on logarithms), ``None``
    with one repeat. Steps are the same if schemas, threads, wanted rate and arm are. A step of only one report has no ratios.
    """
    left, right = _by_conditions(first), _by_conditions(second)
    keys = [*left, *(key for key in right if key not in left)]
    return [
        {
            **dict(zip(("TargetSchemaCount", "ParallelCount", "WantedRate", "Arm"), key, strict=True)),
            "First": left.get(key),
            "Second": right.get(key),
            "Ratios": {name: _plain(_independent(left.get(key), right.get(key), name)) for name in COMPARED},
        }
        for key in keys
    ]


def _by_conditions(report: Mapping[str, Any]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    return {
        (step["TargetSchemaCount"], step["ParallelCount"], step["WantedRate"], step["Arm"]): step
        for step in report["Steps"]
    }


def _independent(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, name: str) -> Ratio:
    if first is None or second is None:
        return Ratio(0)
    samples = [[math.log(value) for value in valid_repeats(step, name) if value > 0] for step in (first, second)]
    count = min(map(len, samples))
    if count == 0:
        return Ratio(0)
    difference = fmean(samples[1]) - fmean(samples[0])
    if count < 2:
        return Ratio(count, math.exp(difference))
    parts = [stdev(values) ** 2 / len(values) for values in samples]
    freedom = (
        sum(parts) ** 2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, samples, strict=True))
        if any(parts)
        else 1
    )
    half = _t(max(1, int(freedom))) * math.sqrt(sum(parts))
    return Ratio(count, math.exp(difference), math.exp(difference - half), math.exp(difference + half))


def _plain(found: Ratio) -> dict[str, float | int | None]:
    return {"Ratio": found.ratio, "Low": found.low, "High": found.high, "Repeats": found.pairs}


def _t(freedom: int) -> float:
    return _T_95[min(freedom, len(_T_95)) - 1]
