"""Texts of advice on a cluster's capacity."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.capacity.advice_inputs import Advice, AdviceEvidence, AdviceKind, EvidenceSource
from dbops.engine.phrases import phrase
from dbops.web.figures import bytes_text, count, localized
from dbops.web.templatetags.phrases import translated

TITLES = {
    AdviceKind.TABLE_CACHES: phrase("Raise the table caches and file limits together"),
    AdviceKind.SYNC_ARRAY: phrase("Split InnoDB’s sync array"),
    AdviceKind.PURGE: phrase("Add purge threads"),
    AdviceKind.REDO_CAPACITY: phrase("Enlarge the redo log"),
    AdviceKind.BUFFER_POOL: phrase("Enlarge the buffer pool"),
    AdviceKind.DOUBLEWRITE: phrase("Turn doublewrite off"),
    AdviceKind.FEWER_SCHEMAS: phrase("Keep fewer schemas in this cluster"),
}
EFFECTS = {
    AdviceKind.TABLE_CACHES: phrase(
        "Statements no longer reopen tables. Tail latency (P99 and above) falls; the median hardly changes."
    ),
    AdviceKind.SYNC_ARRAY: phrase(
        "Threads that wait for InnoDB’s locks wake up with less contention. Test it first: many workloads don’t gain."
    ),
    AdviceKind.PURGE: phrase(
        "Old row versions are removed faster. First look for a transaction that has been open for hours: no purge thread"
        " helps while it is."
    ),
    AdviceKind.REDO_CAPACITY: phrase("Fewer pages are written early to free redo space. Crash recovery takes longer."),
    AdviceKind.BUFFER_POOL: phrase(
        "Fewer reads from disk, if the host has the memory. Otherwise move the instance to a larger host."
    ),
    AdviceKind.DOUBLEWRITE: phrase(
        "Each page is written once instead of twice. The gain depends on the write load: run an A/B test."
    ),
    AdviceKind.FEWER_SCHEMAS: phrase("Latency stays as it is now."),
}
SOURCES = {
    EvidenceSource.READING: phrase("hourly reading"),
    EvidenceSource.WAITS: phrase("reading of waits"),
    EvidenceSource.FORECAST: phrase("forecast"),
    EvidenceSource.LOAD_TEST: phrase("load test"),
    EvidenceSource.STORAGE: phrase("verdict on the storage"),
}
NUMBER, TENTHS, PERCENT = "{number}", "{tenths}", "{percent}"
SHARE, SCHEMAS = phrase("{percent} of the time in statements"), phrase("{number} schemas")
#: Names of evidence with the format of its value; others are status variables and settings, or wait events with their share.
NAMES = {
    "cache_misses_per_second": (phrase("Table cache misses a second"), NUMBER),
    "misses_per_second": (phrase("Table cache misses a second"), NUMBER),
    "miss_share": (phrase("Lookups in the table cache that miss"), PERCENT),
    "opened_definitions_per_second": (phrase("Definitions opened a second"), NUMBER),
    "tables": (phrase("Tables"), NUMBER),
    "partitions": (phrase("Partitions"), NUMBER),
    "open_tables": (phrase("Open tables"), NUMBER),
    "open_definitions": (phrase("Open definitions"), NUMBER),
    "schemas": (phrase("Schemas"), NUMBER),
    "schemas_threshold": (phrase("Threshold"), SCHEMAS),
    "knee_schemas": (phrase("Latency rises from"), phrase("{number} schemas on")),
    "buffer_pool_miss_share": (phrase("Page reads that go to disk"), PERCENT),
    "sessions_waiting": (phrase("Sessions that wait for row locks"), TENTHS),
}
#: What the same number means.
MEANINGS = {
    "mysql": phrase("MySQL divides table_open_cache among its table_open_cache_instances."),
    "mariadb": phrase("MariaDB caches up to table_open_cache tables in each of its table_open_cache_instances."),
}
BYTES = {
    "redo_bytes_per_hour": phrase("Redo written in an hour"),
    "redo_capacity_bytes": phrase("Redo log capacity"),
}


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
        translated(TITLES[first.kind]),
        _effect(first),
        tuple((one.instance, tuple(map(_evidence, one.evidence))) for one in group),
        tuple(_notes(first)),
    )


def _effect(one: Advice) -> str:
    if one.effect is None:
        return translated(EFFECTS[one.kind])
    found = one.effect
    said = _("%(ratio)s times the throughput (95 %% interval %(low)s to %(high)s), measured by load test %(number)s.")
    figures = {"ratio": found.ratio, "low": found.low, "high": found.high}
    values = {name: localized(f"{value:.2f}") for name, value in figures.items()}
    return said % {**values, "number": found.test}


def _evidence(one: AdviceEvidence) -> tuple[str, str, str]:
    source = translated(SOURCES[one.source]) + (f" {one.test}" if one.test else "")
    if one.at:
        source += f", {timezone.localtime(one.at):%Y-%m-%d %H:%M}"
    if one.name in BYTES:
        return translated(BYTES[one.name]), bytes_text(one.value), source
    if one.name == "doublewrite_needless":
        return _("Storage"), _("writes a page completely or not at all"), source
    name, form = NAMES.get(one.name, (one.name, SHARE if "/" in one.name else NUMBER))
    value = 100 * one.value if form in (PERCENT, SHARE) else one.value
    figures = {"number": localized(f"{value:,.0f}"), "tenths": localized(f"{value:.1f}")}
    figures["percent"] = f"{figures['tenths']} %"
    return translated(name) if name != one.name else name, translated(form).format(**figures), source


def _notes(one: Advice) -> Iterator[str]:
    first, last = one.by
    if first:
        days = {"first": _day(first), "last": _day(last) if last else ""}
        is_range = last and days["last"] != days["first"]
        said = _("The limit is reached on %(first)s.")
        if is_range:
            said = _("The limit is reached on %(first)s to %(last)s.")
        yield said % days
    if one.move:
        said = ngettext(
            "Move %(number)s schema to another cluster to stay below it for a year.",
            "Move %(number)s schemas to another cluster to stay below it for a year.",
            one.move,
        )
        yield said % {"number": count(one.move)}
    if one.memory_bytes:
        yield _memory(one, one.memory_bytes)
    if one.binds_next:
        name, tables = one.binds_next
        said = _("The next limit is %(name)s, at %(tables)s tables and partitions.")
        yield said % {"name": name, "tables": count(tables)}
    if one.kind is AdviceKind.TABLE_CACHES:
        yield translated(MEANINGS[one.flavor])
        yield _(
            "Check LimitNOFILE of the systemd unit too: it limits open_files_limit. "
            "The server lowers caches that don’t fit at start."
        )
    if one.needs_restart:
        names = ", ".join(change.name for change in one.changes if change.needs_restart)
        yield _("Needs a restart: %(names)s.") % {"names": names}
        if one.flavor == "mysql":
            yield _(
                "From MySQL 8.0 on, a value of SET PERSIST hides that of the option file: remove it with RESET PERSIST."
            )


def _memory(one: Advice, size: int) -> str:
    if one.kind is not AdviceKind.TABLE_CACHES:
        return _("Costs %(size)s of memory.") % {"size": bytes_text(size)}
    said = _(
        "Costs about %(size)s of memory once every table is cached. "
        "A table that several sessions use at once is cached several times."
    )
    return said % {"size": bytes_text(size)}


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"
