"""Calculate a stream's minimum rate (before the source's redo log wraps around) and the auto-throttle's limit."""

from dataclasses import dataclass, replace
from math import ceil
from statistics import median

MIB = 1024**2
#: Of the redo log's capacity so much counts as usable: the server makes room before it is full.
USABLE = 0.5
#: A rate is an average of some seconds of writes, and writes come in waves.
MARGIN = 2.0
#: Nobody wants to wait for less, and a stream that hardly moves looks stalled to everybody.
SLOWEST = 64 * 1024


def floor_of(
    *, bytes_to_copy: int | None, redo_capacity_bytes: int | None, redo_bytes_per_second: float | None, parallel: int
) -> int:
    """Return the bytes a second below which a stream may not be held, as the redo log of its source would not outlast it.

    Either of two is enough. The whole copy ends before the writes of its time fill half of the redo log; or the redo copier, which
    shares the one pipe with ``parallel`` threads that copy pages, keeps up with twice the rate of the writes all the while.

    Args:
        bytes_to_copy: of the data; ``None`` where it is not known.
        redo_capacity_bytes, redo_bytes_per_second: of the source, ``None`` where not known: then only ``SLOWEST`` is known to be too slow.
        parallel: threads of the backup tool that copy pages.
    """
    if not redo_bytes_per_second or redo_capacity_bytes is None:
        return SLOWEST
    keeps_up = MARGIN * redo_bytes_per_second * (parallel + 1)
    if bytes_to_copy is None:
        return max(SLOWEST, ceil(keeps_up))
    in_time = bytes_to_copy * redo_bytes_per_second / (USABLE * redo_capacity_bytes)
    return max(SLOWEST, ceil(min(keeps_up, in_time)))


#: Of so many looks the middle one counts: one slow answer is no trouble.
LOOKS = 5
#: After that long below half of the limit the stream may go faster again.
CALM_SECONDS = 30.0
SLOWER, FASTER = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class AutoThrottle:
    """What the automatic brake remembers. ``rate`` is what it holds the stream to, in bytes a second; ``None``: it does not.

    ``free`` is how fast the stream was when it was braked first. Latencies are in milliseconds, times in seconds since 1970.
    """

    latencies: tuple[float, ...] = ()
    rate: int | None = None
    free: int | None = None
    calm_since: float | None = None


def throttle(
    before: AutoThrottle, *, latency_ms: float, limit_ms: float, now: float, moving: float | None, floor: int
) -> AutoThrottle:
    """Return what the brake does after one more look at how long the servers take to answer.

    Above the limit the rate is halved, never below ``floor``; after half a minute below half of the limit it grows by half, until the
    stream is as fast as it was: then it is let go.

    Args:
        latency_ms: of this look: the slowest of the servers.
        limit_ms: above which the middle of the last looks is too much.
        moving: bytes a second of the stream now, ``None`` where not known: nothing is braked then.
        floor: bytes a second, as ``floor_of`` gives it.
    """
    seen = (*before.latencies, latency_ms)[-LOOKS:]
    if len(seen) < LOOKS:
        return replace(before, latencies=seen)
    middle = median(seen)
    if middle > limit_ms:
        speed = before.rate or moving
        if not speed:
            return replace(before, latencies=seen, calm_since=None)
        # looks begin anew: the next step is taken by what the servers say under this one
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
