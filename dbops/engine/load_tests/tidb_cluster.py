"""What a load test does in a TiDB cluster beside its inserts: see that nothing is served, claim, make the table, and remove both.

The claim is ``CREATE DATABASE`` without ``IF NOT EXISTS``: of two tests, one fails. Its first table names the test in its comment, so that
no other schema is ever dropped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dbops.engine.errors import Refused, RemoteFailure, Unreachable
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.load_tests.generator import LOAD_SCHEMA, table_name, tables_text
from dbops.engine.load_tests.tidb_facts import grant_of
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.load_tests.workload import Workload
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import Database

#: The first table in the schema of the load; its comment names the test.
CLAIM = "dbops_claim"
SYSTEM = frozenset({"mysql", "sys", "performance_schema", "information_schema", "metrics_schema"})
#: What a cluster without users' data has besides; TiDB makes it.
EMPTY = "test"
#: Without them, the server hides schemas and sessions.
NEEDED = frozenset({"SELECT", "PROCESS"})
SHOWN = 5

SESSION = "SELECT CONNECTION_ID() AS id, CURRENT_USER() AS account, USER() AS client"
HELD = "SELECT GRANTEE AS grantee, PRIVILEGE_TYPE AS privilege FROM information_schema.USER_PRIVILEGES"
NODES = "SELECT TYPE AS kind, INSTANCE AS address FROM information_schema.CLUSTER_INFO"
SCHEMAS = "SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA"
TABLES_OF_TEST = (
    f"SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE LOWER(TABLE_SCHEMA) = '{EMPTY}' LIMIT {SHOWN}"  # noqa: S608
)
SESSIONS = "SELECT INSTANCE AS node, ID AS id, USER AS user, HOST AS host, DB AS db FROM information_schema.CLUSTER_PROCESSLIST"
OWN_TABLES = (
    "SELECT TABLE_NAME AS name, TABLE_COMMENT AS comment FROM information_schema.TABLES"  # noqa: S608 - constants
    f" WHERE LOWER(TABLE_SCHEMA) = '{LOAD_SCHEMA}'"
)
#: Errors of a server: the schema exists; the account may not do this.
EXISTS, DENIED = ("1007",), ("1044", "1045", "1142", "1227")

Row = Mapping[str, Any]


def mark_of(load_test: str) -> str:
    """Return the comment of the claim's table. ``load_test``: hexadecimal."""
    return f"dbops load test {load_test}"


def must_be_free(database: Database, target: TidbTarget, *, load_test: str, is_claimed: bool) -> None:
    """Refuse a cluster that is not empty, serves, or is another one than planned. Reads only.

    Args:
        database: of the dashboard's account, which must see all schemas and sessions.
        target: as planned.
        load_test: its id.
        is_claimed: this test holds the cluster: its schema and the sessions of its user do not count.

    Raises:
        Refused: ``load_test.cluster_nodes``, ``load_test.cluster_in_use`` (also if the server does not tell), ``load_test.claimed``.
        Unreachable: the node does not answer.
    """
    try:
        refused = next(_against(database, target, load_test, is_claimed), None)
    except Unreachable:
        raise
    except RemoteFailure as error:
        raise _in_use(target, phrase("it cannot be read: {cause}", cause=error.cause)) from error
    if refused:
        raise refused


def _against(database: Database, target: TidbTarget, load_test: str, is_claimed: bool) -> Iterator[Refused]:
    own = database.query(SESSION)[0]
    if hidden := NEEDED - _privileges(database.query(HELD), str(own["account"])):
        text = phrase(
            "the dashboard’s account {account} has no {privileges} on *.*, so it does not see everything",
            account=own["account"],
            privileges=" and ".join(sorted(hidden)),
        )
        yield _in_use(target, text)
    nodes = tuple(sorted(f"{str(row['kind']).lower()} {row['address']}" for row in database.query(NODES)))
    if nodes != target.nodes:
        text = phrase(
            "planned were {nodes}; the cluster has {found}", nodes=", ".join(target.nodes), found=", ".join(nodes)
        )
        yield Refused("load_test.cluster_nodes", _checking(target), cause=text)
    names = [str(row["name"]) for row in database.query(SCHEMAS)]
    others = sorted(name for name in names if name.lower() not in {*SYSTEM, EMPTY, LOAD_SCHEMA})
    if others:
        yield _in_use(target, phrase("it has the schema {schemas}", schemas=", ".join(others[:SHOWN])))
    if tables := [str(row["name"]) for row in database.query(TABLES_OF_TEST)]:
        yield _in_use(
            target, phrase("its schema {empty} has the table {tables}", empty=EMPTY, tables=", ".join(tables))
        )
    if is_claimed and not _is_claimed_by(database.query(OWN_TABLES), load_test):
        text = phrase("the schema {schema} is no longer that of this test", schema=LOAD_SCHEMA)
        yield Refused("load_test.claimed", _checking(target), cause=text)
    if not is_claimed and LOAD_SCHEMA in {name.lower() for name in names}:
        yield Refused(
            "load_test.claimed",
            _checking(target),
            cause=phrase("the schema {schema} exists", schema=LOAD_SCHEMA),
        )
    user = target.user if is_claimed else ""
    if sessions := [row for row in database.query(SESSIONS) if not _is_own(row, own, user)]:
        yield _in_use(target, phrase("it has sessions of others: {sessions}", sessions=_words(sessions)))


