"""Percentiles of latency from histograms.

The generator counts in 1,024 logarithmic buckets from 0.001 ms to 100 s: each is 1.8 % wide (``RATIO``). A percentile is interpolated
inside its bucket, so it differs from that of the single values by less than 1.8 %, and from the truth by what the sample is too small for.
"""

import math
from collections.abc import Iterable, Sequence

Buckets = tuple[tuple[float, int], ...]

#: Upper bound of a bucket by its lower bound; as in ``load.lua``.
RATIO = math.exp(math.log(1e8) / 1024)
#: The names in reports, and their shares.
PERCENTILES = {"P50": 0.5, "P75": 0.75, "P95": 0.95, "P99": 0.99, "P999": 0.999}
#: Fewer samples above a percentile make it a matter of chance.
LEAST_ABOVE = 10


def merge(histograms: Iterable[Buckets]) -> Buckets:
    """Return one histogram with the counts of all."""
    counts: dict[float, int] = {}
    for histogram in histograms:
        for upper, count in histogram:
            counts[upper] = counts.get(upper, 0) + count
    return tuple(sorted((upper, count) for upper, count in counts.items() if count > 0))


def percentile(
    buckets: Buckets, share: float, *, least: float | None = None, most: float | None = None
) -> float | None:
    """Return the latency in ms that a share of the statements did not exceed, ``None`` for no statements.

    Args:
        buckets: upper bounds in ms, ascending, with counts.
        share: 0 to 1.
        least, most: the smallest and the largest latency that were measured, if known: no percentile is outside of them.
    """
    total = sum(count for _, count in buckets)
    if total == 0:
        return None
    rank, below = share * total, 0
    value = buckets[-1][0]
    for upper, count in buckets:
        if below + count >= rank:
            lower = upper / RATIO
            value = lower + (upper - lower) * (rank - below) / count
            break
        below += count
    value = max(value, least) if least is not None else value
    return min(value, most) if most is not None else value


def percentiles(buckets: Buckets, *, least: float | None = None, most: float | None = None) -> dict[str, float | None]:
    """Return ``PERCENTILES`` in ms."""
    return {name: percentile(buckets, share, least=least, most=most) for name, share in PERCENTILES.items()}


def uncertain(buckets: Buckets) -> tuple[str, ...]:
    """Return the percentiles above which fewer than ``LEAST_ABOVE`` statements were measured."""
    total = sum(count for _, count in buckets)
    return tuple(name for name, share in PERCENTILES.items() if total * (1 - share) < LEAST_ABOVE)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the mean on a logarithmic scale; all values are positive."""
    return math.exp(sum(map(math.log, values)) / len(values))
