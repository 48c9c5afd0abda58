"""Checksums of rows: the same statement on both servers, each in a snapshot of one common position."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.openable import Table

#: Engines with snapshots: rows of others change while they are read.
TRANSACTIONAL = ("INNODB", "ROCKSDB", "TOKUDB", "XTRADB")
#: Larger tables are compared by ranges.
LARGE_BYTES = 16 * 1024**2
#: Rows of one range.
RANGE_ROWS = 20_000
#: Tables of one statement.
BATCH = 50
#: How a column's value becomes bytes that both servers write alike. The rest (``float``, ``geometry`` and others) is not compared.
LONG = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob")
PLAIN = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "date", "time", "datetime", "timestamp"),
    *("char", "varchar", "binary", "varbinary", "enum", "set", "inet4", "inet6", "uuid"),
)
NAMES = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, ENGINE AS engine, DATA_LENGTH AS bytes FROM information_schema.TABLES"
    " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_NAME NOT LIKE '#sql%'"
    " AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'ndbinfo', 'performance_schema', 'sys')"
)
COLUMNS = (
    "SELECT TABLE_NAME AS n, COLUMN_NAME AS name, DATA_TYPE AS type, EXTRA AS extra, COLUMN_KEY AS col_key"
    " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME, ORDINAL_POSITION"
)
KEYS = (
    "SELECT TABLE_NAME AS n, COLUMN_NAME AS name FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = %s AND INDEX_NAME = 'PRIMARY' AND SEQ_IN_INDEX = 1"
)
#: The same text of times on both servers, and time for the slower of both.
SESSION = ("SET SESSION time_zone = '+00:00'", "SET SESSION wait_timeout = 120")


@dataclass(frozen=True, slots=True)
class Compared:
    """A table with its checksum. ``key``: the first column of the primary key; empty without one. ``left_out``: its other columns."""

    table: Table
    checksum: str
    key: str
    left_out: tuple[str, ...]


def sized(database: Database) -> tuple[dict[Table, int], list[Table]]:
    """Return the size in bytes of each table that can be compared, and the tables of other engines. Raises as ``Database.query``."""
    sizes: dict[Table, int] = {}
    others = []
    for row in database.query(NAMES):
        table = Table(str(row["s"]), str(row["n"]), str(row["engine"] or "").upper())
        if table.engine in TRANSACTIONAL:
            sizes[table] = int(row["bytes"] or 0)
        else:
            others.append(table)
    return sizes, others


def describe(database: Database, schema: str) -> dict[str, Compared]:
    """Return the tables of a schema by name, in two statements. Raises as ``Database.query``."""
    columns: dict[str, list[Mapping[str, Any]]] = {}
    for row in database.query(COLUMNS, (schema,)):
        columns.setdefault(str(row["n"]), []).append(row)
    keys = {str(row["n"]): str(row["name"]) for row in database.query(KEYS, (schema,))}
    return {name: _compared(Table(schema, name), found, keys.get(name, "")) for name, found in columns.items()}


def _compared(table: Table, columns: Iterable[Mapping[str, Any]], key: str) -> Compared:
    values, nulls, left_out = [], [], []
    for row in columns:
        name, kind = sql_name(str(row["name"])), str(row["type"]).lower()
        if "GENERATED" in str(row["extra"]).upper():
            continue  # follows from the others
        if kind in LONG:
            values.append(f"CRC32({name})")
        elif kind == "json":
            values.append(f"CRC32(CAST({name} AS CHAR))")
        elif kind == "bit":
            values.append(f"{name} + 0")
        elif kind in PLAIN:
            values.append(f"CAST({name} AS BINARY)")
        else:
            left_out.append(f"{row['name']} ({kind})")
            continue
        nulls.append(f"ISNULL({name})")
    row_text = f"CRC32(CONCAT_WS('#', {', '.join([*values, *nulls])}))" if values else "0"
    checksum = f"COUNT(*) AS n, COALESCE(BIT_XOR({row_text}), 0) AS x, COALESCE(SUM({row_text}), 0) AS t"
    return Compared(table, checksum, key, tuple(left_out))


def whole(tables: Sequence[Compared]) -> str:
    """Return one statement with a row for each table; column ``i`` is its index."""
    return " UNION ALL ".join(
        f"SELECT {number} AS i, {one.checksum} FROM {one.table.sql}"  # noqa: S608 - names are quoted
        for number, one in enumerate(tables)
    )


@dataclass(frozen=True, slots=True)
class Range:
    """Rows by the first column of the primary key; ``None``: without that end. ``after`` is not part of it, ``until`` is."""

    after: Any = None
    until: Any = None
    from_: Any = None


def ranged(one: Compared, part: Range) -> tuple[str, tuple[Any, ...]]:
    """Return the statement for a range with its parameters."""
    key = sql_name(one.key).replace("%", "%%")
    bounds = [(f"{key} > %s", part.after), (f"{key} >= %s", part.from_), (f"{key} <= %s", part.until)]
    known = [(text, value) for text, value in bounds if value is not None]
    where = f" WHERE {' AND '.join(text for text, _ in known)}" if known else ""
    checksum = one.checksum.replace("%", "%%") if known else one.checksum
    table = one.table.sql.replace("%", "%%") if known else one.table.sql
    return f"SELECT {checksum} FROM {table}{where}", tuple(value for _, value in known)  # noqa: S608 - names are quoted


def next_range(database: Database, one: Compared, after: Any) -> Range:
    """Return the range of ``RANGE_ROWS`` rows after a value; without an end if there are fewer. Raises as ``Database.query``."""
    key, table = sql_name(one.key).replace("%", "%%"), one.table.sql.replace("%", "%%")
    where, parameters = ("", ()) if after is None else (f" WHERE {key} > %s", (after,))
    if not parameters:
        key, table = sql_name(one.key), one.table.sql
    sql = f"SELECT {key} AS k FROM {table}{where} ORDER BY {key} LIMIT 1 OFFSET {RANGE_ROWS}"  # noqa: S608 - names are quoted
    rows = database.query(sql, parameters)
    return Range(after=after, until=rows[0]["k"] if rows else None)


def samples(database: Database, one: Compared, fraction: float) -> list[Range]:
    """Return the first range, the last, and one from the middle where the key is a number: ``fraction`` chooses its begin."""
    key, table = sql_name(one.key), one.table.sql
    first = next_range(database, one, None)
    if first.until is None:
        return [first]
    sql = f"SELECT {key} AS k FROM {table} ORDER BY {key} DESC LIMIT 1 OFFSET {RANGE_ROWS}"  # noqa: S608 - names are quoted
    begin = database.query(sql)[0]["k"]
    found = [first, Range(from_=begin)]
    if isinstance(first.until, int) and isinstance(begin, int) and begin > first.until:
        start = first.until + int((begin - first.until) * fraction)
        middle = next_range(database, one, start)
        found.append(middle if middle.until is not None else Range(after=start))
    return found


def sums(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return int(row["n"]), int(row["x"]), int(row["t"])
