"""Load tests with MySQL, for real: on empty servers, whose schemas are made and copied. A restore needs XtraBackup."""

from collections.abc import Iterator
from typing import Any

import pytest

from lab.unpacked import MYSQL, MYSQL_5_7, why_no_mysql_8_0
from tests.stack import Stack

from .load_testing import manage, request_of, run_load_test, unchanged
from .test_managed_backup import backup_stack

pytestmark = pytest.mark.services

SERIES = {"mysql-5.7": MYSQL_5_7.why_not, "mysql-8.0": why_no_mysql_8_0, "mysql-9.7": MYSQL.why_not}
DDL = "CREATE TABLE a (id INT PRIMARY KEY, b INT, KEY (b)); CREATE TABLE c (id INT PRIMARY KEY); INSERT INTO a VALUES (1, 1), (2, 2)"


@pytest.fixture(scope="module", params=SERIES)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    if why := SERIES[request.param]():
        pytest.skip(why)
    with backup_stack(1, flavor=request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def untouched(stack: Stack) -> Iterator[None]:
    with unchanged(stack):
        yield


@pytest.mark.runs("MySQL 5.7", "load test")
@pytest.mark.runs("MySQL 8.0", "load test")
@pytest.mark.runs("MySQL 9.7", "load test")
@pytest.mark.parametrize(
    ("workload", "changes"),
    [
        ({"profile": "read-write"}, {}),
        (
            {
                "profile": "insert",
                "table_ddl": "CREATE TABLE t (id BIGINT PRIMARY KEY, note VARCHAR(20))",
                "key_ranges": [["id", 1, 10**9]],
            },
            {},
        ),
        (
            {
                "profile": "rotating-schemas",
                "schema": "sh`op",
                "table_ddl": DDL,
                "row_share": 1,
                "seconds_on_schema": 0.05,
                "statements": ["SELECT b FROM a WHERE id = 2", "SELECT COUNT(*) FROM c"],
            },
            {"raised": "schemas", "steps": [3, 8], "threads": 2},
        ),
    ],
    ids=["read-write", "insert", "rotating-schemas"],
)
def test_load_on_an_empty_server(stack: Stack, workload: dict[str, Any], changes: dict[str, Any]) -> None:
    status, result = run_load_test(stack, request_of(stack, workload=workload, **changes))
    assert (status, result["error"]) == (0, {}), result["error"]
    report = result["report"]
    assert report["Total"]["QueryCount"] > 10
    assert report["Total"]["ErrorQueryCount"] < report["Total"]["QueryCount"] / 10  # deadlocks, and keys that exist
    assert report["Steps"][0]["Waits"], "the scratch server did not tell its waits"


@pytest.mark.runs("MySQL 5.7", "load test")
@pytest.mark.runs("MySQL 8.0", "load test")
@pytest.mark.runs("MySQL 9.7", "load test")
def test_generator_on_another_host(stack: Stack) -> None:
    request = request_of(stack, workload={"profile": "read-write"}, generator_host="replica-1", steps=[1, 4])
    stack.wait_for_probe("the tools", lambda: manage(stack, "plan", "-", request=request)[0] == 0)
    status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    assert result["report"]["Total"]["QueryCount"] > 10
