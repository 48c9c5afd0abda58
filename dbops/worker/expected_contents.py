"""What a backup should contain: the tables of its source, and the rows of the last good restore test."""

from dbops.engine.errors import DbopsError
from dbops.engine.hosts.jobs import RunJournal
from dbops.engine.restore_tests.result import ExpectedContents
from dbops.engine.states import Level, RunStatus
from dbops.models import RestoreTest
from dbops.worker.connections import open_database

#: So many tables of the source are asked for; of one that has more nothing is compared.
TABLES_ASKED = 20_000
TABLES_SQL = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, UNIX_TIMESTAMP(CREATE_TIME) < %s AS older FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE IN ('InnoDB', 'Aria', 'MyISAM', 'ROCKSDB')"
    " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
    " LIMIT %s"
)


def expected_contents(restore_test: RestoreTest, journal: RunJournal) -> ExpectedContents:
    """Return what should be in the backup, by the source's server and by the last good proof."""
    good = RestoreTest.objects.filter(source=restore_test.source, status=RunStatus.SUCCEEDED)
    last = good.order_by("-pk").values_list("result", flat=True).first() or {}
    rows = {(schema, name): count for schema, name, count in last.get("tables", [])}
    tables = _tables_of_source(restore_test, journal)
    return ExpectedContents(frozenset(table for table, is_older in tables.items() if is_older), frozenset(tables), rows)


def _tables_of_source(restore_test: RestoreTest, journal: RunJournal) -> dict[tuple[str, str], bool]:
    """Return its tables, and whether each was made before the backup began. A server that does not answer spoils no proof."""
    started = restore_test.run.started_at
    try:
        database = open_database(restore_test.source)
        try:
            rows = database.query(TABLES_SQL, [started.timestamp() if started else 0, TABLES_ASKED])
        finally:
            database.close()
    except DbopsError as error:
        journal.say(f"the source cannot say which tables it has: {error}", level=Level.WARNING)
        return {}
    if len(rows) == TABLES_ASKED:
        return {}
    return {(row["s"], row["t"]): bool(row["older"]) for row in rows}
