"""Slow down a stream, by rate limit or auto-throttle: the target's host applies the rate to the reader of the stream.

On that host this needs only the stream's own job. Without a requested rate nothing slows the stream, not even a byte counter.
"""

from contextlib import closing
from dataclasses import asdict

from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.progress import add_sample, rate_of
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.steps.run import InstanceHandle, Run, Server
from dbops.engine.states import Level
from dbops.engine.tuning.stream_rate import AutoThrottle, throttle

SHOWN, LINK, AUTO_THROTTLE, CHECKED = "stream.rate", "stream.link", "stream.auto_throttle", "stream.auto_throttle_at"
MIB = 1024**2
#: Time between two checks of the servers; each is a login and one statement.
CHECK_SECONDS = 3.0
#: A server that accepts the login and does not answer within this time counts as slow.
PATIENCE_SECONDS = 3.0


def begin_held(run: Run) -> int | None:
    """Return the initial rate of the stream, and record it; a restarted job has nothing of the last one's."""
    wished = run.checkpoint[SHOWN] = run.stream_rate()
    if wished:
        _log_rate(run, wished, "")
    return wished


def count_link(run: Run, state: JobState) -> None:
    """Remember the bytes that came over the link: the rate applies to them, and unpacked bytes are more after compression."""
    if (arrived := state.counters.get("transport.write_bytes")) is not None:
        run.checkpoint[LINK] = add_sample(run.checkpoint.get(LINK, []), at=run.clock.now(), count=arrived)


def pass_rate_on(run: Run) -> None:
    """Send the wanted rate to the target's host if it has changed. Raises as ``Jobs.act``."""
    wished, throttled = run.stream_rate(), _throttled(run)
    wanted = min(filter(None, (wished, throttled)), default=None)
    if wanted == run.checkpoint.get(SHOWN):
        return
    run.journal.check()
    if run.target.jobs.act(IN_BASH, load("set_rate"), str(wanted or "")).exit_status != 0:
        return  # perhaps the disk is full: no limit applies, nothing is logged, and the next check tries again
    run.checkpoint[SHOWN] = wanted
    _log_rate(
        run,
        wanted,
        phrase(" by auto-throttle, because the servers answer slowly") if wanted and wanted == throttled else "",
    )


def _log_rate(run: Run, rate: int | None, why: str) -> None:
    text = (
        phrase("Rate limit: {rate} MiB/s{why}.", rate=f"{rate / MIB:.1f}", why=why)
        if rate
        else phrase("Rate limit: none.")
    )
    run.journal.say(text, level=Level.WARNING if rate else Level.INFO, host=run.target.party.host)


def _throttled(run: Run) -> int | None:
    """Check the servers when that is due, and return the rate limit of auto-throttle."""
    limit, now = run.settings.auto_throttle_latency_ms, run.clock.now()
    if not limit:
        return None
    kept = run.checkpoint.get(AUTO_THROTTLE) or {}
    before = AutoThrottle(**{**kept, "latencies": tuple(kept.get("latencies", ()))})
    if now < run.checkpoint.get(CHECKED, 0.0) + CHECK_SECONDS:
        return before.rate
    run.checkpoint[CHECKED] = now
    read = [_latency_ms(run, side) for side in (run.source, run.primary)]
    latencies = [latency for latency in read if latency is not None]
    if not latencies:
        return before.rate
    after = throttle(
        before,
        latency_ms=max(latencies),
        limit_ms=limit,
        now=now,
        moving=rate_of(run.checkpoint.get(LINK) or []),
        floor=run.slowest_rate(),
    )
    run.checkpoint[AUTO_THROTTLE] = asdict(after)
    return after.rate


def _latency_ms(run: Run, side: InstanceHandle | Server) -> float | None:
    """Return how long a server takes to log in and answer, ``None`` if it accepts no connection or has just gone down.

    A slower stream does not help a server that is down, and a rebuild is most urgent then.
    """
    began, lost = run.clock.now(), False
    try:
        with closing(side.connect(PATIENCE_SECONDS)) as database:
            database.query("SELECT 1")  # the driver connects with its first statement
    except Unreachable as error:
        if error.took_no_connection:
            return None
        lost = True
    except DbopsError:
        pass  # it has answered, even if with an error
    took = run.clock.now() - began
    return None if lost and took < PATIENCE_SECONDS else took * 1000
