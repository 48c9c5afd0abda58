"""What the audit log shows: filters, pages, one entry, its whole length for exports and verification.

A part of a name (``ol`` for ``olga``) is first looked up among the names that the column has had (``AuditName``). What is asked of the log
itself is then whole values, which its indexes know. The time becomes a span of numbers: they rise together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.lookups import Contains

from dbops.engine.audit.entries import VIEWS
from dbops.models import AuditEntry, AuditName, AuditSegment
from dbops.queries.audit.text import containing

ENTRIES_ON_A_PAGE = 50
#: So many values are asked for one by one, each by its index; of more, entries are dense enough to be met on the way.
FEW = 20
#: How far a clock may have stepped back.
SLACK = timedelta(days=1)
BATCH = 2000


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What a reader looks for. Empty means all.

    Attributes:
        actor, subject, instance, cluster: parts of names, upper and lower case alike.
        action: how it begins.
        text: a part of the reason, or of what the detail says (commands, for example).
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
        """Return what is asked for, in words."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value if isinstance(value, str) else value.isoformat() for name, value in values.items() if value}

    def __bool__(self) -> bool:
        return bool(self.as_record())


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page, newest first, and the numbers from which the pages beside it go on (``None``: there is none)."""

    entries: list[AuditEntry]
    older_before: int | None
    newer_after: int | None


def entries(wanted: AuditFilter, *, before: int | None = None, after: int | None = None) -> AuditPage:
    """Return one page of the log, newest first: the newest, or what is older or newer than an entry.

    Args:
        before: only entries with lower numbers.
        after: the entries next above this number; ignored with ``before``.
    """
    is_upward = after is not None and before is None
    limit = ENTRIES_ON_A_PAGE + 1
    numbers = _numbers(wanted, limit, before=before, after=after if is_upward else None, is_upward=is_upward)
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
    """Give every entry of a filter, oldest first, in batches: a log may be large."""
    after = 0
    while numbers := _numbers(wanted, BATCH, before=None, after=after, is_upward=True):
        yield from AuditEntry.objects.filter(sequence__in=numbers).order_by("sequence")
        after = numbers[-1]


def where_it_went(sequence: int) -> str:
    """Return in words which file has an entry that was put away; ``""`` for one that was not."""
    segment = AuditSegment.objects.filter(first__lte=sequence, last__gte=sequence).first()
    return f"Entry {sequence} was put away on {segment.at:%Y-%m-%d}, into {segment.file_name}." if segment else ""


def stored() -> Iterator[AuditEntry]:
    """Give every row as it is stored, for a verification: by number, then by age."""
    last = (-(2**63), 0)
    while True:
        beyond = Q(sequence__gt=last[0]) | Q(sequence=last[0], pk__gt=last[1])
        rows = list(AuditEntry.objects.filter(beyond, sequence__gte=last[0]).order_by("sequence", "pk")[:BATCH])
        if not rows:
            return
        yield from rows
        last = (rows[-1].sequence, rows[-1].pk)


def _numbers(wanted: AuditFilter, limit: int, *, before: int | None, after: int | None, is_upward: bool) -> list[int]:
    """Return the numbers of the first entries of a filter, in the direction that is asked for."""
    values = _values(wanted)
    if values is None:
        return []
    rows = AuditEntry.objects.all()
    rows = rows.filter(sequence__lt=before) if before is not None else rows
    rows = rows.filter(sequence__gt=after) if after is not None else rows
    rows = _in_time(rows, wanted)
    order = "sequence" if is_upward else "-sequence"
    if wanted.text:
        chosen = rows.filter(**{f"{column}__in": names for column, names in values.items()})
        is_plain = not (values or wanted.since or wanted.until)
        return containing(chosen, wanted.text, limit, is_upward=is_upward, is_plain=is_plain)
    # The index of the column with the fewest values gives each value's entries in order; the others are compared.
    first = min(
        (column for column in values if len(values[column]) <= FEW), key=lambda name: len(values[name]), default=""
    )
    for column, names in values.items():
        rows = rows if column == first else rows.filter(**{f"{column}__in": names})
    ways = [rows.filter(**{first: name}) for name in values[first]] if first else [rows]
    found = {number for way in ways for number in way.order_by(order).values_list("sequence", flat=True)[:limit]}
    return sorted(found, reverse=not is_upward)[:limit]


def _values(wanted: AuditFilter) -> dict[str, list[str]] | None:
    """Return, by column, the values that are asked for; ``None`` where no entry can have them."""
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
    return found if all(found.values()) else None


def _in_time(rows: QuerySet[AuditEntry], wanted: AuditFilter) -> QuerySet[AuditEntry]:
    """Narrow entries to a span of time, and, for the sake of the indexes, to the numbers that it has."""
    by_time = AuditEntry.objects.order_by("at").values_list("sequence", flat=True)
    if wanted.since is not None:
        rows = rows.filter(at__gte=wanted.since)
        lowest = by_time.filter(at__gte=wanted.since - SLACK).first()
        rows = rows.filter(sequence__gte=lowest) if lowest is not None else rows
    if wanted.until is not None:
        rows = rows.filter(at__lt=wanted.until)
        highest = by_time.filter(at__gte=wanted.until + SLACK).first()
        rows = rows.filter(sequence__lte=highest) if highest is not None else rows
    return rows
