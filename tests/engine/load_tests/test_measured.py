"""What finished rounds decide. Rounds that are not valid decide nothing."""

from dataclasses import replace

from dbops.engine.load_tests.comparison import Verdict
from dbops.engine.load_tests.knee import KneeKind
from dbops.engine.load_tests.measured import is_enough, pairs_of, report_of
from dbops.engine.load_tests.request import Raised, problems
from dbops.engine.load_tests.round_result import RoundResult
from tests.engine.load_tests.results import latencies, result
from tests.engine.load_tests.test_plan import plan, request

AB = request(
    raised=Raised.NOTHING,
    options_a=(("innodb_doublewrite", "ON"),),
    options_b=(("innodb_doublewrite", "OFF"),),
    most_pairs=5,
    aa_pairs=3,
    wanted_width=100.0,
)
AB_PLAN = plan(AB)
STEPS = request(raised=Raised.THREADS, steps=(1, 2, 4), repeats=3)
STEPS_PLAN = plan(STEPS)
AT_FOUR = {one.number: one.threads == 4 for one in STEPS_PLAN.rounds}


def events(arm: str, pair: int) -> int:
    return (2000 if arm == "b" else 1000) + 7 * pair


def ab_results(*, failed: tuple[str, ...] = ()) -> list[RoundResult]:
    """Return results in which B is twice as fast; of arms in ``failed`` nearly all statements failed."""
    return [
        result(one.number, values=[1.0] * 100, events=events(one.arm, one.pair), errors=4900 * (one.arm in failed))
        for one in AB_PLAN.rounds
    ]


def test_valid_pairs_decide() -> None:
    report = report_of(AB, AB_PLAN, ab_results())
    assert report["Comparison"]["verdict"] == Verdict.FASTER
    assert is_enough(AB, AB_PLAN, ab_results())


def test_pairs_with_failed_statements_decide_nothing() -> None:
    results = ab_results(failed=("b",))
    report = report_of(AB, AB_PLAN, results)
    assert (report["Comparison"]["verdict"], report["Comparison"]["ab"]["pairs"]) == (Verdict.NOT_ENOUGH, 0)
    assert pairs_of(AB_PLAN, results)[0] == []
    assert not is_enough(AB, AB_PLAN, results)


def test_failed_aa_test_allows_no_verdict() -> None:
    results = ab_results(failed=("a2",))
    assert report_of(AB, AB_PLAN, results)["Comparison"]["verdict"] == Verdict.NOT_ENOUGH
    assert not is_enough(AB, AB_PLAN, results)


def test_request_without_an_aa_test_is_not_possible() -> None:
    assert problems(AB) == []
    assert len(problems(replace(AB, aa_pairs=2))) == 1


def test_invalid_repeats_show_no_knee() -> None:
    """The last step is ten times as slow."""
    results = [
        result(one.number, values=[(10 if one.threads == 4 else 1) * value for value in latencies(500, one.number)])
        for one in STEPS_PLAN.rounds
    ]
    assert report_of(STEPS, STEPS_PLAN, results)["Knees"]["P99"]["kind"] == KneeKind.WALL
    failed = [replace(one, errors=20_000) if AT_FOUR[one.number] else one for one in results]
    assert report_of(STEPS, STEPS_PLAN, failed)["Knees"]["P99"]["kind"] == KneeKind.UNKNOWN
