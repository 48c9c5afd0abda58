"""Read the expected content of a backup: the tables of its source, and the rows of the last successful restore test."""

from dbops.engine.errors import DbopsError
from dbops.engine.hosts.jobs import RunJournal
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.result import ExpectedContents
from dbops.engine.states import Level, RunStatus
from dbops.models import RestoreTest
from dbops.worker.connections import open_database

#: Maximum number of tables read from the source; with more, nothing is compared.
TABLES_ASKED = 20_000
TABLES_SQL = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, UNIX_TIMESTAMP(CREATE_TIME) < %s AS older FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE IN ('InnoDB', 'Aria', 'MyISAM', 'ROCKSDB')"
    " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
    " LIMIT %s"
)


def expected_contents(restore_test: RestoreTest, journal: RunJournal) -> ExpectedContents:
    """Return the expected content, from the source's server and the last successful restore test."""
    good = RestoreTest.objects.filter(source=restore_test.source, status=RunStatus.SUCCEEDED)
    last = good.order_by("-pk").values_list("result", flat=True).first() or {}
    rows = {(schema, name): count for schema, name, count in last.get("tables", [])}
    tables = _tables_of_source(restore_test, journal)
    return ExpectedContents(frozenset(table for table, is_older in tables.items() if is_older), frozenset(tables), rows)


def _tables_of_source(restore_test: RestoreTest, journal: RunJournal) -> dict[tuple[str, str], bool]:
    """Return the source's tables, and whether each is older than the backup. An unreachable server fails no test."""
    started = restore_test.run.started_at
    try:
        database = open_database(restore_test.source)
        try:
            rows = database.query(TABLES_SQL, [started.timestamp() if started else 0, TABLES_ASKED])
        finally:
            database.close()
    except DbopsError as error:
        journal.say(phrase("Could not read the tables of the source: {error}", error=error), level=Level.WARNING)
        return {}
    if len(rows) == TABLES_ASKED:
        return {}
    return {(row["s"], row["t"]): bool(row["older"]) for row in rows}
