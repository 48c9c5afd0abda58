"""An instance of many small tables: the rebuild succeeds, and no line of its log is about one table.

``DBOPS_TEST_TABLES=10000`` makes it large. With ``-s`` the test prints what the steps around the certificate took.
"""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.host_state import one
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
TABLES = int(os.environ.get("DBOPS_TEST_TABLES", "2000"))
TIMED = ("certify", "verify", "clean-up")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False) as running:
        with running.lab.connect("primary-1") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE many")
            for number in range(TABLES):
                cursor.execute(f"CREATE TABLE many.t{number} (id INT PRIMARY KEY)")
        count = "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'many'"
        for name in ("backup-1", "replica-1"):
            wait_for("the tables", lambda: one(running, name, count)["n"] == TABLES, 300)  # noqa: B023 - called at once
        yield running


@pytest.mark.situation("G4", "succeeded; no line of the log is about one table")
def test_many_tables_are_rebuilt_without_a_line_for_each(stack: Stack) -> None:
    stack.wait_for_possible_plan("replica-1")
    _, lines = stack.rebuild("replica-1")
    assert lines[-1]["status"] == "succeeded"
    print({step["name"]: step["seconds"] for step in lines[-1]["steps"] if step["name"] in TIMED})
    counted = one(stack, "replica-1", "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'many'")
    assert counted["n"] == TABLES
    assert [line for line in lines if "DDL tracking" in line.get("text", "")] == []
