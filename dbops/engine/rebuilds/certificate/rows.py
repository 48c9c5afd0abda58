"""Checksums of rows: the same statement on both servers, each in a snapshot of one common position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.openable import Table

#: Tables of one statement.
BATCH = 50
#: One range: so many rows, fewer where rows are long. A statement has to end within seconds.
RANGE_ROWS, FEWEST_ROWS, RANGE_BYTES = 20_000, 100, 64 * 1024**2
#: How a column's value becomes bytes that both servers write alike. The rest (``float``, ``geometry`` and others) is not compared.
LONG = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob")
PLAIN = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "date", "time", "datetime", "timestamp"),
    *("char", "varchar", "binary", "varbinary", "enum", "set", "inet4", "inet6", "uuid"),
)
#: Types whose index has the order in which a value is compared with a text of it: an ``enum`` is sorted by number, compared by text.
ORDERED = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "date", "datetime", "timestamp"),
    *("char", "varchar", "binary", "varbinary", "inet4", "inet6", "uuid"),
)
#: Character sets whose texts come back unchanged from the connection's. Empty: no text.
CHARSETS = ("", "ascii", "binary", "latin1", "utf8", "utf8mb3", "utf8mb4")
#: How columns are marked that follow from others. ``DEFAULT_GENERATED`` is none.
FOLLOWS = ("VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT GENERATED")
PRIMARY = "PRIMARY"
_FOLLOWS = " + ".join(f"LOCATE('{mark}', EXTRA)" for mark in FOLLOWS)
#: One row for each table: its columns as texts of five words.
COLUMNS = (
    "SELECT TABLE_NAME AS n, GROUP_CONCAT(CONCAT_WS(':', HEX(COLUMN_NAME), DATA_TYPE, COALESCE(CHARACTER_SET_NAME, ''),"  # noqa: S608
    f" IS_NULLABLE, {_FOLLOWS} > 0) ORDER BY ORDINAL_POSITION SEPARATOR ',') AS c"
    " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s{one} GROUP BY CAST(TABLE_NAME AS BINARY)"
)
KEYS = (
    "SELECT TABLE_NAME AS n, INDEX_NAME AS i, COLUMN_NAME AS name, SUB_PART AS prefix FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
LENGTH = "SELECT AVG_ROW_LENGTH AS bytes FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
#: The same text of times on both servers, and time for the slower of both.
SESSION = (
    *(
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION wait_timeout = 120",
        "SET SESSION group_concat_max_len = 4194304",
    ),
    "SET SESSION sql_mode = ''",
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A table with its checksum.

    Args:
        key: the columns of a unique index by which its rows are divided; empty without a usable one.
        by_primary: that index is the primary key.
        left_out: the columns that are not part of the checksum.
        range_rows: rows of one range.
    """

    table: Table
    checksum: str
    key: tuple[str, ...] = ()
    by_primary: bool = False
    left_out: tuple[str, ...] = ()
    range_rows: int = RANGE_ROWS


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """``kind``: its type without length. ``follows``: its values follow from others."""

    name: str
    kind: str
    charset: str
    is_nullable: bool
    follows: bool


def describe(database: Database, schema: str) -> dict[str, str]:
    """Return the columns of each table of a schema, as a text for ``compared``, by its name. One statement.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``.
    """
    return {str(row["n"]): _text(row["c"]) for row in database.query(COLUMNS.format(one=""), (schema,))}


def describe_one(database: Database, table: Table) -> Compared | None:
    """Return a table with the key that divides its rows; ``None`` if it is gone. Raises as ``Database.query``."""
    parameters = (table.schema, table.name)
    found = database.query(COLUMNS.format(one=" AND TABLE_NAME = %s"), parameters)
    columns = next((_text(row["c"]) for row in found if str(row["n"]) == table.name), None)
    if columns is None:
        return None
    indexes: dict[str, list[Mapping[str, Any]]] = {}
    for row in database.query(KEYS, parameters):
        if str(row["n"]) == table.name:
            indexes.setdefault(str(row["i"]), []).append(row)
    rows = database.query(LENGTH, parameters)
    length = int(rows[0]["bytes"] or 0) if rows else 0
    return replace(compared(table, columns, indexes), range_rows=_rows_of_a_range(length))


def _rows_of_a_range(row_bytes: int) -> int:
    return max(FEWEST_ROWS, min(RANGE_ROWS, RANGE_BYTES // max(1, row_bytes)))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _column(text: str) -> ComparedColumn:
    name, kind, charset, nullable, follows = text.split(":")
    return ComparedColumn(bytes.fromhex(name).decode(), kind.lower(), charset, nullable != "NO", follows == "1")


def _key(
    columns: Sequence[ComparedColumn], indexes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[tuple[str, ...], bool]:
    """Return the columns of the best index to divide rows by, and whether it is the primary key."""
    ordered = {one.name for one in columns if not one.is_nullable and one.kind in ORDERED and one.charset in CHARSETS}
    usable = {
        name: tuple(str(row["name"]) for row in rows)
        for name, rows in indexes.items()
        if all(row["prefix"] is None and row["name"] in ordered for row in rows)
    }
    if not usable:
        return (), False
    best = min(usable, key=lambda name: (name != PRIMARY, len(usable[name]), name))
    return usable[best], best == PRIMARY


def compared(table: Table, text: str, indexes: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> Compared:
    """Return a table with its checksum.

    Args:
        text: its columns, of ``describe``.
        indexes: rows of its unique indexes, to divide its rows.
    """
    columns = [_column(one) for one in text.split(",")]
    values, nulls, left_out = [], [], []
    for one in columns:
        name = sql_name(one.name)
        if one.follows:
            continue
        if one.kind in LONG:
            values.append(f"CRC32({name})")
        elif one.kind == "json":
            values.append(f"CRC32(CAST({name} AS CHAR))")
        elif one.kind == "bit":
            values.append(f"{name} + 0")
        elif one.kind in PLAIN:
            values.append(f"CAST({name} AS BINARY)")
        else:
            left_out.append(f"{one.name} ({one.kind})")
            continue
        nulls.append(f"ISNULL({name})")
    row_text = f"CRC32(CONCAT_WS('#', {', '.join([*values, *nulls])}))" if values else "0"
    checksum = f"COUNT(*) AS n, COALESCE(BIT_XOR({row_text}), 0) AS x, COALESCE(SUM({row_text}), 0) AS t"
    key, by_primary = _key(columns, indexes or {})
    return Compared(table, checksum, key, by_primary, tuple(left_out))


def whole(tables: Sequence[Compared]) -> str:
    """Return one statement with a row for each table; column ``i`` is its index."""
    return " UNION ALL ".join(
        f"SELECT {number} AS i, {one.checksum} FROM {one.table.sql}"  # noqa: S608 - names are quoted
        for number, one in enumerate(tables)
    )


def sums(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return int(row["n"]), int(row["x"]), int(row["t"])
