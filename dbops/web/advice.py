"""Texts of advice on a cluster's capacity."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from dbops.engine.capacity.advice import Advice, AdviceKind, Evidence, Source
from dbops.web.templatetags.dbops import bytes_text

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
#: Names of evidence with the format of its value; others are status variables and settings, or wait events with their share.
NAMES = {
    "cache_misses_per_second": ("Table cache misses a second", "{:,.0f}"),
    "misses_per_second": ("Table cache misses a second", "{:,.0f}"),
    "miss_share": ("Lookups in the table cache that miss", "{:.0%}"),
    "opened_definitions_per_second": ("Definitions opened a second", "{:,.0f}"),
    "tables": ("Tables", "{:,.0f}"),
    "partitions": ("Partitions", "{:,.0f}"),
    "open_tables": ("Open tables", "{:,.0f}"),
    "open_definitions": ("Open definitions", "{:,.0f}"),
    "schemas": ("Schemas", "{:,.0f}"),
    "schemas_threshold": ("Threshold", "{:,.0f} schemas"),
    "knee_schemas": ("Latency rises from", "{:,.0f} schemas on"),
    "buffer_pool_miss_share": ("Page reads that go to disk", "{:.1%}"),
    "sessions_waiting": ("Sessions that wait for row locks", "{:.1f}"),
}
BYTES = {"redo_bytes_per_hour": "Redo written in an hour", "redo_capacity_bytes": "Redo log capacity"}


@dataclass(frozen=True, slots=True)
class AdviceText:
    """One advice as the page shows it. ``evidence``: name, value and source."""

    advice: Advice
    title: str
    effect: str
    evidence: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def texts_of(advice: Iterable[Advice]) -> list[AdviceText]:
    return [
        AdviceText(one, TITLES[one.kind], _effect(one), tuple(map(_evidence, one.evidence)), tuple(_notes(one)))
        for one in advice
    ]


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
    name, form = NAMES.get(one.name, (one.name, "{:.1%} of the time in statements" if "/" in one.name else "{:,.0f}"))
    return name, form.format(one.value), source


def _notes(one: Advice) -> Iterator[str]:
    first, last = one.by
    if first:
        until = f" to {_day(last)}" if last and _day(last) != _day(first) else ""
        yield f"The limit is reached on {_day(first)}{until}."
    if one.move:
        yield f"Move {one.move:,} schema{'' if one.move == 1 else 's'} to another cluster to stay below it for a year."
    if one.memory_bytes:
        yield f"Costs up to {bytes_text(one.memory_bytes)} of memory."
    if one.binds_next:
        name, tables = one.binds_next
        yield f"The next limit is {name}, at {tables:,} tables and partitions."
    if one.kind is AdviceKind.TABLE_CACHES:
        yield "Check LimitNOFILE of the systemd unit too: it limits open_files_limit. The server lowers caches that don’t fit at start."
    if one.needs_restart:
        names = ", ".join(change.name for change in one.changes if change.needs_restart)
        yield f"Needs a restart: {names}."


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"
