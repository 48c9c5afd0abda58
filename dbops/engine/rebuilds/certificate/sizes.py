"""The tables whose rows can be compared, and those of them that are large.

InnoDB keeps the size of each table in a table of its own. ``DATA_LENGTH`` opens every table: 3 s for 10,000 of them.
"""

from collections.abc import Collection, Iterable

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.openable import Table

#: Engines with snapshots: rows of others change while they are read.
TRANSACTIONAL = ("INNODB", "ROCKSDB", "TOKUDB", "XTRADB")
#: Larger tables are compared by ranges.
LARGE_BYTES = 16 * 1024**2
#: Between a table's name and that of a partition.
PARTITION = "#p#"
_TABLES = (
    " FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_NAME NOT LIKE '#sql%'"
    " AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'ndbinfo', 'performance_schema', 'sys')"
)
NAMES = f"SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, ENGINE AS engine{_TABLES}"  # noqa: S608 - constants
STATISTICS = (
    "SELECT database_name AS s, table_name AS n, clustered_index_size * @@innodb_page_size AS size"
    " FROM mysql.innodb_table_stats"
)
ROWS = "SELECT database_name AS s, table_name AS n, n_rows AS size FROM mysql.innodb_table_stats"
#: Has parameters, so its own ``%`` is doubled.
OPENED = f"SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, DATA_LENGTH AS bytes{_TABLES} AND TABLE_SCHEMA IN ".replace(  # noqa: S608
    "%", "%%"
)


def comparable(database: Database) -> tuple[list[Table], list[Table]]:
    """Return the tables of engines with snapshots, and those of other engines. Raises as ``Database.query``."""
    rows = database.query(NAMES)
    tables = [Table(str(row["s"]), str(row["n"]), str(row["engine"] or "").upper()) for row in rows]
    found = [table for table in tables if table.engine in TRANSACTIONAL]
    return found, [table for table in tables if table.engine not in TRANSACTIONAL]


def large_of(database: Database, tables: Collection[Table]) -> list[Table]:
    """Return the tables with more than ``LARGE_BYTES``, sorted. Raises as ``Database.query``."""
    sizes = _kept_sizes(database, tables)
    if unknown := {table.schema for table in tables if table not in sizes}:
        schemas = sorted(unknown)
        opened = database.query(f"{OPENED}({', '.join(['%s'] * len(schemas))})", schemas)
        sizes |= {Table(str(row["s"]), str(row["n"])): int(row["bytes"] or 0) for row in opened}
    return sorted(table for table in tables if sizes.get(table, 0) > LARGE_BYTES)


def about_rows(database: Database, tables: Collection[Table]) -> int | None:
    """Return about how many rows the tables have, as InnoDB keeps it; ``None`` if that is unknown. Raises as ``Database.query``."""
    known = _kept_sizes(database, tables, ROWS)
    return sum(known[table] for table in tables) if all(table in known for table in tables) else None


def _kept_sizes(database: Database, tables: Iterable[Table], statement: str = STATISTICS) -> dict[Table, int]:
    """Return the sizes that InnoDB keeps. Tables can lack them, or the account the privilege to read them."""
    try:
        rows = database.query(statement)
    except Unreachable:
        raise
    except RemoteFailure:
        return {}
    known, sizes = set(tables), dict[Table, int]()
    for row in rows:
        table = Table(str(row["s"]), str(row["n"]))
        if table not in known:
            at = table.name.lower().rfind(PARTITION)
            table = Table(table.schema, table.name[: max(at, 0)])
        sizes[table] = sizes.get(table, 0) + int(row["size"] or 0)
    return sizes
