"""Read the most frequent statements of a schema over one connection. It changes nothing on the server.

The sums since the server's start are read, and not the difference of two readings: rare statements are in them, and the proportions of
weeks and not of seconds.
"""

from typing import Any

from dbops.drivers.waits import DENIED, TOO_LONG
from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Flavor
from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.engine.load_tests.digest_text import name_of, tokens_of, without_schema
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database

#: The server ends one of the statements after this time.
STATEMENT_SECONDS = 10
MOST_DIGESTS, MOST_SCHEMAS, MOST_COLUMNS = 200, 10_000, 20_000
OPERATION = phrase("Reading top statements")
_INTEGERS = {"tinyint": 2**7, "smallint": 2**15, "mediumint": 2**23, "int": 2**31, "bigint": 2**63}
_NUMBERS = frozenset({*_INTEGERS, "decimal", "float", "double", "year"})
_BYTES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "binary", "varbinary"})
_BYTES |= {"tinyblob", "blob", "mediumblob", "longblob", "enum", "set"}
_TEXTS = frozenset({"date", "datetime", "timestamp", "time", "json", "uuid", "inet4", "inet6"})

_STATE = """SELECT @@performance_schema AS is_on, @@max_digest_length AS sent, @@performance_schema_max_digest_length AS kept,
    @@lower_case_table_names AS folds"""
_SISTERS = """SELECT TABLE_SCHEMA AS name, COUNT(*) AS number, SUM(CRC32(TABLE_NAME)) AS names FROM information_schema.TABLES
    GROUP BY TABLE_SCHEMA"""
_COLUMNS = """SELECT TABLE_NAME AS table_name, COLUMN_NAME AS column_name, DATA_TYPE AS data_type, COLUMN_TYPE AS column_type,
    CHARACTER_MAXIMUM_LENGTH AS characters, NUMERIC_PRECISION AS digits, NUMERIC_SCALE AS scale, EXTRA AS extra
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME, ORDINAL_POSITION LIMIT %s"""
_UNIQUE = """SELECT TABLE_NAME AS table_name, COLUMN_NAME AS column_name FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = %s AND NON_UNIQUE = 0"""
_LOST = """SELECT COALESCE(SUM(COUNT_STAR), 0) AS lost FROM performance_schema.events_statements_summary_by_digest
    WHERE DIGEST IS NULL"""
_TOTAL = """SELECT COALESCE(SUM(COUNT_STAR), 0) AS total, MIN(FIRST_SEEN) AS since
    FROM performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME IN ({})"""
_TOP = """SELECT MIN(SCHEMA_NAME) AS schema_name, MIN(DIGEST_TEXT) AS digest_text, SUM(COUNT_STAR) AS runs,
    SUM(SUM_ROWS_AFFECTED) AS changed FROM performance_schema.events_statements_summary_by_digest
    WHERE SCHEMA_NAME IN ({}) AND DIGEST IS NOT NULL GROUP BY DIGEST ORDER BY runs DESC LIMIT %s"""


def read_digests(database: Database, flavor: Flavor, schema: str) -> SourceDigests:
    """Return the most frequent statements of a schema and its sister schemas since the server's start.

    Raises:
        RemoteFailure: ``performance_schema`` is off (``digests.off``), the account may not read it (``digests.denied``), it took too
            long (``digests.too_long``), or the schema has no tables (``digests.no_schema``).
        Unreachable: there is no connection.
    """
    is_mariadb = flavor.name == "mariadb"
    limit = "max_statement_time" if is_mariadb else "max_execution_time"
    database.execute(f"SET SESSION {limit} = {STATEMENT_SECONDS if is_mariadb else STATEMENT_SECONDS * 1000}")
    try:
        return _read(database, schema)
    except RemoteFailure as error:
        if error.cause.startswith(DENIED):
            raise RemoteFailure("digests.denied", OPERATION, cause=error.cause) from None
        if error.cause.startswith(TOO_LONG):
            raise RemoteFailure("digests.too_long", OPERATION, cause=error.cause) from None
        raise


