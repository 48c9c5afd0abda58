"""What a load test asks of a TiDB cluster, by answers that a real one gave (``tests/drivers/test_tidb_load.py`` has it all live)."""

from collections.abc import Callable
from typing import Any

import pytest

from dbops.engine.errors import DbopsError, Refused, RemoteFailure, Unreachable
from dbops.engine.load_tests.tidb_cluster import CLAIM, claim, make_table, mark_of, must_be_free, release
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.load_tests.workload import Profile, Workload
from tests.fakes import FakeDatabase

UID = "0123456789abcdef"
WORK = Workload(Profile.INSERT, table_ddl="CREATE TABLE `t` (id BIGINT PRIMARY KEY AUTO_INCREMENT)")
TARGET = TidbTarget("bench", "192.0.2.1", 4000, "dbops_load", ("tidb 192.0.2.1:4000", "tikv 192.0.2.2:20160"), "")
#: As TiDB 8.4 answered; its own schemas are in upper case.
SYSTEM = ("INFORMATION_SCHEMA", "METRICS_SCHEMA", "PERFORMANCE_SCHEMA", "mysql", "sys", "test")
OWN = {"node": "192.0.2.1:10080", "id": 2097156, "user": "dbops", "host": "192.0.2.9:51234", "db": None}


def cluster(
    *,
    sessions: tuple[dict[str, Any], ...] = (OWN,),
    schemas: tuple[str, ...] = SYSTEM,
    tables: tuple[tuple[str, str], ...] = (),
    in_test: tuple[str, ...] = (),
    held: tuple[str, ...] = ("SELECT", "PROCESS"),
    nodes: tuple[tuple[str, str], ...] = (("tidb", "192.0.2.1:4000"), ("tikv", "192.0.2.2:20160")),
) -> FakeDatabase:
    """Return a cluster that is empty and serves nothing but for what is given."""
    database = FakeDatabase()
    database.expect("CONNECTION_ID", [{"id": 2097156, "account": "dbops@%", "client": "dbops@192.0.2.9"}])
    others = [{"grantee": "'reader'@'%'", "privilege": "PROCESS"}]
    database.expect("USER_PRIVILEGES", others + [{"grantee": "'dbops'@'%'", "privilege": one} for one in held])
    database.expect("CLUSTER_INFO", [{"kind": kind, "address": address} for kind, address in nodes])
    database.expect("SCHEMATA", [{"name": name} for name in schemas])
    database.expect("= 'test'", [{"name": name} for name in in_test])
    database.expect("= 'dbops_load'", [{"name": name, "comment": comment} for name, comment in tables])
    database.expect("CLUSTER_PROCESSLIST", list(sessions))
    return database


def code_of(act: Callable[..., object], *words: Any, **named: Any) -> str:
    with pytest.raises(DbopsError) as caught:
        act(*words, **named)
    return caught.value.code


def refusal(database: FakeDatabase, *, is_claimed: bool = False) -> str:
    try:
        must_be_free(database, TARGET, load_test=UID, is_claimed=is_claimed)
    except Refused as error:
        return error.code
    finally:
        assert not [one for one in database.statements if not one.startswith("SELECT")]
    return ""


def session(**changes: Any) -> dict[str, Any]:
    return {**OWN, "id": 7, **changes}


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({}, ""),
        ({"sessions": (OWN, session(node="192.0.2.3:10080"))}, ""),  # a probe of another node
        ({"sessions": (OWN, session(host="192.0.2.10:1"))}, "load_test.cluster_in_use"),
        ({"sessions": (OWN, session(db="mysql"))}, "load_test.cluster_in_use"),
        ({"sessions": (OWN, session(user="app"))}, "load_test.cluster_in_use"),
        ({"sessions": (OWN, session(user="dbops_load", db="dbops_load"))}, "load_test.cluster_in_use"),
        ({"sessions": (OWN, session(user="root", host="localhost"))}, "load_test.cluster_in_use"),
        ({"sessions": (OWN, session(host=""))}, "load_test.cluster_in_use"),
        ({"schemas": (*SYSTEM, "shop")}, "load_test.cluster_in_use"),
        ({"schemas": (*SYSTEM, "dbops_load")}, "load_test.claimed"),
        ({"schemas": (*SYSTEM, "DBOPS_LOAD")}, "load_test.claimed"),
        ({"in_test": ("t",)}, "load_test.cluster_in_use"),
        ({"held": ("SELECT",)}, "load_test.cluster_in_use"),
        ({"held": ()}, "load_test.cluster_in_use"),
        ({"nodes": (("tidb", "192.0.2.1:4000"),)}, "load_test.cluster_nodes"),
        ({"nodes": ()}, "load_test.cluster_nodes"),
    ],
)
def test_only_an_empty_cluster_without_sessions_of_others_is_free(state: dict[str, Any], code: str) -> None:
    assert refusal(cluster(**state)) == code


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({}, ""),
        ({"sessions": (OWN, session(user="dbops_load", db="dbops_load"))}, ""),
        ({"sessions": (OWN, session(user="app"))}, "load_test.cluster_in_use"),
        ({"schemas": (*SYSTEM, "dbops_load", "shop")}, "load_test.cluster_in_use"),
        ({"tables": ((CLAIM, mark_of("ff")),)}, "load_test.claimed"),
        ({"tables": (("t", mark_of(UID)),)}, "load_test.claimed"),
        ({"tables": ()}, "load_test.claimed"),
    ],
)
def test_claimed_cluster_is_watched(state: dict[str, Any], code: str) -> None:
    given = {"schemas": (*SYSTEM, "dbops_load"), "tables": ((CLAIM, mark_of(UID)), ("t", ""))}
    assert refusal(cluster(**(given | state)), is_claimed=True) == code


