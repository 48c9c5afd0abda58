"""Ranges of large tables by a whole unique key: ``(tenant, id)`` divides a table of few tenants into ranges of equal size.

Bounds are rows of key values. ``a > 3 OR (a = 3 AND b > 7)`` is written out, since servers use an index for it and not for
``(a, b) > (3, 7)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.rows import Compared

#: Key values, a prefix of the key's columns.
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Rows between two key values; ``None``: without that end. ``after`` is not part of it, ``until`` and ``from_`` are."""

    after: Row | None = None
    until: Row | None = None
    from_: Row | None = None


def ranged(one: Compared, part: Range) -> tuple[str, Row]:
    """Return the statement for a range with its parameters."""
    where, parameters = _where(one, part)
    return _escaped(f"SELECT {one.checksum} FROM {_indexed(one)}", parameters) + where, parameters  # noqa: S608


def next_range(database: Database, one: Compared, after: Row | None) -> Range:
    """Return the range of ``range_rows`` rows after a key value; without an end if there are fewer. Raises as ``Database.query``."""
    return Range(after=after, until=_key_at(database, one, Range(after=after), offset=one.range_rows))


def samples(database: Database, one: Compared, fraction: float) -> list[Range]:
    """Return the first range, the last, and one that begins in the middle: ``fraction`` chooses where. Raises as ``Database.query``."""
    first = next_range(database, one, None)
    if first.until is None:
        return [first]
    found = [first, Range(from_=_key_at(database, one, Range(), order="DESC", offset=one.range_rows))]
    if middle := _middle(database, one, fraction):
        found.append(Range(from_=middle, until=_key_at(database, one, Range(from_=middle), offset=one.range_rows)))
    return found


def _middle(database: Database, one: Compared, fraction: float) -> Row:
    """Return a key value: in each column, the part ``fraction`` of the way through the numbers there; as many columns as are numbers."""
    chosen: Row = ()
    for _ in one.key:
        ends = [_next_value(database, one, chosen, order=order) for order in ("ASC", "DESC")]
        if not all(isinstance(end, int) for end in ends):
            break
        start = ends[0] + int((ends[1] - ends[0]) * fraction)
        chosen = (*chosen, _next_value(database, one, chosen, start=start))
    return chosen


def _next_value(database: Database, one: Compared, prefix: Row, *, start: Any = None, order: str = "ASC") -> Any:
    """Return the first value of the column after ``prefix``, among the rows that have it."""
    conditions = [f"{_name(name)} = %s" for name in one.key[: len(prefix)]]
    key = one.key[len(prefix)]
    parameters = prefix
    if start is not None:
        conditions, parameters = [*conditions, f"{_name(key)} >= %s"], (*prefix, start)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = ", ".join(f"{sql_name(name)} {order}" for name in one.key[: len(prefix) + 1])
    text = (
        _escaped(f"SELECT {sql_name(key)} AS k FROM {_indexed(one)}", parameters)  # noqa: S608 - names are quoted
        + where
        + _escaped(f" ORDER BY {columns} LIMIT 1", parameters)
    )
    return database.query(text, parameters)[0]["k"]


def _key_at(database: Database, one: Compared, part: Range, *, order: str = "ASC", offset: int) -> Row | None:
    """Return the key of a row by its number in a range, ``None`` if it has fewer."""
    where, parameters = _where(one, part)
    columns = ", ".join(f"{sql_name(name)} AS k{number}" for number, name in enumerate(one.key))
    ordered = ", ".join(f"{sql_name(name)} {order}" for name in one.key)
    text = (
        _escaped(f"SELECT {columns} FROM {_indexed(one)}", parameters)  # noqa: S608 - names are quoted
        + where
        + _escaped(f" ORDER BY {ordered} LIMIT 1 OFFSET {offset}", parameters)
    )
    rows = database.query(text, parameters)
    return tuple(rows[0][f"k{number}"] for number in range(len(one.key))) if rows else None


def _indexed(one: Compared) -> str:
    """Return the table, by its primary key: another index can be smaller, and would have to be sorted."""
    return f"{one.table.sql} FORCE INDEX (PRIMARY)" if one.by_primary else one.table.sql


def _where(one: Compared, part: Range) -> tuple[str, Row]:
    texts, parameters = [], list[Any]()
    for values, strict, inclusive in ((part.after, ">", ">"), (part.from_, ">", ">="), (part.until, "<", "<=")):
        if values is not None:
            text, more = _bound(one.key, values, strict, inclusive)
            texts.append(text)
            parameters += more
    return (f" WHERE {' AND '.join(texts)}" if texts else ""), tuple(parameters)


def _bound(key: Sequence[str], values: Row, strict: str, last: str) -> tuple[str, list[Any]]:
    """Return the condition for keys beyond some values, with its parameters: ``last`` compares the last of them."""
    name, value = _name(key[0]), values[0]
    if len(values) == 1:
        return f"{name} {last} %s", [value]
    text, more = _bound(key[1:], values[1:], strict, last)
    return f"({name} {strict} %s OR ({name} = %s AND {text}))", [value, value, *more]


def _name(name: str) -> str:
    return sql_name(name).replace("%", "%%")


def _escaped(text: str, parameters: Row) -> str:
    """Return a text whose % are no placeholders; without parameters it is sent as it is."""
    return text.replace("%", "%%") if parameters else text
