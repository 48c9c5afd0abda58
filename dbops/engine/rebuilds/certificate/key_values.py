"""Key values of a range as plain data, so that the next driver continues where the last one stopped."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dbops.engine.rebuilds.certificate.ranges import Range, Row
from dbops.engine.rebuilds.certificate.rows import Compared


def bounds_of(part: Range) -> list[Any]:
    return [encoded(row) for row in (part.after, part.until, part.from_)]


def range_of(bounds: Sequence[Any]) -> Range:
    return Range(*map(decoded, bounds))


def encoded(row: Row | None) -> list[Any] | None:
    return None if row is None else [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    """Return a value of a key as plain data. The servers read dates in text; a decimal number in text would be compared inexactly."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, (datetime, date)):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return value if isinstance(value, (int, str)) else str(value)


def decoded(row: Any) -> Row | None:
    """Return a row of key values; a single value is the first column's."""
    if row is None:
        return None
    values = row if isinstance(row, list) else [row]
    return tuple(_value(value) if isinstance(value, dict) else value for value in values)


def _value(plain: dict[str, str]) -> bytes | Decimal:
    return Decimal(plain["decimal"]) if "decimal" in plain else bytes.fromhex(plain["hex"])


def shown_range(one: Compared, part: Range, number: int) -> str:
    """Return a range in words for a person. Texts and other values of keys can be secret: then it is shown by its number.

    Args:
        number: of the range in the order of the key, from 1.
    """
    columns = ", ".join(one.key)
    bounds = [(word, row) for word, row in (("after", part.after), ("up to", part.until)) if row is not None]
    if all(isinstance(value, int) for _, row in bounds for value in row):
        text = " ".join(f"{word} {', '.join(map(str, row))}" for word, row in bounds)
        return f"{columns} {text}" if text else "all rows"
    return f"range {number} of {one.range_rows} rows each, in the order of {columns}"