@pytest.mark.parametrize("unknown", ["USER_PRIVILEGES", "CLUSTER_INFO", "SCHEMATA", "= 'test'", "CLUSTER_PROCESSLIST"])
def test_what_the_server_does_not_tell_refuses(unknown: str) -> None:
    database = cluster()
    database.expect(unknown, RemoteFailure("mysql.error", "Querying", cause="1105: unknown"))
    assert refusal(database) == "load_test.cluster_in_use"


def test_lost_connection_is_no_refusal() -> None:
    database = cluster()
    database.lose()
    assert code_of(must_be_free, database, TARGET, load_test=UID, is_claimed=False) == "mysql.unreachable"


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("1007: Can't create database 'dbops_load'; database exists", "load_test.claimed"),
        ("1044: Access denied for user 'dbops_load'@'%' to database 'dbops_load'", "load_test.account"),
        ("1105: another", "mysql.error"),
    ],
)
def test_claim_names_what_it_needs(cause: str, code: str) -> None:
    database = FakeDatabase()
    database.expect("CREATE DATABASE", RemoteFailure("mysql.error", "Running", cause=cause))
    assert code_of(claim, database, TARGET, load_test=UID) == code
    assert len(database.statements) == 1


def test_refused_login_names_the_account() -> None:
    database = FakeDatabase()
    database.down = RemoteFailure("mysql.access_denied", "Logging in", cause="1045: no")
    assert code_of(claim, database, TARGET, load_test=UID) == "load_test.account"


def test_claim_never_takes_a_schema_that_exists() -> None:
    database = FakeDatabase()
    claim(database, TARGET, load_test=UID)
    made, noted = database.statements
    assert made == "CREATE DATABASE `dbops_load`"
    assert mark_of(UID) in noted


@pytest.mark.parametrize(
    ("schemas", "tables", "is_claimed", "is_dropped"),
    [
        (("dbops_load",), ((CLAIM, mark_of(UID)), ("t", "")), True, True),
        (("dbops_load",), ((CLAIM, mark_of(UID)), ("T", "")), True, True),
        (("dbops_load",), ((CLAIM, mark_of(UID)),), False, True),
        (("dbops_load",), (), False, True),  # its claim was interrupted
        (("dbops_load",), (), True, False),
        (("dbops_load",), ((CLAIM, mark_of("ff")),), True, False),
        (("dbops_load",), ((CLAIM, mark_of("ff")),), False, False),
        ((), (), True, False),
    ],
)
def test_only_the_own_schema_is_dropped(
    schemas: tuple[str, ...], tables: tuple[tuple[str, str], ...], is_claimed: bool, is_dropped: bool
) -> None:
    database = cluster(schemas=(*SYSTEM, *schemas), tables=tables)
    release(database, WORK, load_test=UID, is_claimed=is_claimed)
    assert ("DROP DATABASE `dbops_load`" in database.statements) == is_dropped


@pytest.mark.parametrize(
    "tables", [(("precious", ""),), ((CLAIM, mark_of(UID)), ("t", ""), ("precious", ""))], ids=["unclaimed", "claimed"]
)
def test_tables_of_others_keep_the_schema(tables: tuple[tuple[str, str], ...]) -> None:
    database = cluster(schemas=(*SYSTEM, "dbops_load"), tables=tables)
    assert code_of(release, database, WORK, load_test=UID, is_claimed=False) == "load_test.not_removed"
    assert not [one for one in database.statements if one.startswith("DROP")]


@pytest.mark.parametrize("refuses", ["", "'table'", "scatter"])
def test_regions_are_spread_before_the_table_is_made_where_the_release_can(refuses: str) -> None:
    database = FakeDatabase()
    if refuses:
        database.expect(refuses, RemoteFailure("mysql.error", "Running", cause="1231: no"))
    make_table(database, WORK)
    assert database.statements[-2:] == ["USE `dbops_load`", WORK.table_ddl]


def test_table_that_cannot_be_made_has_its_own_code() -> None:
    database = FakeDatabase()
    database.expect("CREATE TABLE", RemoteFailure("mysql.error", "Running", cause="1050: exists"))
    assert code_of(make_table, database, WORK) == "load_test.table_fails"
    database = FakeDatabase()
    database.expect("CREATE TABLE", Unreachable("mysql.unreachable", "Running", cause="2013 lost"))
    assert code_of(make_table, database, WORK) == "mysql.unreachable"
