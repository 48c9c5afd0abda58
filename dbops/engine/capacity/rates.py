"""Rates of counters that a restart of the server sets back to zero."""

from collections.abc import Mapping
from datetime import datetime

#: Counters whose rates are kept.
COUNTERS = ("questions", "writes", "redo_bytes", "cache_misses")
UPTIME = "uptime_seconds"

Counters = Mapping[str, int | None]


def rates(before: Counters, before_at: datetime, after: Counters, after_at: datetime) -> dict[str, float | None]:
    """Return the rate of each counter per second between two readings, ``None`` if unknown.

    After a restart a counter has counted since then, for the server's uptime. One that was set back without a restart
    (``FLUSH STATUS``) has no rate: the time is unknown.
    """
    elapsed = (after_at - before_at).total_seconds()
    up_before, up = before.get(UPTIME), after.get(UPTIME)
    # after a short uptime, the new one can be longer though the server has restarted
    restarted = up is not None and (up < elapsed or (up_before is not None and up < up_before))
    return {
        name: _rate(None if restarted else before.get(name), after.get(name), up if restarted else elapsed, restarted)
        for name in COUNTERS
    }


def _rate(before: int | None, after: int | None, seconds: float | None, restarted: bool) -> float | None:
    if after is None or not seconds or seconds < 0:
        return None
    if restarted:
        return after / seconds
    return None if before is None or after < before else (after - before) / seconds
