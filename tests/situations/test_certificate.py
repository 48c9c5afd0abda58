"""A copy that differs from its source never ends in "succeeded", and the old data stays. Real MariaDB and MySQL servers."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lab.unpacked import why_no_mysql
from tests.e2e.cancelling import at_step
from tests.e2e.host_state import is_replicating, last_rebuild, one
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False) as running:
        prepare(running)
        yield running


def prepare(stack: Stack) -> None:
    """Have a schema with one object of each kind."""
    for statement in (
        "CREATE DATABASE shopping",
        "CREATE TABLE shopping.items (id INT PRIMARY KEY, name VARCHAR(40))",
        "INSERT INTO shopping.items VALUES (1, 'chair'), (2, 'table')",
        "CREATE TABLE shopping.prices (id INT PRIMARY KEY, price DECIMAL(8,2), KEY by_price (price))",
        "CREATE TABLE shopping.parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
        "CREATE VIEW shopping.names AS SELECT name FROM shopping.items",
        "CREATE PROCEDURE shopping.nothing() SELECT 1",
        "CREATE TRIGGER shopping.upper_names BEFORE INSERT ON shopping.items FOR EACH ROW SET NEW.name = UPPER(NEW.name)",
        "CREATE EVENT shopping.daily ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE USER 'reader'@'%' IDENTIFIED BY 'of-the-lab-1'",
        "GRANT SELECT ON shopping.* TO 'reader'@'%'",
    ):
        one(stack, PRIMARY, statement)
    wait_for("the grant on the source", lambda: one(stack, SOURCE, "SELECT 1 FROM mysql.db WHERE user = 'reader'"))


def on_the_target(stack: Stack, *statements: str) -> None:
    """Change the copy behind the back of its replication."""
    with stack.lab.connect(TARGET) as connection, connection.cursor() as cursor:
        for statement in ("SET sql_log_bin = 0", *statements):
            cursor.execute(statement)


def writable(*statements: str) -> tuple[str, ...]:
    """Return statements for a MySQL replica, which refuses all others."""
    return "SET GLOBAL super_read_only = 0", *statements, "SET GLOBAL super_read_only = 1"


def certificate(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(last_rebuild(stack)["checkpoint"])["certificate"]
    return found


def harmed(stack: Stack, *statements: str, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Rebuild, change the copy before its certificate, and return the error. The old data is still there."""
    for name in (SOURCE, TARGET):
        stack.wait_for_facts(name)
    stack.wait_for_possible_plan(TARGET, *words)

    def harm() -> None:
        """All at the same time: the certificate comes soon."""
        with ThreadPoolExecutor(len(statements)) as pool:
            list(pool.map(lambda statement: on_the_target(stack, statement), statements))

    with at_step(stack, "catch-up", harm):
        _, lines = stack.rebuild(TARGET, *words, check=False)
    assert lines[-1]["status"] == "failed", (lines[-1], certificate(stack))
    kept = json.loads(last_rebuild(stack)["checkpoint"])
    assert not kept.get("verified")
    assert kept.get("touched"), lines[-1]
    assert stack.lab.host(TARGET).folder.joinpath(kept["aside_path"]).is_dir()
    error: dict[str, Any] = lines[-1]["error"]
    return error


@pytest.mark.situation("inventory", "succeeded with a certificate, also under writes")
def test_equal_copy_is_certified_under_writes(stack: Stack) -> None:
    stack.lab.load_start(tps=20)
    try:
        stack.wait_for_possible_plan(TARGET)
        _, lines = stack.rebuild(TARGET, check=False)
    finally:
        stack.lab.load_stop()
    assert lines[-1]["status"] == "succeeded", lines[-1]
    found = certificate(stack)
    assert found["compared_with"] == SOURCE
    assert found["opened"] > 2
    assert found["rows"]["tables"] > 2
    assert found["rows"]["count"] > 2
    assert found["rows"]["until"]
    kinds = {
        "account",
        "column",
        "event",
        "grant",
        "index",
        "partition",
        "procedure",
        "schema",
        "table",
        "trigger",
        "view",
    }
    assert kinds <= set(found["objects"])
    assert found["unchecked"] == {}
    assert is_replicating(stack, TARGET)


@pytest.mark.situation(
    "inventory", "failed: certificate.differs names what is missing or changed; the old data is kept"
)
def test_missing_and_changed_objects_are_found(stack: Stack) -> None:
    error = harmed(
        stack,
        "DROP TABLE shopping.items",
        "DROP PROCEDURE shopping.nothing",
        "REVOKE SELECT ON shopping.* FROM 'reader'@'%'",
        "ALTER TABLE shopping.prices MODIFY price DECIMAL(10,2), DROP INDEX by_price",
    )
    assert error["code"] == "certificate.differs", error
    differing = certificate(stack)["differences"]
    for name in ("table shopping.items", "procedure shopping.nothing", "grant db"):
        assert any(one.startswith(name) and one.endswith("(missing)") for one in differing), differing
    [changed] = [one for one in differing if one.startswith("table shopping.prices")]
    for part in ("column price: full type", "index by_price is missing"):
        assert part in changed
        assert part in error["cause"]


