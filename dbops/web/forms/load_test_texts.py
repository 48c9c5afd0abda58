"""The long texts of a new load test: statements, and the table for inserts."""

import json
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from dbops.engine.load_tests.request import MOST_STATEMENTS

#: Statements with a count are repeated in proportion, up to this many.
STATEMENTS_WANTED = 10_000
#: Most characters of all statements, repeated.
MOST_CHARACTERS = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class LongTexts:
    """What is too long for a URL: the statements of rotating schemas, and the table for inserts."""

    statements: tuple[str, ...] = ()
    table_ddl: str = ""

    def __bool__(self) -> bool:
        return bool(self.statements or self.table_ddl)


def read_statements(text: str) -> tuple[str, ...]:
    """Read statements: one on each line, or JSON Lines of strings or of objects with ``statement`` and ``count``.

    Raises:
        ValidationError: a line cannot be read.
    """
    found: list[tuple[str, int]] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line:
            found.append(_json_statement(line, number) if line[0] in '{"' else (line, 1))
    if len(found) > MOST_STATEMENTS:
        raise ValidationError(_("Enter at most %(number)s statements.") % {"number": f"{MOST_STATEMENTS:,}"})
    total = sum(count for _, count in found)
    if total == len(found):
        return tuple(statement for statement, _ in found)
    share = min(1.0, STATEMENTS_WANTED / total)
    repeated = [(statement, max(1, round(count * share))) for statement, count in found]
    if sum(len(statement) * count for statement, count in repeated) > MOST_CHARACTERS:
        raise ValidationError(_("The statements are too long to repeat them by their counts."))
    return tuple(statement for statement, count in repeated for _ in range(count))


def _json_statement(line: str, number: int) -> tuple[str, int]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValidationError(_("Line %(number)s is not JSON.") % {"number": number}) from error
    if isinstance(value, str):
        return value, 1
    statement, count = value.get("statement"), value.get("count", 1)
    if not isinstance(statement, str) or not isinstance(count, int) or not 1 <= count <= 10**12:
        raise ValidationError(
            _("Line %(number)s needs a text “statement” and a whole number “count”.") % {"number": number}
        )
    return statement, count
