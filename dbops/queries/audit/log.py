"""Read the audit log: filters, pages, single entries, exports and verification.

A part of a name (``ol`` for ``olga``) is first looked up in ``AuditName``, the names that each column has had. The
log is then searched for whole values through its indexes. A period becomes a range of entry numbers, because numbers
rise with time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.lookups import Contains

from dbops.engine.audit.entries import VIEWS
from dbops.engine.phrases import phrase
from dbops.models import AuditEntry, AuditName, AuditSegment, AuditText

ENTRIES_ON_A_PAGE = 50
#: Maximum number of values looked up one by one through an index; with more, entries are dense enough for a scan.
FEW = 20
#: The longest expected step back of a clock.
SLACK = timedelta(days=1)
BATCH = 2000


class ContainsCase(Contains):
    """A case-sensitive "contains" for lower-case texts. On SQLite ``GLOB`` is a fifth faster than ``LIKE``."""

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        place, parameters = self.process_lhs(compiler, connection)
        pattern = re.sub(r"[*?[]", r"[\g<0>]", str(self.rhs))
        return f"{place} GLOB %s", [*parameters, f"*{pattern}*"]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of the audit log; empty fields match everything.

    Attributes:
        actor, subject, instance, cluster: parts of names, upper and lower case alike.
        action: its beginning.
        text: a part of the reason or the detail (commands, for example).
        view: a key of ``engine.audit.entries.VIEWS``.
    """

    actor: str = ""
    action: str = ""
    subject: str = ""
    instance: str = ""
    cluster: str = ""
    outcome: str = ""
    text: str = ""
    view: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def as_record(self) -> dict[str, str]:
        """Return the set fields as text."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value if isinstance(value, str) else value.isoformat() for name, value in values.items() if value}

    def __bool__(self) -> bool:
        return bool(self.as_record())


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page, newest first, and the numbers where its neighbours start (``None``: no neighbour)."""

    entries: list[AuditEntry]
    older_before: int | None
    newer_after: int | None


def entries(
    wanted: AuditFilter, *, before: int | None = None, after: int | None = None, only: frozenset[str] | None = None
) -> AuditPage:
    """Return one page of the log, newest first: the newest page, or entries older or newer than one.

    Args:
        before: only entries with lower numbers.
        after: the entries next above this number; ignored with ``before``.
        only: names of the clusters whose entries alone match; ``None``: all entries, also those of no cluster.
    """
    is_upward = after is not None and before is None
    limit = ENTRIES_ON_A_PAGE + 1
    after = after if is_upward else None
    numbers = _numbers(wanted, limit, before=before, after=after, is_upward=is_upward, only=only)
    has_more = len(numbers) == limit
    shown = sorted(numbers[:ENTRIES_ON_A_PAGE], reverse=True)
    found = list(AuditEntry.objects.filter(sequence__in=shown)) if shown else []
    has_older = bool(found) and (is_upward or has_more)
    has_newer = bool(found) and (has_more if is_upward else before is not None)
    return AuditPage(found, shown[-1] if has_older else None, shown[0] if has_newer else None)


def entry(sequence: int) -> AuditEntry | None:
    return AuditEntry.objects.filter(sequence=sequence).first()


def choices(column: str) -> list[str]:
    """Return the values that a column has had, by name."""
    return list(AuditName.objects.filter(column=column).order_by("name").values_list("name", flat=True)[:500])


def every(wanted: AuditFilter) -> Iterator[AuditEntry]:
    """Yield all matching entries in batches, oldest first."""
    after = 0
    while numbers := _numbers(wanted, BATCH, before=None, after=after, is_upward=True):
        yield from AuditEntry.objects.filter(sequence__in=numbers).order_by("sequence")
        after = numbers[-1]


def archived_in(sequence: int) -> str:
    """Return a sentence that names the file of an archived entry; ``""`` for any other number."""
    segment = AuditSegment.objects.filter(first__lte=sequence, last__gte=sequence).first()
    return (
        phrase(
            "Entry {sequence} was archived on {at} to {file_name}.",
            sequence=sequence,
            at=f"{segment.at:%Y-%m-%d}",
            file_name=segment.file_name,
        )
        if segment
        else ""
    )


