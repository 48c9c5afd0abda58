"""Columns and indexes of all tables: the server makes one digest for each table; the columns themselves are read where digests differ.

Two servers of one version write the same definition in the same words. Others can differ in words alone (``int(11)`` and ``int``,
``utf8`` and ``utf8mb3``), so between them only what all versions write alike is compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbops.engine.flavors.base import Flavor, Version
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.openable import Table

#: Schemas of the server itself. Their accounts are compared; the rest differs by nature.
OWN = ("information_schema", "mysql", "ndbinfo", "performance_schema", "sys")
USERS = "({})".format(", ".join(f"'{name}'" for name in OWN))
#: The same words on both servers, whatever their settings are.
SESSION = ("SET SESSION sql_mode = ''", "SET SESSION sql_quote_show_create = 1")
#: From this version on, a MySQL server can hide the keys that it made itself.
HIDES_KEYS = (8, 0, 30)
SHOW_KEYS = "SET SESSION show_gipk_in_create_table_and_information_schema = ON"
#: Without notes on how times are stored: a server writes them for tables that are older than its setting.
TYPE = "REPLACE(REPLACE(COLUMN_TYPE, ' /* mariadb-5.3 */', ''), ' /* mysql-5.6 */', '')"
#: MySQL 8.0 writes one type by another name than MariaDB and MySQL 5.7.
DATA_TYPE = "REPLACE(DATA_TYPE, 'geomcollection', 'geometrycollection')"
ALWAYS: Version = (0, 0, 0)
#: The longest value in a sentence.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class ComparedProperty:
    """One property: its name in a sentence, its expression, and the version from which on a flavor has it; ``None``: never."""

    name: str
    sql: str
    mariadb: Version | None = ALWAYS
    mysql: Version | None = ALWAYS

    def is_known_to(self, flavor: Flavor) -> bool:
        since = self.mariadb if flavor.name == "mariadb" else self.mysql
        return since is not None and flavor.version >= since


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """Columns or indexes. ``same``: properties that all versions write alike; ``exact``: those of servers of one version."""

    noun: str
    view: str
    name: str
    count: str
    same: tuple[ComparedProperty, ...]
    exact: tuple[ComparedProperty, ...]

    def parts(self, flavor: Flavor, *, exact: bool) -> tuple[ComparedProperty, ...]:
        return tuple(part for part in (*self.same, *(self.exact if exact else ())) if part.is_known_to(flavor))

    def statement(self, flavor: Flavor, *, exact: bool) -> str:
        """Return the statement for the digests of all tables. Names of tables can differ in case alone."""
        values = ", ".join(
            f"QUOTE({sql})" for sql in (self.name, *(one.sql for one in self.parts(flavor, exact=exact)))
        )
        one = f"CAST(CONV(LEFT(SHA2(CONCAT_WS('#', {values}), 256), 16), 16, 10) AS UNSIGNED)"
        return (
            f"SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, {self.count} AS c, COUNT(*) AS r, BIT_XOR({one}) AS x"  # noqa: S608
            f" FROM information_schema.{self.view} WHERE TABLE_SCHEMA NOT IN {USERS}"
            " GROUP BY CAST(TABLE_SCHEMA AS BINARY), CAST(TABLE_NAME AS BINARY) ORDER BY NULL"
        )

    def details(self, flavor: Flavor, *, exact: bool) -> str:
        """Return the statement for the columns or indexes of one table: its parameters are schema and name."""
        parts = self.parts(flavor, exact=exact)
        values = ", ".join(f"{part.sql} AS p{number}" for number, part in enumerate(parts))
        return (
            f"SELECT TABLE_NAME AS n, {self.name} AS name, {values} FROM information_schema.{self.view}"  # noqa: S608
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        )


POSITION = ComparedProperty("position", "ORDINAL_POSITION")
COLUMN = ObjectKind(
    noun="column",
    view="COLUMNS",
    name="COLUMN_NAME",
    count="COUNT(*)",
    same=(POSITION, ComparedProperty("nullability", "IS_NULLABLE"), ComparedProperty("type", DATA_TYPE)),
    exact=(
        ComparedProperty("full type", TYPE),
        ComparedProperty("default", "COLUMN_DEFAULT"),
        ComparedProperty("character set", "CHARACTER_SET_NAME"),
        ComparedProperty("collation", "COLLATION_NAME"),
        ComparedProperty("extra", "EXTRA"),
        ComparedProperty("expression", "GENERATION_EXPRESSION"),
        ComparedProperty("reference system", "SRS_ID", mariadb=None, mysql=(8, 0, 3)),
    ),
)
INDEX = ObjectKind(
    noun="index",
    view="STATISTICS",
    name="INDEX_NAME",
    count="COUNT(DISTINCT INDEX_NAME)",
    same=(
        ComparedProperty("place", "SEQ_IN_INDEX"),
        ComparedProperty("column", "COLUMN_NAME"),
        ComparedProperty("repeated values", "NON_UNIQUE"),
    ),
    exact=(
        ComparedProperty("prefix", "SUB_PART"),
        ComparedProperty("type", "INDEX_TYPE"),
        ComparedProperty("order", "COLLATION"),
        ComparedProperty("visible", "IS_VISIBLE", mariadb=None, mysql=(8, 0, 0)),
        ComparedProperty("ignored", "IGNORED", mariadb=(10, 6, 0), mysql=None),
        ComparedProperty("expression", "EXPRESSION", mariadb=None, mysql=(8, 0, 13)),
    ),
)
KINDS = (COLUMN, INDEX)


@dataclass(frozen=True, slots=True)
class SchemaDigests:
    """The digests of all tables (and views), and how many columns and indexes they have."""

    digests: Mapping[Table, str]
    counts: Mapping[str, int]


def prepare(database: Database, flavor: Flavor) -> None:
    """Let the session write definitions as the other server's does. Raises as ``Database.query``."""
    for statement in SESSION:
        database.execute(statement)
    if flavor.name == "mysql" and flavor.version >= HIDES_KEYS:
        database.execute(SHOW_KEYS)


