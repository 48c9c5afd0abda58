"""Results of rounds, built for tests."""

import math
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from dbops.engine.load_tests.percentiles import RATIO, Buckets
from dbops.engine.load_tests.round_result import RoundResult

BEGIN = datetime(2026, 11, 26, 12, tzinfo=UTC)


def histogram(values: list[float]) -> Buckets:
    """Return the histogram that the generator makes of latencies in ms."""
    counts: dict[float, int] = {}
    for value in values:
        number = max(0, math.floor(math.log(value / 0.001) / math.log(RATIO)))
        upper = 0.001 * RATIO ** (number + 1)
        counts[upper] = counts.get(upper, 0) + 1
    return tuple(sorted(counts.items()))


def latencies(count: int, seed: int = 1) -> list[float]:
    """Return latencies in ms with a long tail."""
    random = Random(seed)
    return [random.lognormvariate(0, 1) for _ in range(count)]


def result(number: int = 1, *, elapsed: float = 10, values: list[float] | None = None, **fields: Any) -> RoundResult:
    """Return a result of ``elapsed`` seconds with these latencies."""
    values = [1.0] * 1000 if values is None else values
    begun = BEGIN + timedelta(minutes=number)
    known: dict[str, Any] = {
        "queries": len(values),
        "errors": 0,
        "buckets": histogram(values),
        "events": len(values),
        "min_ms": min(values, default=None),
        "max_ms": max(values, default=None),
        "average_ms": sum(values) / len(values) if values else None,
    }
    return RoundResult(number, begun, begun + timedelta(seconds=elapsed), **(known | fields))
