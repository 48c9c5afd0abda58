"""Checks of space and limits."""

from collections.abc import Iterator

from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import duration, gib, ok, refusal, unknown, warning
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding

#: Free space required beyond the data: growth while copying, sort files, binary logs after the start.
SPACE_FACTOR = 1.15
#: Maximum share of its capacity that the redo log may fill during the copy before it could overtake the copier.
REDO_SHARE = 0.5
#: Below this, servers with many tables fail with "Too many open files".
OPEN_FILES_MINIMUM = 65_536


def bytes_needed(inputs: PlanInputs) -> int | None:
    """Return the bytes that the target's file system must hold: the data with a margin, and the redo logs of copy and server."""
    size, redo = inputs.bytes_of_data, inputs.redo_capacity_bytes
    if size is None or redo is None:
        return None
    return int(size * SPACE_FACTOR) + 2 * redo


def fits_beside_old_data(inputs: PlanInputs) -> bool | None:
    """Return whether the old data directory fits beside the new one until the new one is verified.

    ``None`` if the sizes were not read: such a plan cannot start.
    """
    needed, facts = bytes_needed(inputs), inputs.target.facts
    if needed is None or facts is None or facts.datadir is None:
        return None
    return facts.datadir.free_bytes >= needed


def target_has_room(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the free space before anything is destroyed. Warn if the old data is removed first."""
    code, title = "target.space", phrase("Free space on the target")
    needed, facts = bytes_needed(inputs), inputs.target.facts
    if facts is None or facts.datadir is None:
        return
    if needed is None:
        yield unknown(code, title, phrase("the size of the source"))
        return
    free, old = facts.datadir.free_bytes, facts.datadir.total_bytes or 0
    text = phrase("{needed} needed, {free} free", needed=gib(needed), free=gib(free))
    if free >= needed:
        yield ok(code, title, phrase("{text}. The old data is kept until the new data is verified.", text=text))
    elif free + old >= needed and not inputs.keep_old_data:
        yield warning(
            code,
            title,
            phrase("{text}, {old} used by the old data.", text=text, old=gib(old)),
            phrase("The old data directory is REMOVED BEFORE the copy: no rollback is possible."),
        )
    else:
        yield refusal(
            code,
            title,
            phrase("{text}, {old} used by the old data.", text=text, old=gib(old)),
            phrase("Free space on the target."),
        )


def redo_is_wide_enough(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the redo capacity: a redo log that wraps around ends the copy, after hours on MySQL, only at the very end on MariaDB."""
    code, title, server = "source.redo", phrase("Redo log of the source"), inputs.source.server
    seconds = inputs.cautious_copy_seconds
    if server is None or seconds is None:
        return
    capacity, rate = server.redo_capacity_bytes, server.redo_bytes_per_second
    if rate is None:
        yield warning(
            code,
            title,
            phrase("Capacity {capacity}; rate unknown (needs two probes).", capacity=gib(capacity)),
            phrase("Wait for the next probe and reload this page."),
        )
        return
    written = rate * seconds
    seen = phrase(
        "Capacity {capacity}, {rate}/s: ~{written} in {seconds}.",
        capacity=gib(capacity),
        rate=gib(rate),
        written=gib(written),
        seconds=duration(seconds),
    )
    if rate and capacity / rate < 10:
        yield refusal(
            code,
            title,
            phrase("{seen} Wraps around within {capacity} s.", seen=seen, capacity=f"{capacity / rate:.0f}"),
            phrase("Raise the redo log capacity."),
        )
    elif written > capacity * REDO_SHARE:
        yield warning(
            code,
            title,
            seen,
            phrase("The copy must keep up without a pause. Raise the redo log capacity, or rebuild at a quieter time."),
        )
    else:
        yield ok(code, title, seen)


def sessions_may_open_files(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, facts = (
        "source.open_files",
        phrase("Open files limit of the SSH session"),
        inputs.source.facts,
    )
    if not (facts and facts.host):
        return
    limit = facts.host.open_files_limit
    if limit < OPEN_FILES_MINIMUM:
        yield warning(
            code,
            title,
            phrase("ulimit -n is {limit}.", limit=limit),
            phrase(
                "Raise the hard limit of the SSH session to {open_files_minimum} or more.",
                open_files_minimum=OPEN_FILES_MINIMUM,
            ),
        )
    else:
        yield ok(code, title, phrase("ulimit -n is {limit}.", limit=limit))


def hosts_have_no_load_test(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of a load test on a host: it does not hold the rebuild up, but takes CPU and disk, and is slowed down itself."""
    code, title = "host.load_test", phrase("Load tests on the hosts")
    if inputs.load_tests:
        yield warning(
            code,
            title,
            phrase("{load_tests}.", load_tests=joined(inputs.load_tests, "; ")),
            phrase("Stop the load test, or wait for its end."),
        )
    else:
        yield ok(code, title, phrase("None runs."))


CHECKS = (target_has_room, redo_is_wide_enough, sessions_may_open_files, hosts_have_no_load_test)