def read_shape(database: Database, flavor: Flavor, *, exact: bool) -> SchemaDigests:
    """Read columns and indexes, in one statement each.

    Args:
        exact: the other server is of the same version.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``.
    """
    digests: dict[Table, str] = {}
    counts = {}
    for kind in KINDS:
        rows = database.query(kind.statement(flavor, exact=exact))
        for row in rows:
            table = Table(str(row["s"]), str(row["n"]))
            digests[table] = f"{digests.get(table, '')} {kind.noun} {row['r']} {row['x']}"
        counts[kind.noun] = sum(int(row["c"]) for row in rows)
    return SchemaDigests(digests, counts)


def changes(
    reference: Database,
    target: Database,
    flavor: Flavor,
    table: Table,
    *,
    exact: bool,
    kinds: tuple[ObjectKind, ...] = KINDS,
) -> list[str]:
    """Return how the columns and indexes of a table on the target differ, one text each. Raises as ``Database.query``."""
    found = []
    for kind in kinds:
        sql = kind.details(flavor, exact=exact)
        names = [part.name for part in kind.parts(flavor, exact=exact)]
        left, right = (_rows(database, sql, table) for database in (reference, target))
        moved = left.keys() != right.keys()
        found += [f"{kind.noun} {name} is missing" for name in left if name not in right]
        found += [f"{kind.noun} {name} is extra" for name in right if name not in left]
        for name in (name for name in left if name in right and left[name] != right[name]):
            if kind is COLUMN:
                found += _column(name, names, left[name][0], right[name][0], moved=moved)
            else:
                found.append(f"index {name} is {_index(names, right[name])}, not {_index(names, left[name])}")
    return found


def _rows(database: Database, sql: str, table: Table) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each column or index. A table whose name differs in case alone is another one."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in database.query(sql, (table.schema, table.name)):
        if str(row["n"]) == table.name:
            values = tuple(value for key, value in row.items() if key not in ("n", "name"))
            found.setdefault(str(row["name"]), []).append(values)
    return {name: sorted(rows, key=lambda row: int(row[0])) for name, rows in found.items()}


def _column(name: str, names: list[str], left: tuple[Any, ...], right: tuple[Any, ...], *, moved: bool) -> list[str]:
    """Return the differing properties. Behind a missing column all positions differ: then they say nothing."""
    return [
        f"column {name}: {part} is {_shown(there)}, not {_shown(here)}"
        for part, here, there in zip(names, left, right, strict=True)
        if here != there and not (moved and part == POSITION.name)
    ]


def _index(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    columns, unique = names.index("column"), names.index("repeated values")
    kind = "" if int(rows[0][unique]) else "unique "
    rest = {
        part: row[at] for row in rows for at, part in enumerate(names) if part not in ("place", "column") and row[at]
    }
    more = [f"{part} {_shown(value)}" for part, value in rest.items() if part != "repeated values"]
    return f"{kind}({', '.join(str(row[columns]) for row in rows)}) {', '.join(more)}".strip()


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
