"""Texts of wait events and of what sessions compete for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from dbops.engine.capacity.contention import Contention, contentions
from dbops.engine.capacity.waits import ReadingLimit, WaitClass, WaitComparison, class_of, is_contention
from dbops.engine.facts.waits import WaitShare
from dbops.engine.phrases import phrase
from dbops.web.figures import localized
from dbops.web.templatetags.phrases import translated

LABELS = {
    WaitClass.DATA_DICTIONARY: phrase("Data dictionary"),
    WaitClass.TABLE_CACHE: phrase("Table cache"),
    WaitClass.TABLESPACES: phrase("Open tablespaces"),
    WaitClass.METADATA_LOCKS: phrase("Metadata locks"),
    WaitClass.TABLE_LOCKS: phrase("Table locks"),
    WaitClass.ROW_LOCKS: phrase("Row locks"),
    WaitClass.REDO: phrase("Redo log"),
    WaitClass.BINARY_LOG: phrase("Binary log"),
    WaitClass.BUFFER_POOL: phrase("Buffer pool"),
    WaitClass.INDEX_PAGES: phrase("Index pages"),
    WaitClass.TRANSACTIONS: phrase("Transaction system"),
    WaitClass.DATA_FILES: phrase("Data files"),
    WaitClass.OTHER_FILES: phrase("Other files"),
    WaitClass.NETWORK: phrase("Network"),
    WaitClass.OTHER: phrase("Other"),
}
LIMITS = {
    ReadingLimit.SCHEMA_OFF: phrase(
        "Waits are unknown: performance_schema is off on this server. It can only be switched on in the option file, with a"
        " restart. The status counters below are read without it."
    ),
    ReadingLimit.CONSUMERS_OFF: phrase(
        "Waits are unknown: the consumers global_instrumentation and thread_instrumentation must be on."
    ),
    ReadingLimit.INSTRUMENTS_OFF: phrase("Some instruments are off, so these waits are unknown:"),
    ReadingLimit.RESTARTED: phrase("The server restarted between the two readings. Read again."),
    ReadingLimit.COUNTERS_RESET: phrase("A counter was reset between the two readings, so some values are too low."),
    ReadingLimit.IDLE: phrase("No statement ran between the two readings."),
}
EVIDENCE = {
    "misses_per_second": phrase("{number} table cache misses a second"),
    "miss_share": phrase("{percent} of the lookups in the table cache miss"),
    "opened_definitions_per_second": phrase("{number} table definitions opened a second"),
    "sessions_waiting": phrase("{tenths} sessions wait for row locks on average"),
}
#: Waits with a smaller share are not listed.
LISTED_SHARE, MOST_LISTED = 0.0005, 25


@dataclass(frozen=True, slots=True)
class WaitRow:
    """A wait event as the page lists it."""

    wait: WaitShare
    label: str
    is_contention: bool

    @property
    def percent(self) -> float:
        return 100 * self.wait.share

    @property
    def average(self) -> str:
        microseconds = 1e6 * self.wait.seconds / self.wait.count if self.wait.count else 0.0
        return localized(f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms")


@dataclass(frozen=True, slots=True)
class ContentionText:
    """Something that sessions compete for, in words."""

    kind: WaitClass
    label: str
    summary: str
    evidence: tuple[str, ...]


def rows_of(waits: Iterable[WaitShare]) -> list[WaitRow]:
    """Return the waits that the page lists, largest first."""
    listed = [wait for wait in waits if wait.share >= LISTED_SHARE][:MOST_LISTED]
    return [WaitRow(wait, translated(LABELS[class_of(wait.event)]), is_contention(wait)) for wait in listed]


def contention_texts(found: WaitComparison) -> list[ContentionText]:
    """Return what sessions compete for, in words with the evidence."""
    return [
        ContentionText(one.kind, translated(LABELS[one.kind]), _summary(one), tuple(_evidence(one)))
        for one in contentions(found)
    ]


def summary_of(found: WaitComparison) -> str:
    """Return one line for a list of readings."""
    named = contention_texts(found)
    if named:
        return ", ".join(f"{one.label} {one.summary}" for one in named)
    if any(limit in found.limits for limit in (ReadingLimit.SCHEMA_OFF, ReadingLimit.CONSUMERS_OFF)):
        return _("Waits unknown")
    return _("Restarted") if ReadingLimit.RESTARTED in found.limits else _("No contention")


def _summary(one: Contention) -> str:
    return _("by counters") if one.share is None else f"{100 * one.share:.0f} %"


def _evidence(one: Contention) -> Iterator[str]:
    for event, share in one.events:
        percent = localized(f"{100 * share:.1f}")
        yield _("%(event)s: %(percent)s %% of the time in statements") % {"event": event, "percent": percent}
    for name, value in one.evidence.items():
        figure = 100 * value if name.endswith("_share") else value
        figures = {
            "number": localized(f"{figure:,.0f}"),
            "tenths": localized(f"{figure:.1f}"),
            "percent": f"{figure:.0f} %",
        }
        yield translated(EVIDENCE[name]).format(**figures)