def stored() -> Iterator[AuditEntry]:
    """Yield all rows as stored, by number and key, for verification."""
    last = (-(2**63), 0)
    while True:
        beyond = Q(sequence__gt=last[0]) | Q(sequence=last[0], pk__gt=last[1])
        rows = list(AuditEntry.objects.filter(beyond, sequence__gte=last[0]).order_by("sequence", "pk")[:BATCH])
        if not rows:
            return
        yield from rows
        last = (rows[-1].sequence, rows[-1].pk)


def _numbers(
    wanted: AuditFilter,
    limit: int,
    *,
    before: int | None,
    after: int | None,
    is_upward: bool,
    only: frozenset[str] | None = None,
) -> list[int]:
    """Return the numbers of the first matching entries in one direction."""
    values = _values(wanted, only)
    if values is None:
        return []
    span = _span(wanted, before, after)
    rows = AuditEntry.objects.filter(span)
    rows = rows.filter(at__gte=wanted.since) if wanted.since is not None else rows
    rows = rows.filter(at__lt=wanted.until) if wanted.until is not None else rows
    order = "sequence" if is_upward else "-sequence"
    # The index of the column with the fewest values gives each value's entries in order; the other columns are
    # compared.
    first = min(
        (column for column in values if len(values[column]) <= FEW), key=lambda name: len(values[name]), default=""
    )
    for column, names in values.items():
        rows = rows if column == first else rows.filter(**{f"{column}__in": names})
    if wanted.text:
        texts = AuditText.objects.filter(span, ContainsCase(F("text"), wanted.text.casefold()))
        if not first:  # a scan of the narrow table is faster than one of the entries
            if values or wanted.since or wanted.until:
                texts = texts.filter(Exists(rows.filter(sequence=OuterRef("sequence"))))
            return list(texts.order_by(order).values_list("sequence", flat=True)[:limit])
        rows = rows.filter(Exists(texts.filter(sequence=OuterRef("sequence"))))
    ways = [rows.filter(**{first: name}) for name in values[first]] if first else [rows]
    found = {number for way in ways for number in way.order_by(order).values_list("sequence", flat=True)[:limit]}
    return sorted(found, reverse=not is_upward)[:limit]


def _values(wanted: AuditFilter, only: frozenset[str] | None) -> dict[str, list[str]] | None:
    """Return the requested values by column; ``None`` if no entry can match."""
    asked: list[tuple[str, Q]] = []
    for column in ("actor", "subject", "instance", "cluster", "outcome"):
        if part := getattr(wanted, column):
            asked.append((column, Q(Contains(F("folded"), part.casefold()))))
    beginnings = [*VIEWS.get(wanted.view, ())]
    actions = Q()
    for beginning in beginnings:
        actions |= Q(name__startswith=beginning)
    if wanted.action:
        actions &= Q(name__startswith=wanted.action)
    if actions:
        asked.append(("action", actions))
    found = {
        column: list(AuditName.objects.filter(condition, column=column).values_list("name", flat=True))
        for column, condition in asked
    }
    if only is not None:
        found["cluster"] = [name for name in found.get("cluster", sorted(only)) if name in only]
    return found if all(found.values()) else None


def _span(wanted: AuditFilter, before: int | None, after: int | None) -> Q:
    """Return the range of entry numbers of a page and period: numbers rise with time."""
    by_time = AuditEntry.objects.order_by("at").values_list("sequence", flat=True)
    bounds = {"sequence__lt": before, "sequence__gt": after}
    if wanted.since is not None:
        bounds["sequence__gte"] = by_time.filter(at__gte=wanted.since - SLACK).first()
    if wanted.until is not None:
        bounds["sequence__lte"] = by_time.filter(at__gte=wanted.until + SLACK).first()
    return Q(**{name: number for name, number in bounds.items() if number is not None})
