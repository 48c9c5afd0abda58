"""Calculate rates and remaining times from samples; ``None`` if unknown."""

from typing import Any

from dbops.engine.phrases import Phrase, phrase, phrases

#: Older samples do not count for the current rate.
WINDOW_SECONDS = 6.0


def add_sample(samples: list[list[float]], *, at: float, count: int) -> list[list[float]]:
    """Return the samples with a new one, without those older than the window (except for the newest of them)."""
    kept = [*samples, [at, float(count)]]
    while len(kept) > 2 and kept[1][0] < at - WINDOW_SECONDS:
        kept.pop(0)
    return kept


def rate_of(samples: list[list[float]]) -> float | None:
    """Return the change per second over the samples, ``None`` if they span less than half a second."""
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < 0.5:
        return None
    return max(0.0, (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0]))


def catch_up_progress(samples: list[list[float]], arrived: list[list[float]], *, left: int, of: str) -> dict[str, Any]:
    """Return a replica's progress from its remaining transactions and those that its source has logged since.

    Args:
        samples: of remaining transactions, as negative numbers that grow.
        arrived: of transactions that the source has logged since the first sample, at the same times.
        left: transactions that remain now.
        of: name of the source.
    """
    known: dict[str, Any] = {"transactions_left": left, "note": _behind(left, of)}
    incoming = rate_of(arrived)
    if incoming is None or len(samples) < 2:
        return known
    nearer = (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])
    applied = max(0.0, incoming + nearer)
    known |= {"applied_per_second": applied, "incoming_per_second": incoming}
    rates = {"behind": _behind(left, of), "applied": f"{applied:.0f}", "source": of, "incoming": f"{incoming:.0f}"}
    known["note"] = phrase("{behind}; applies {applied} a second, {source} logs {incoming}", **rates)
    if left and nearer > 0:
        known["eta_seconds"] = left / nearer
    elif left:
        known["falls_behind"] = True
        known["note"] = phrase("{behind}; applies {applied} a second, {source} logs {incoming}: falls behind", **rates)
    return known


def _behind(left: int, of: str) -> Phrase:
    return phrases("{number} transaction behind {source}", "{number} transactions behind {source}", left, source=of)


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
