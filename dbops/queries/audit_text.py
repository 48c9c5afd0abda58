"""Looking for a part of a text in the audit log."""

import re
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.lookups import Contains

from dbops.models import AuditEntry, AuditText

#: Texts are gone through in steps that grow: a frequent word is found in the first, a rare one costs one scan.
FIRST_STEP, GROWTH = 5_000, 20


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
    bounds = list(rows.order_by(order).values_list("sequence", flat=True)[:1])
    found: list[int] = []
    step = FIRST_STEP
    place = bounds[0] if bounds else None
    last = rows.order_by(order.removeprefix("-") if not is_upward else "-sequence").values_list("sequence", flat=True)
    end = last.first() if bounds else None
    while place is not None and end is not None and len(found) < limit:
        low, high = (place, place + step - 1) if is_upward else (place - step + 1, place)
        texts = AuditText.objects.filter(Part(F("text"), text.casefold()), sequence__gte=low, sequence__lte=high)
        numbers = texts.order_by(order).values_list("sequence", flat=True)
        if is_plain:
            found += numbers[: limit - len(found)]
        else:
            matches = rows.filter(sequence__in=numbers.order_by()).order_by(order).values_list("sequence", flat=True)
            found += matches[: limit - len(found)]
        place = high + 1 if is_upward else low - 1
        if (place > end) if is_upward else (place < end):
            break
        step *= GROWTH
    return found
