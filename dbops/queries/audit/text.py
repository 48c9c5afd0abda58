"""Looking for a part of a text in the audit log."""

import re
from collections.abc import Iterator
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.lookups import Contains

from dbops.engine.audit.search_index import block_of, ranges_that_may_have, wanted_bits
from dbops.models import AuditBlock, AuditEntry, AuditText

#: Texts are gone through in steps that grow: a frequent word is found in the first; of a rare one the last reads signatures.
FIRST_STEP, GROWTH = 5_000, 20
#: Stretches that one query asks for; databases bound how many conditions a query may have.
MOST_RANGES = 100

Range = tuple[int, int]


class Part(Contains):
    """A part of a text, both in lower case already. SQLite's ``GLOB`` compares as it is, and takes a fifth less than its ``LIKE``
    (measured: 0.27 s against 0.33 s for a million entries).
    """

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        place, parameters = self.process_lhs(compiler, connection)
        pattern = re.sub(r"[*?[]", r"[\g<0>]", str(self.rhs))
        return f"{place} GLOB %s", [*parameters, f"*{pattern}*"]


def containing(rows: QuerySet[AuditEntry], text: str, limit: int, *, is_upward: bool, is_plain: bool) -> list[int]:
    """Return the numbers of the first of these entries whose text has this part, in the direction that is asked for.

    Args:
        is_plain: ``rows`` leaves out no entry, so that the narrow table of texts alone need be read.
    """
    order = "sequence" if is_upward else "-sequence"
    numbers = rows.order_by("sequence").values_list("sequence", flat=True)
    low, high = numbers.first(), numbers.last()
    if low is None or high is None:
        return []
    part = text.casefold()
    found: list[int] = []
    for ranges in _places(low, high, wanted_bits(part), is_upward=is_upward):
        there = Q()
        for bounds in ranges:
            there |= Q(sequence__range=bounds)
        texts = AuditText.objects.filter(there, Part(F("text"), part)).values_list("sequence", flat=True)
        if is_plain:
            found += texts.order_by(order)[: limit - len(found)]
        else:
            matches = rows.filter(sequence__in=texts).order_by(order).values_list("sequence", flat=True)
            found += matches[: limit - len(found)]
        if len(found) >= limit:
            break
    return found


def _places(low: int, high: int, wanted: int, *, is_upward: bool) -> Iterator[list[Range]]:
    """Give stretches of the log in which the text may stand, the nearest first."""
    step = FIRST_STEP
    while low <= high:
        first, last = (low, min(high, low + step - 1)) if is_upward else (max(low, high - step + 1), high)
        ranges = _narrowed(first, last, wanted)
        if not is_upward:
            ranges.reverse()
        for start in range(0, len(ranges), MOST_RANGES):
            yield ranges[start : start + MOST_RANGES]
        low, high = (last + 1, high) if is_upward else (low, first - 1)
        step *= GROWTH


def _narrowed(low: int, high: int, wanted: int) -> list[Range]:
    if not wanted:
        return [(low, high)]
    blocks = AuditBlock.objects.filter(number__range=(block_of(low), block_of(high)))
    signatures = {number: bytes(signature) for number, signature in blocks.values_list("number", "signature")}
    return ranges_that_may_have(low, high, signatures, wanted)
