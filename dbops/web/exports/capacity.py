"""Export the capacity page: readings as CSV, limits as JSON."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import HttpResponse

from dbops.engine.capacity.advice_inputs import Advice
from dbops.engine.capacity.limits import CapacityLimit
from dbops.engine.facts.instance import to_record
from dbops.queries.capacity import SERIES, ClusterLimits
from dbops.web.exports.tables import csv_answer, json_answer


def readings_file(cluster: str, readings: Iterable[tuple[Any, ...]], now: datetime) -> HttpResponse:
    """Return the readings of all instances, one on each line; an unknown value is empty."""
    lines = ((instance, at.isoformat(timespec="seconds"), *values) for instance, at, *values in readings)
    return csv_answer(f"capacity-{cluster}-{now:%Y-%m-%d}", ("instance", "at", *SERIES), lines)


def limits_file(cluster: str, found: ClusterLimits, now: datetime) -> HttpResponse:
    """Return the ranked limits with their trends, and the thresholds."""
    content = {
        "cluster": cluster,
        "computed_at": found.computed_at.isoformat(timespec="seconds") if found.computed_at else None,
        "thresholds": {str(kind): value for kind, value in found.thresholds.items()},
        "limits": [_limit(limit) for limit in found.limits],
    }
    return json_answer(f"capacity-{cluster}-{now:%Y-%m-%d}", content)


def advice_file(cluster: str, advice: Iterable[Advice], now: datetime) -> HttpResponse:
    """Return the advice with evidence, changes and the way back."""
    content = {"cluster": cluster, "advice": [to_record(one) for one in advice]}
    return json_answer(f"advice-{cluster}-{now:%Y-%m-%d}", content)


def _limit(limit: CapacityLimit) -> dict[str, Any]:
    return {**to_record(limit), "unit": str(limit.unit)}
