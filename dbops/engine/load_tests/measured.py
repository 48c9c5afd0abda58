"""What the finished rounds of a load test say: the report, and whether an A/B test has enough pairs."""

from collections.abc import Sequence
from typing import Any

from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.report import ReportLimits, make_report
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.round_result import RoundResult


def report_of(plan: LoadTestPlan, results: Sequence[RoundResult]) -> dict[str, Any]:
    """Return the report of the rounds that ended, at least one, with the conditions of the test."""
    measured = [(plan.rounds[result.number - 1], result) for result in sorted(results, key=lambda one: one.number)]
    report = make_report(measured, ReportLimits(plan.generator_cores))
    return {**report, "PlannedRounds": len(plan.rounds), "FinishedRounds": len(measured)}


def is_enough(request: LoadTestRequest, plan: LoadTestPlan, results: Sequence[RoundResult]) -> bool:
    """Return whether an A/B test has an interval that is as narrow as wanted."""
    return False
