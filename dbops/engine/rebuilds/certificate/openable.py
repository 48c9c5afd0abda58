"""Open and read every table once: names in batches, one statement for each batch."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.engines import ELSEWHERE
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long

#: Tables of one statement: each stays open, with its locks, until the last is read.
BATCH = 100
CONNECTIONS = 4
#: Engines whose rows do not survive a restart.
FORGETFUL = ("MEMORY",)
NAMES = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, ENGINE AS engine FROM information_schema.TABLES"
    " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND TABLE_NAME NOT LIKE '#sql%'"
    " AND TABLE_SCHEMA NOT IN ('information_schema', 'ndbinfo', 'performance_schema', 'sys')"
)


@dataclass(frozen=True, slots=True, order=True)
class Table:
    schema: str
    name: str
    engine: str = field(default="", compare=False)

    @property
    def sql(self) -> str:
        return f"{sql_name(self.schema)}.{sql_name(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(slots=True)
class Opened:
    """What a read of tables found.

    ``with_rows``: those with a row. ``errors``: the server's error for those that cannot be read. ``slow``: those whose statement took
    too long. ``unreached``: the time was over before them.
    """

    with_rows: set[Table] = field(default_factory=set)
    errors: dict[Table, str] = field(default_factory=dict)
    slow: dict[Table, str] = field(default_factory=dict)
    unreached: set[Table] = field(default_factory=set)


def tables_of(database: Database) -> list[Table]:
    """Return the tables whose data is the server's own, sorted. Raises as ``Database.query``."""
    rows = database.query(NAMES)
    found = (Table(str(row["s"]), str(row["n"]), str(row["engine"] or "").upper()) for row in rows)
    return sorted(table for table in found if table.engine not in ELSEWHERE)


def open_tables(
    connect: Callable[[], Database], tables: Sequence[Table], may_begin: Callable[[], bool] = lambda: True
) -> Opened:
    """Open each table and read one row, over a few connections, as long as ``may_begin``. Raises ``Unreachable``."""
    batches = [tables[start : start + BATCH] for start in range(0, len(tables), BATCH)]

    def work(part: Sequence[Sequence[Table]]) -> Opened:
        found = Opened()
        with closing(connect()) as database:
            for batch in part:
                _read(database, batch, found, may_begin)
        return found

    found = Opened()
    parts = [part for number in range(CONNECTIONS) if (part := batches[number::CONNECTIONS])]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for one in pool.map(work, parts):
            found.with_rows |= one.with_rows
            found.errors |= one.errors
            found.slow |= one.slow
            found.unreached |= one.unreached
    return found


def _read(database: Database, batch: Sequence[Table], found: Opened, may_begin: Callable[[], bool]) -> None:
    """Read a batch; in one that fails, each table alone."""
    if not may_begin():
        found.unreached |= set(batch)
        return
    try:
        found.with_rows |= {batch[int(row["i"])] for row in database.query(_statement(batch))}
    except Unreachable:
        raise
    except RemoteFailure as error:
        if len(batch) > 1:
            for table in batch:
                _read(database, [table], found, may_begin)
        elif took_too_long(error):
            found.slow[batch[0]] = TOO_LONG
        else:
            found.errors[batch[0]] = error.cause


def _statement(batch: Iterable[Table]) -> str:
    return " UNION ALL ".join(f"(SELECT {number} AS i FROM {table.sql} LIMIT 1)" for number, table in enumerate(batch))  # noqa: S608
