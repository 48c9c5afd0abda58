"""Texts of advice on a cluster's capacity."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from dbops.engine.capacity.situation import Advice, AdviceKind, Evidence, Source
from dbops.web.figures import bytes_text

TITLES = {
    AdviceKind.TABLE_CACHES: "Raise the table caches and file limits together",
    AdviceKind.SYNC_ARRAY: "Split InnoDB’s sync array",
    AdviceKind.PURGE: "Add purge threads",
    AdviceKind.REDO_CAPACITY: "Enlarge the redo log",
    AdviceKind.BUFFER_POOL: "Enlarge the buffer pool",
    AdviceKind.DOUBLEWRITE: "Turn doublewrite off",
    AdviceKind.FEWER_SCHEMAS: "Keep fewer schemas in this cluster",
}
EFFECTS = {
    AdviceKind.TABLE_CACHES: "Statements no longer reopen tables. Tail latency (P99 and above) falls; the median hardly changes.",
    AdviceKind.SYNC_ARRAY: "Threads that wait for InnoDB’s locks wake up with less contention. Test it first: many workloads don’t gain.",
    AdviceKind.PURGE: "Old row versions are removed faster. First look for a transaction that has been open for hours: no purge thread"
    " helps while it is.",
    AdviceKind.REDO_CAPACITY: "Fewer pages are written early to free redo space. Crash recovery takes longer.",
    AdviceKind.BUFFER_POOL: "Fewer reads from disk, if the host has the memory. Otherwise move the instance to a larger host.",
    AdviceKind.DOUBLEWRITE: "Each page is written once instead of twice. The gain depends on the write load: run an A/B test.",
    AdviceKind.FEWER_SCHEMAS: "Latency stays as it is now.",
}
SOURCES = {
    Source.READING: "hourly reading",
    Source.WAITS: "reading of waits",
    Source.FORECAST: "forecast",
    Source.LOAD_TEST: "load test",
    Source.STORAGE: "verdict on the storage",
}
PERCENT, SHARE = "{:.1f} %", "{:.1f} % of the time in statements"
#: Names of evidence with the format of its value; others are status variables and settings, or wait events with their share.
NAMES = {
    "cache_misses_per_second": ("Table cache misses a second", "{:,.0f}"),
    "misses_per_second": ("Table cache misses a second", "{:,.0f}"),
    "miss_share": ("Lookups in the table cache that miss", PERCENT),
    "opened_definitions_per_second": ("Definitions opened a second", "{:,.0f}"),
    "tables": ("Tables", "{:,.0f}"),
    "partitions": ("Partitions", "{:,.0f}"),
    "open_tables": ("Open tables", "{:,.0f}"),
    "open_definitions": ("Open definitions", "{:,.0f}"),
    "schemas": ("Schemas", "{:,.0f}"),
    "schemas_threshold": ("Threshold", "{:,.0f} schemas"),
    "knee_schemas": ("Latency rises from", "{:,.0f} schemas on"),
    "buffer_pool_miss_share": ("Page reads that go to disk", PERCENT),
    "sessions_waiting": ("Sessions that wait for row locks", "{:.1f}"),
}
#: What the same number means.
MEANINGS = {
    "mysql": "MySQL divides table_open_cache among its table_open_cache_instances.",
    "mariadb": "MariaDB caches up to table_open_cache tables in each of its table_open_cache_instances.",
}
BYTES = {"redo_bytes_per_hour": "Redo written in an hour", "redo_capacity_bytes": "Redo log capacity"}


@dataclass(frozen=True, slots=True)
class AdviceText:
    """The same advice for one instance or more, as the page shows it. ``evidence``: of each, pairs of its name and of its figures as
    name, value and source.
    """

    advice: Advice
    instances: tuple[str, ...]
    title: str
    effect: str
    evidence: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]
    notes: tuple[str, ...]


def texts_of(advice: Iterable[Advice]) -> list[AdviceText]:
    """Return the advice, once for all instances that get the same."""
    groups: dict[object, list[Advice]] = {}
    for one in advice:
        groups.setdefault((one.kind, one.changes, one.move, one.by if one.move else None), []).append(one)
    return [_text(group) for group in groups.values()]


def _text(group: list[Advice]) -> AdviceText:
    first = group[0]
    return AdviceText(
        first,
        tuple(one.instance for one in group),
        TITLES[first.kind],
        _effect(first),
        tuple((one.instance, tuple(map(_evidence, one.evidence))) for one in group),
        tuple(_notes(first)),
    )


def _effect(one: Advice) -> str:
    if one.effect is None:
        return EFFECTS[one.kind]
    found = one.effect
    return (
        f"{found.ratio:.2f} times the throughput (95 % interval {found.low:.2f} to {found.high:.2f}), measured by load test"
        f" {found.test}."
    )


def _evidence(one: Evidence) -> tuple[str, str, str]:
    source = SOURCES[one.source] + (f" {one.test}" if one.test else "")
    if one.at:
        source += f", {timezone.localtime(one.at):%Y-%m-%d %H:%M}"
    if one.name in BYTES:
        return BYTES[one.name], bytes_text(one.value), source
    if one.name == "doublewrite_needless":
        return "Storage", "writes a page completely or not at all", source
    name, form = NAMES.get(one.name, (one.name, SHARE if "/" in one.name else "{:,.0f}"))
    return name, form.format(100 * one.value if form in (PERCENT, SHARE) else one.value), source


def _notes(one: Advice) -> Iterator[str]:
    first, last = one.by
    if first:
        until = f" to {_day(last)}" if last and _day(last) != _day(first) else ""
        yield f"The limit is reached on {_day(first)}{until}."
    if one.move:
        yield f"Move {one.move:,} schema{'' if one.move == 1 else 's'} to another cluster to stay below it for a year."
    if one.memory_bytes:
        yield _memory(one, one.memory_bytes)
    if one.binds_next:
        name, tables = one.binds_next
        yield f"The next limit is {name}, at {tables:,} tables and partitions."
    if one.kind is AdviceKind.TABLE_CACHES:
        yield MEANINGS[one.flavor]
        yield "Check LimitNOFILE of the systemd unit too: it limits open_files_limit. The server lowers caches that don’t fit at start."
    if one.needs_restart:
        names = ", ".join(change.name for change in one.changes if change.needs_restart)
        yield f"Needs a restart: {names}."
        if one.flavor == "mysql":
            yield "From MySQL 8.0 on, a value of SET PERSIST hides that of the option file: remove it with RESET PERSIST."


def _memory(one: Advice, size: int) -> str:
    if one.kind is not AdviceKind.TABLE_CACHES:
        return f"Costs {bytes_text(size)} of memory."
    return (
        f"Costs about {bytes_text(size)} of memory once every table is cached. A table that several sessions use at once is cached several"
        " times."
    )


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"
