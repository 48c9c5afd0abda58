"""Load what load tests of a cluster have shown, as far as advice rests on it."""

from typing import Any

from dbops.engine.capacity.advice_inputs import AdviceKind, MeasuredChange
from dbops.engine.load_tests.advised import measured_change
from dbops.engine.load_tests.comparison import Verdict
from dbops.engine.load_tests.knee import KneeKind
from dbops.engine.states import RunStatus
from dbops.models import Cluster, LoadTest

#: How many of the newest load tests of a cluster are read.
NEWEST = 50
#: Verdicts that say something of the change, and not of the test.
CONCLUSIVE = frozenset({Verdict.FASTER, Verdict.SLOWER, Verdict.NO_DIFFERENCE})
#: Percentiles whose knee counts, the most telling first.
PERCENTILES = ("P99", "P95")


def results_of(cluster: Cluster) -> tuple[tuple[MeasuredChange, ...], tuple[int, int] | None]:
    """Return what A/B tests measured, the newest of each kind of advice, and the newest knee: schemas and load test. One query."""
    rows = LoadTest.objects.filter(cluster=cluster, status=RunStatus.SUCCEEDED).order_by("-pk")
    changes: dict[AdviceKind, MeasuredChange] = {}
    knee: tuple[int, int] | None = None
    for pk, request, server, report in rows.values_list("pk", "request", "plan__server", "report")[:NEWEST]:
        change = _change(pk, request, server or [], report)
        if change:
            changes.setdefault(change.kind, change)
        knee = knee or _knee(pk, report)
    return tuple(changes.values()), knee


def _change(pk: int, request: dict[str, Any], server: list[str], report: dict[str, Any]) -> MeasuredChange | None:
    found = report.get("Comparison")
    if not found or found["verdict"] not in CONCLUSIVE:
        return None
    return measured_change(pk, request, server, found["ab"])


def _knee(pk: int, report: dict[str, Any]) -> tuple[int, int] | None:
    if report.get("Raised") != "TargetSchemaCount":
        return None
    shown = (KneeKind.WALL, KneeKind.SLOPE)
    knees = [found for name in PERCENTILES if (found := report["Knees"].get(name)) and found["kind"] in shown]
    # the last number of schemas within the budget
    return (int(knees[0]["after"]), pk) if knees and knees[0]["after"] else None