@pytest.mark.situation("equal", "failed: certificate.rows_differ names the tables; the old data is kept")
def test_empty_table_is_found(stack: Stack) -> None:
    error = harmed(stack, "DELETE FROM shopping.items")
    assert error["code"] == "certificate.rows_differ", error
    assert "shopping.items" in error["cause"]


@pytest.fixture(scope="module")
def large(stack: Stack) -> None:
    """Have a table of ``DBOPS_TEST_TABLE_MB`` megabytes in rows of about 1 KiB, whose key begins with two values."""
    rows = int(os.environ.get("DBOPS_TEST_TABLE_MB", "64")) * 1024
    one(stack, PRIMARY, "CREATE TABLE shopping.archive (shop INT, id INT, body VARCHAR(1000), PRIMARY KEY (shop, id))")
    for start in range(1, rows + 1, 20000):
        until = min(start + 19999, rows)
        one(
            stack,
            PRIMARY,
            f"INSERT INTO shopping.archive SELECT seq % 2, seq, REPEAT(MD5(seq), 30) FROM shopping.seq_{start}_to_{until}",
        )
    count = f"SELECT 1 FROM shopping.archive WHERE shop = 0 AND id = {rows}"
    wait_for("the rows on the source", lambda: one(stack, SOURCE, count), 120)
    one(stack, SOURCE, "ANALYZE NO_WRITE_TO_BINLOG TABLE shopping.archive")


@pytest.mark.situation("equal", "full: failed with certificate.rows_differ for one changed byte of a large table")
def test_one_changed_byte_of_a_large_table_is_found(stack: Stack, large: None) -> None:
    change = "UPDATE shopping.archive SET body = INSERT(body, 500, 1, '#') WHERE shop = 0 AND id = 41234"
    error = harmed(stack, change, words=("--full-certificate",))
    assert error["code"] == "certificate.rows_differ", error
    assert "shopping.archive" in error["cause"]
    found = certificate(stack)
    assert found["left_out"] == {}
    assert found["rows"]["ranges"] > 1
    assert is_replicating(stack, TARGET)


@pytest.mark.situation("openable", "failed: certificate.unreadable names the table and the server's error")
def test_unreadable_table_is_found(stack: Stack) -> None:
    file = stack.lab.host(TARGET).data_dir / "shopping" / "items.ibd"
    stack.wait_for_possible_plan(TARGET)
    with at_step(stack, "set-ownership", file.unlink):
        _, lines = stack.rebuild(TARGET, check=False)
    error = lines[-1]["error"]
    assert error["code"] == "certificate.unreadable", error
    assert "shopping.items" in error["cause"]


@pytest.fixture(scope="module")
def mysql() -> Iterator[Stack]:
    if why_no_mysql():
        pytest.skip(why_no_mysql())
    with running_stack(web=False, flavor="mysql") as running:
        prepare(running)
        yield running


@pytest.mark.situation("inventory", "failed: certificate.differs names what is missing; the old data is kept")
def test_missing_object_of_a_clone_is_found_and_a_whole_one_is_certified(mysql: Stack) -> None:
    for name in (SOURCE, PRIMARY):
        mysql.wait_for_facts(name)
    mysql.wait_for_possible_plan(TARGET, "--method", "clone")
    harm = "DROP VIEW shopping.names", "ALTER TABLE shopping.prices DROP INDEX by_price"
    with at_step(mysql, "catch-up", lambda: on_the_target(mysql, *writable(*harm))):
        _, lines = mysql.rebuild(TARGET, "--method", "clone", check=False)
    error = lines[-1].get("error") or {}
    assert error.get("code") == "certificate.differs", lines[-1]
    assert "shopping.names" in error["cause"]
    assert "index by_price is missing" in error["cause"]
    undone = (
        "CREATE VIEW shopping.names AS SELECT name FROM shopping.items",
        "CREATE INDEX by_price ON shopping.prices (price)",
    )
    on_the_target(mysql, *writable(*undone))
    mysql.lab.load_start(tps=20)
    try:
        _, lines = mysql.rebuild(TARGET, "--resume", check=False)
    finally:
        mysql.lab.load_stop()
    assert lines[-1]["status"] == "succeeded", lines[-1]
    found = certificate(mysql)
    assert found["objects"]["view"] == 1
    assert found["rows"]["count"] > 2
    assert found["rows"]["until"]
    link = one(mysql, TARGET, "SHOW REPLICA STATUS")
    assert link["Replica_IO_Running"] == link["Replica_SQL_Running"] == "Yes"