def _read(database: Database, schema: str) -> SourceDigests:
    state = database.query(_STATE)[0]
    if not int(state["is_on"]):
        raise RemoteFailure("digests.off", OPERATION, cause=phrase("performance_schema is off on this server"))
    sisters = _sisters(database, schema)
    schemas = tuple(one.lower() for one in sisters) if int(state["folds"]) else sisters
    marks = ", ".join(["%s"] * len(schemas))
    found = database.query(_TOTAL.format(marks), schemas)[0]
    digests = _merged(database.query(_TOP.format(marks), (*schemas, MOST_DIGESTS)))
    return SourceDigests(
        schema=schema,
        schemas=len(schemas),
        since=str(found["since"] or "")[:19],
        total=int(found["total"]),
        lost=int(database.query(_LOST)[0]["lost"]),
        digest_bytes=min(int(state["sent"]), int(state["kept"])),
        digests=digests,
        tables=_tables(database, schema, digests),
    )


def _sisters(database: Database, schema: str) -> tuple[str, ...]:
    """Return the schema and those with the same number of tables, whose names have the same checksum."""
    rows = database.query(_SISTERS)
    own = next((row for row in rows if row["name"] == schema), None)
    if own is None:
        raise RemoteFailure(
            "digests.no_schema", OPERATION, cause=phrase("there is no schema {schema} with tables", schema=repr(schema))
        )
    same = [str(row["name"]) for row in rows if (row["number"], row["names"]) == (own["number"], own["names"])]
    return (schema, *(one for one in same if one != schema))[:MOST_SCHEMAS]


def _merged(rows: list[dict[str, Any]]) -> tuple[Digest, ...]:
    """Return the digests without the names of their schemas, so that those of sister schemas are one."""
    found: dict[str, Digest] = {}
    for row in rows:
        text = " ".join(without_schema(tokens_of(str(row["digest_text"] or "")), str(row["schema_name"])))
        known = found.get(text, Digest(text, 0))
        found[text] = Digest(text, known.count + int(row["runs"]), known.rows_affected + int(row["changed"] or 0))
    return tuple(sorted(found.values(), key=lambda one: -one.count))


def _tables(database: Database, schema: str, digests: tuple[Digest, ...]) -> tuple[TableColumns, ...]:
    """Return the tables whose names are in a digest."""
    names = {name_of(token) for one in digests for token in tokens_of(one.text)}
    unique = {(row["table_name"], row["column_name"]) for row in database.query(_UNIQUE, (schema,))}
    tables: dict[str, list[Column]] = {}
    for row in database.query(_COLUMNS, (schema, MOST_COLUMNS)):
        table, column = str(row["table_name"]), str(row["column_name"])
        if table.lower() in names:
            tables.setdefault(table, []).append(_column(row, is_unique=(table, column) in unique))
    return tuple(TableColumns(name, tuple(columns)) for name, columns in tables.items())


def _column(row: dict[str, Any], *, is_unique: bool) -> Column:
    kind, extra = str(row["data_type"]).lower(), str(row["extra"]).lower()
    known = next((one for one, kinds in _KINDS if kind in kinds), ColumnKind.OTHER)
    can_be_new = known in (ColumnKind.NUMBER, ColumnKind.BYTES) and kind not in ("enum", "set", "year")
    return Column(
        str(row["column_name"]),
        known,
        _most(kind, row),
        is_unique and can_be_new,
        "auto_increment" in extra,
        any(word in extra for word in ("virtual generated", "stored generated", "persistent")),
    )


_KINDS = ((ColumnKind.NUMBER, _NUMBERS), (ColumnKind.BYTES, _BYTES), (ColumnKind.TEXT, _TEXTS))


def _most(kind: str, row: dict[str, Any]) -> int:
    if kind in _INTEGERS:
        return _INTEGERS[kind] - 1
    if kind == "decimal":
        return int(10 ** (int(row["digits"]) - int(row["scale"] or 0)) - 1)
    return int(row["characters"] or 0) if kind in _BYTES else 0
