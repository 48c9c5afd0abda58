"""A/B tests and tests side by side: verdicts, and how often they are wrong."""

import math
from random import Random
from typing import Any

import pytest

from dbops.engine.load_tests.comparison import Verdict, compare_pairs, compare_reports, is_enough, ratio_of, speeds
from dbops.engine.load_tests.report import ReportLimits, make_report
from dbops.engine.load_tests.rounds import Round
from tests.engine.load_tests.results import result

Pairs = list[tuple[float, float]]


def pairs(count: int, ratio: float, *, noise: float = 0.1, seed: int = 1, drift: float = 0.0) -> Pairs:
    """Return speeds of pairs; the machine becomes slower by ``drift`` from pair to pair."""
    random = Random(seed)
    found = []
    for number in range(count):
        machine = 1000 * math.exp(-drift * number)
        found.append((machine * math.exp(random.gauss(0, noise)), machine * ratio * math.exp(random.gauss(0, noise))))
    return found


@pytest.mark.parametrize(
    ("ab", "aa", "verdict"),
    [
        (pairs(8, 1.5), pairs(4, 1.0, seed=2), Verdict.FASTER),
        (pairs(8, 0.6), pairs(4, 1.0, seed=2), Verdict.SLOWER),
        (pairs(8, 1.0, seed=4), pairs(4, 1.0, seed=2), Verdict.NO_DIFFERENCE),
        (pairs(3, 3.0), pairs(4, 1.0, seed=2), Verdict.NOT_ENOUGH),
        ([], [], Verdict.NOT_ENOUGH),
        (pairs(8, 1.5), pairs(4, 1.5, noise=0.01), Verdict.NOISY),
        (pairs(8, 1.5, noise=0.05, drift=0.3), pairs(3, 1.0, seed=2), Verdict.FASTER),
        (pairs(8, 1.5), [], Verdict.NOT_ENOUGH),
        (pairs(8, 1.5), pairs(2, 1.0, seed=2), Verdict.NOT_ENOUGH),
        ([(1.0, 0.0)] * 8, pairs(4, 1.0, seed=2), Verdict.NOT_ENOUGH),
    ],
)
def test_verdicts(ab: Pairs, aa: Pairs, verdict: Verdict) -> None:
    assert compare_pairs(ab, aa).verdict is verdict


def test_the_interval_is_that_of_the_field_report() -> None:
    """Four pairs of doublewrite on two cores: 1.20 (1.03 to 1.41)."""
    found = ratio_of([(1, 1.17), (1, 1.35), (1, 1.23), (1, 1.07)])
    assert found.ratio == pytest.approx(1.20, abs=0.005)
    assert (found.low, found.high) == (pytest.approx(1.03, abs=0.02), pytest.approx(1.41, abs=0.02))


#: An A/A test that shows nothing.
QUIET = pairs(4, 1.0, seed=2)


def test_equal_servers_seldom_differ() -> None:
    wrong = sum(
        compare_pairs(pairs(6, 1.0, seed=seed), QUIET).verdict is not Verdict.NO_DIFFERENCE for seed in range(400)
    )
    assert 5 < wrong < 36  # 5 % of 400 are 20


def test_a_test_that_ends_early_seldom_differs_on_equal_servers() -> None:
    def ends(seed: int) -> bool:
        found = pairs(20, 1.0, noise=0.07, seed=seed)
        count = next((n for n in range(1, 21) if is_enough(found[:n])), 20)
        return compare_pairs(found[:count], QUIET).verdict is not Verdict.NO_DIFFERENCE

    assert sum(map(ends, range(400))) < 48


def test_enough_is_a_narrow_interval_of_at_least_four_pairs() -> None:
    quiet = pairs(4, 1.5, noise=0.001)
    assert is_enough(quiet)
    assert not is_enough(quiet[:3])
    assert not is_enough(pairs(4, 1.5, noise=0.2))
    assert is_enough(pairs(4, 1.5, noise=0.2), wanted_width=1000)


def arm(number: int, pair: int, name: str, events: int) -> tuple[Round, Any]:
    round_ = Round(number=number, step=1, threads=1, seconds=10, pair=pair, arm=name)
    return round_, result(number, values=[1.0] * 10, events=events)


def test_speeds_are_those_of_whole_pairs() -> None:
    measured = [arm(1, 1, "a", 100), arm(2, 1, "b", 200), arm(3, 2, "b", 50), arm(4, 1, "a1", 30), arm(5, 1, "a2", 40)]
    assert speeds(measured) == ([(10.0, 20.0)], [(3.0, 4.0)])


def report(latency: float, *, repeats: int = 3, schemas: tuple[int, ...] = (10, 20)) -> dict[str, Any]:
    measured = []
    for step, count in enumerate(schemas, 1):
        for repeat in range(repeats):
            round_ = Round(number=len(measured) + 1, step=step, threads=2, seconds=10, schemas=count)
            values = [latency * (1 + 0.05 * repeat)] * 100
            measured.append((round_, result(round_.number, values=values, schemas_visited=count)))
    return make_report(measured, ReportLimits())


def test_steps_of_two_reports_are_side_by_side() -> None:
    first, second = compare_reports(report(1.0), report(3.0, schemas=(20, 40)))[1:]
    assert (first["TargetSchemaCount"], second["TargetSchemaCount"]) == (20, 40)
    found = first["Ratios"]["P99"]
    assert found["Ratio"] == pytest.approx(3, rel=0.03)
    assert found["Low"] < 3 < found["High"]
    assert first["Ratios"]["TotalQPS"]["Ratio"] == pytest.approx(1)
    assert (second["First"], second["Ratios"]["P99"]["Ratio"]) == (None, None)


def test_invalid_repeats_are_not_compared() -> None:
    first, second = report(1.0, schemas=(10,)), report(3.0, schemas=(10,))
    first["Steps"][0]["Repeats"]["IsValid"] = [True, True, False]
    first["Steps"][0]["Repeats"]["P99"][2] = 900.0
    second["Steps"][0]["Repeats"]["IsValid"] = [True] * 3
    [line] = compare_reports(first, second)
    assert line["Ratios"]["P99"]["Repeats"] == 2
    assert line["Ratios"]["P99"]["Ratio"] == pytest.approx(3, rel=0.1)


def test_one_repeat_has_a_ratio_without_an_interval() -> None:
    [line, *_] = compare_reports(report(1.0, repeats=1), report(2.0))
    assert line["Ratios"]["P50"]["Ratio"] == pytest.approx(2.1, rel=0.05)
    assert (line["Ratios"]["P50"]["Low"], line["Ratios"]["P50"]["High"]) == (None, None)
