"""What the finished rounds of a load test say: the report, its knee or A/B comparison, and whether an A/B test has enough pairs."""

from collections.abc import Sequence
from typing import Any

from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests import comparison
from dbops.engine.load_tests.knee import StepLatencies, find_knee
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.report import ReportLimits, make_report, valid_only, valid_repeats
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.rounds import Round

#: Percentiles whose knee is looked for. The median never shows the wall (measured).
KNEES = ("P95", "P99")
Pairs = list[tuple[float, float]]
_COLUMNS = {Raised.SCHEMAS: "TargetSchemaCount", Raised.RATE: "WantedRate", Raised.THREADS: "ParallelCount"}


def report_of(request: LoadTestRequest, plan: LoadTestPlan, results: Sequence[RoundResult]) -> dict[str, Any]:
    """Return the report of the rounds that ended, at least one.

    ``Comparison`` is that of an A/B test; ``Knees`` has the knee of each percentile of ``KNEES`` elsewhere. Both rest on valid rounds.
    """
    measured = _measured(plan, results)
    report = make_report(measured, _limits(plan))
    found: dict[str, Any] = {
        **report,
        "PlannedRounds": len(plan.rounds),
        "FinishedRounds": len(measured),
        "GeneratorHost": plan.generator_host,
    }
    if plan.digests.sha256:
        found["Digests"] = {
            "Share": plan.digests.share,
            "Used": to_record(plan.digests.used),
            "LeftOut": to_record(plan.digests.left_out),
        }
    if request.is_ab:
        return found | {"Comparison": to_record(comparison.compare_pairs(*pairs_of(plan, results)))}
    steps = report["Steps"]
    column = _COLUMNS[request.raised]
    return found | {"Raised": column, "Knees": {name: _knee(steps, column, name, request.seed) for name in KNEES}}


def pairs_of(plan: LoadTestPlan, results: Sequence[RoundResult]) -> tuple[Pairs, Pairs]:
    """Return the speeds of the pairs of the A/B test and of the A/A test whose rounds are both valid."""
    return comparison.speeds(valid_only(_measured(plan, results), _limits(plan)))


def is_enough(request: LoadTestRequest, plan: LoadTestPlan, results: Sequence[RoundResult]) -> bool:
    """Return whether an A/B test has an interval as narrow as wanted, with its A/A test done."""
    ab, aa = pairs_of(plan, results)
    return len(aa) >= request.aa_pairs and comparison.is_enough(ab, request.wanted_width)


def _limits(plan: LoadTestPlan) -> ReportLimits:
    return ReportLimits(plan.generator_cores)


def _measured(plan: LoadTestPlan, results: Sequence[RoundResult]) -> list[tuple[Round, RoundResult]]:
    return [(plan.rounds[result.number - 1], result) for result in sorted(results, key=lambda one: one.number)]


def _knee(steps: Sequence[dict[str, Any]], column: str, percentile: str, seed: int) -> Any:
    curve = [StepLatencies(float(step[column] or 0), tuple(valid_repeats(step, percentile))) for step in steps]
    return to_record(find_knee(curve, seed=seed))
