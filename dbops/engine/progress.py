"""Rates and times left, from what was counted. Where nothing is known, nothing is said."""

from typing import Any

#: Samples older than this do not count for the rate "now".
WINDOW_SECONDS = 6.0


def add_sample(samples: list[list[float]], *, at: float, count: int) -> list[list[float]]:
    """Return the samples with a new one, those older than the window dropped (but for the newest of them)."""
    kept = [*samples, [at, float(count)]]
    while len(kept) > 2 and kept[1][0] < at - WINDOW_SECONDS:
        kept.pop(0)
    return kept


def rate_of(samples: list[list[float]]) -> float | None:
    """Return the change a second over the samples, ``None`` where they span less than half a second."""
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < 0.5:
        return None
    return max(0.0, (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0]))


def copy_progress(
    samples: list[list[float]], *, received_bytes: int, total_bytes: int | None, elapsed_seconds: float
) -> dict[str, Any]:
    """Return a copy's progress. The total is measured on the source before the copy: percent stops at 99.9 until the end."""
    rate = rate_of(samples)
    known: dict[str, Any] = {"bytes": received_bytes, "total_bytes": total_bytes, "rate_bytes_per_second": rate}
    if elapsed_seconds > 0.5:
        known["average_bytes_per_second"] = received_bytes / elapsed_seconds
    if total_bytes:
        known["percent"] = min(99.9, 100 * received_bytes / total_bytes)
        if rate:
            known["eta_seconds"] = max(0.0, total_bytes - received_bytes) / rate
    return known
