"""Calculate a stream's minimum rate (before the source's redo log wraps around) and the auto-throttle's limit."""

from dataclasses import dataclass, replace
from math import ceil
from statistics import median

MIB = 1024**2
#: Usable share of the redo log's capacity: the server frees space before the log is full.
USABLE = 0.5
#: A rate is an average of some seconds of writes, and writes come in waves.
MARGIN = 2.0
#: Lower rates take too long, and such a stream looks stalled.
SLOWEST = 64 * 1024


def floor_of(
    *, bytes_to_copy: int | None, redo_capacity_bytes: int | None, redo_bytes_per_second: float | None, parallel: int
) -> int:
    """Return the minimum rate in bytes a second, below which the source's redo log would wrap around.

    Either condition suffices: the whole copy ends before its writes fill half of the redo log; or the redo copier, which shares
    the pipe with ``parallel`` threads that copy pages, keeps up with twice the write rate.

    Args:
        bytes_to_copy: of the data; ``None`` if unknown.
        redo_capacity_bytes, redo_bytes_per_second: of the source, ``None`` if unknown: then ``SLOWEST`` is the minimum.
        parallel: threads of the backup tool that copy pages.
    """
    if not redo_bytes_per_second or redo_capacity_bytes is None:
        return SLOWEST
    keeps_up = MARGIN * redo_bytes_per_second * (parallel + 1)
    if bytes_to_copy is None:
        return max(SLOWEST, ceil(keeps_up))
    in_time = bytes_to_copy * redo_bytes_per_second / (USABLE * redo_capacity_bytes)
    return max(SLOWEST, ceil(min(keeps_up, in_time)))


#: Samples whose median counts: one slow answer is no problem.
LOOKS = 5
#: Seconds below half of the limit before the stream may run faster.
CALM_SECONDS = 30.0
SLOWER, FASTER = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class AutoThrottle:
    """State of the auto-throttle. ``rate`` is its limit in bytes a second; ``None``: no limit.

    ``free`` is the stream's rate before the first throttling. Latencies are in milliseconds, times in seconds since 1970.
    """

    latencies: tuple[float, ...] = ()
    rate: int | None = None
    free: int | None = None
    calm_since: float | None = None


def throttle(
    before: AutoThrottle, *, latency_ms: float, limit_ms: float, now: float, moving: float | None, floor: int
) -> AutoThrottle:
    """Return the next state of the auto-throttle after one more latency sample.

    Above the limit the rate is halved, never below ``floor``. After half a minute below half of the limit it grows by half, until
    the stream is as fast as before; then the limit is removed.

    Args:
        latency_ms: of this sample: the slowest of the servers.
        limit_ms: maximum median of the last samples.
        moving: bytes a second of the stream now; ``None`` if unknown: no throttling then.
        floor: bytes a second, from ``floor_of``.
    """
    seen = (*before.latencies, latency_ms)[-LOOKS:]
    if len(seen) < LOOKS:
        return replace(before, latencies=seen)
    middle = median(seen)
    if middle > limit_ms:
        speed = before.rate or moving
        if not speed:
            return replace(before, latencies=seen, calm_since=None)
        # start with new samples: the next step depends on the latency at this rate
        return AutoThrottle((), max(floor, round(speed * SLOWER)), before.free or round(speed), None)
    if before.rate is None or middle > limit_ms / 2:
        return replace(before, latencies=seen, calm_since=None)
    since = before.calm_since if before.calm_since is not None else now
    if now - since < CALM_SECONDS:
        return replace(before, latencies=seen, calm_since=since)
    faster = round(before.rate * FASTER)
    if before.free is None or faster >= before.free:
        return AutoThrottle(seen)
    return AutoThrottle(seen, faster, before.free, now)
