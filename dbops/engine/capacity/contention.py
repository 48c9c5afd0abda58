"""Name what sessions compete for, from a comparison of two readings, with the evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dbops.engine.capacity.waits import (
    ROW_LOCK_TIME,
    WaitClass,
    WaitComparison,
    class_of,
    is_contention,
)

#: Share of the time in statements from which the waits of a class are named.
NAMED_SHARE = 0.05
#: Lookups in the table cache that miss, and misses a second, from which the cache is named without waits: under load each miss costs a
#: statement about 0.1 ms of work and the locks around it.
MISS_SHARE, MISSES_PER_SECOND = 0.05, 10.0
#: Definitions opened a second: each is read from its file or the dictionary.
DEFINITIONS_PER_SECOND = 10.0


@dataclass(frozen=True, slots=True)
class Contention:
    """Something that sessions compete for. ``share``: of the time in statements; ``None`` if only counters tell.

    ``events``: the wait events with their shares, largest first. ``evidence``: pairs of a counter and its rate or value.
    """

    kind: WaitClass
    share: float | None = None
    events: tuple[tuple[str, float], ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)


def contentions(found: WaitComparison) -> tuple[Contention, ...]:
    """Return what is named, largest share first; what counters alone tell comes last."""
    by_waits = {one.kind: one for one in _by_waits(found)}
    by_counters = {one.kind: one for one in _by_counters(found)}
    merged = [
        Contention(
            kind,
            by_waits[kind].share if kind in by_waits else None,
            by_waits[kind].events if kind in by_waits else (),
            by_counters[kind].evidence if kind in by_counters else {},
        )
        for kind in dict.fromkeys((*by_waits, *by_counters))
    ]
    return tuple(sorted(merged, key=lambda one: (-(one.share or 0.0), one.kind)))


def _by_waits(found: WaitComparison) -> Iterator[Contention]:
    classes: dict[WaitClass, list[tuple[str, float]]] = {}
    for wait in found.waits:
        if is_contention(wait):
            classes.setdefault(class_of(wait.event), []).append((wait.event, wait.share))
    for kind, events in classes.items():
        share = sum(share for _, share in events)
        if share >= NAMED_SHARE:
            yield Contention(kind, min(1.0, share), tuple(events))


def _by_counters(found: WaitComparison) -> Iterator[Contention]:
    seconds, counters = found.elapsed_seconds, found.counters
    if not seconds:
        return
    misses, hits = counters.get("Table_open_cache_misses", 0), counters.get("Table_open_cache_hits", 0)
    if misses / seconds >= MISSES_PER_SECOND and misses >= MISS_SHARE * (misses + hits):
        evidence = {"misses_per_second": misses / seconds, "miss_share": misses / (misses + hits)}
        yield Contention(WaitClass.TABLE_CACHE, evidence=evidence)
    opened = counters.get("Opened_table_definitions", 0)
    if opened / seconds >= DEFINITIONS_PER_SECOND:
        evidence = {"opened_definitions_per_second": opened / seconds}
        yield Contention(WaitClass.DATA_DICTIONARY, evidence=evidence)
    if waited := counters.get(ROW_LOCK_TIME):
        # sessions that wait all the time, on average
        waiting = waited / 1000 / seconds
        if waiting >= NAMED_SHARE:
            yield Contention(WaitClass.ROW_LOCKS, evidence={"sessions_waiting": waiting})