def _checking(target: TidbTarget) -> str:
    return phrase("Checking that the cluster {cluster} serves nothing", cluster=target.cluster)


def _in_use(target: TidbTarget, cause: str) -> Refused:
    return Refused("load_test.cluster_in_use", _checking(target), cause=cause)


def _privileges(rows: Iterable[Row], account: str) -> set[str]:
    user, _, host = account.rpartition("@")
    return {str(row["privilege"]).upper() for row in rows if str(row["grantee"]) == f"'{user}'@'{host}'"}


def _is_own(row: Row, own: Row, load_user: str) -> bool:
    """Whether a session is of dbops: of its account, from this machine and without a schema, as those of its probes; or of the load."""
    user, _, client = str(own["client"]).rpartition("@")
    if load_user and row["user"] == load_user:
        return True
    host = str(row["host"] or "")
    return bool(row["user"] == user and client in (host, host.rpartition(":")[0]) and not row["db"])


def _words(sessions: Sequence[Row]) -> str:
    shown = [
        phrase("{user} from {host} on {node}", user=row["user"], host=row["host"], node=row["node"])
        for row in sessions[:SHOWN]
    ]
    more = phrase(" and {count} more", count=len(sessions) - SHOWN) if len(sessions) > SHOWN else ""
    return joined((joined(shown, ", "), more), "")


def claim(database: Database, target: TidbTarget, *, load_test: str) -> None:
    """Make the schema of the load, which no other test can have, and note in it whose it is.

    ``database`` is of the load's account.

    Raises:
        Refused: the schema exists (``load_test.claimed``), or the account may not make it (``load_test.account``).
        RemoteFailure, Unreachable: as ``Database``.
    """
    operation = phrase("Claiming the cluster {cluster}", cluster=target.cluster)
    try:
        database.execute(f"CREATE DATABASE {sql_name(LOAD_SCHEMA)}")
        columns = f"(id INT NOT NULL PRIMARY KEY) COMMENT = '{mark_of(load_test)}'"
        database.execute(f"CREATE TABLE {sql_name(LOAD_SCHEMA)}.{sql_name(CLAIM)} {columns}")
    except Unreachable:
        raise
    except RemoteFailure as error:
        if error.cause.startswith(EXISTS):
            raise Refused(
                "load_test.claimed", operation, cause=phrase("the schema {schema} exists", schema=LOAD_SCHEMA)
            ) from error
        if error.code == "mysql.access_denied" or error.cause.startswith(DENIED):
            step = phrase("Make the account: {statement}", statement=grant_of(target.user))
            raise Refused("load_test.account", operation, cause=error.cause, next_step=step) from error
        raise


def make_table(database: Database, workload: Workload) -> None:
    """Make the table of the inserts, with its regions spread before it is used.

    Raises:
        RemoteFailure: the statement failed (``load_test.table_fails``).
        Unreachable: the node does not answer.
    """
    for value in ("'table'", "ON"):  # by release
        if _accepts(database, f"SET SESSION tidb_scatter_region = {value}"):
            break
    try:
        database.execute(f"USE {sql_name(LOAD_SCHEMA)}")
        database.execute(tables_text(workload))
    except Unreachable:
        raise
    except RemoteFailure as error:
        raise RemoteFailure(
            "load_test.table_fails", phrase("Making the table of the inserts"), cause=error.cause
        ) from error


def _accepts(database: Database, statement: str) -> bool:
    try:
        database.execute(statement)
    except Unreachable:
        raise
    except RemoteFailure:
        return False
    return True


def release(database: Database, workload: Workload, *, load_test: str, is_claimed: bool) -> None:
    """Drop the schema of the load if it is that of this test. Idempotent. ``database`` is of the load's account.

    Before ``is_claimed``, the claim may have been interrupted: then a schema without a table is dropped, and nothing is lost with it.

    Raises:
        RemoteFailure: it has tables that are not of this test (``load_test.not_removed``), or as ``Database``.
        Unreachable: the node does not answer.
    """
    names = {str(row["name"]).lower() for row in database.query(SCHEMAS)}
    if LOAD_SCHEMA not in names:
        return
    tables = database.query(OWN_TABLES)
    if not _is_claimed_by(tables, load_test):
        if is_claimed or any(row["name"] == CLAIM for row in tables):
            return  # another's: this test's is removed
        if tables:
            raise _left(tables)
    own = {CLAIM, table_name(workload.table_ddl).lower()}
    if others := [row for row in tables if str(row["name"]).lower() not in own]:
        raise _left(others)
    database.execute(f"DROP DATABASE {sql_name(LOAD_SCHEMA)}")


def _is_claimed_by(tables: Iterable[Row], load_test: str) -> bool:
    return any(row["name"] == CLAIM and row["comment"] == mark_of(load_test) for row in tables)


def _left(tables: Sequence[Row]) -> RemoteFailure:
    shown = ", ".join(str(row["name"]) for row in tables[:SHOWN])
    return RemoteFailure(
        "load_test.not_removed",
        phrase("Dropping the schema {schema}", schema=LOAD_SCHEMA),
        cause=phrase("it has tables that are not of this test: {shown}", shown=shown),
        state=phrase("The schema {schema} remains.", schema=LOAD_SCHEMA),
        next_step=phrase("Look at the tables. If they are not needed: DROP DATABASE {schema};", schema=LOAD_SCHEMA),
    )
