"""Load tests with the top digests of the source, for real: read there, made statements of the copied data, and sent in its proportions."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dbops.engine.load_tests.digest_text import tokens_of
from lab.flavors import flavor_named
from lab.unpacked import why_no_mysql_8_0
from tests.situations.test_quiet_start import configured
from tests.stack import Stack, wait_for

from .load_testing import load_test_of, manage, request_of, unchanged, wait_for_end
from .test_managed_backup import SOURCE, backup_stack
from .test_restore_tests import command_lines, good_backup

pytestmark = pytest.mark.services

TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, code CHAR(8) NOT NULL UNIQUE, status VARCHAR(20), price DECIMAL(8,2))",
    "CREATE TABLE notes (order_id INT NOT NULL, at DATETIME NOT NULL, body TEXT, KEY (order_id))",
)
ROWS = [f"INSERT INTO orders (code, status, price) VALUES ('c{n}', 'it''s {n % 7}', {n}.5)" for n in range(200)]
ROWS += [f"INSERT INTO notes VALUES ({n}, '2026-01-01 00:00:00', 'a \"note\" \\\\ {n}')" for n in range(1, 200)]
#: Statement, and how often it runs in both schemas together.
LOAD = (
    ("SELECT status, price FROM orders WHERE id = {n}", 700),
    ("SELECT o.code, n.body FROM orders o JOIN notes n ON n.order_id = o.id WHERE o.code = 'c{n}'", 400),
    ("UPDATE orders SET status = 's{n}' WHERE id = {n}", 200),
    ("INSERT INTO notes (order_id, at, body) VALUES ({n}, NOW(), 'b{n}')", 160),
    ("INSERT INTO orders (code, status, price) VALUES ('x{n}', 's', 1)", 100),
    ("SELECT COUNT(*) FROM orders WHERE status LIKE 's{n}%' AND price BETWEEN {n} AND {n} + 5", 40),
    ("SELECT MD5(CONCAT(status, 'x{n}')) FROM orders LIMIT 1", 20),  # cannot be bound
)


@pytest.fixture(scope="module", params=["mariadb", "mysql-8.0"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    if request.param == "mysql-8.0" and (why := why_no_mysql_8_0()):
        pytest.skip(why)
    is_mariadb = request.param == "mariadb"
    with ExitStack() as opened:
        schedules = {"files": "physical"} if is_mariadb else {}
        running = opened.enter_context(backup_stack(1, flavor=request.param, **schedules))
        if is_mariadb:
            opened.enter_context(configured(running, SOURCE, performance_schema="ON"))
        produce(running)
        yield running


def produce(stack: Stack) -> None:
    """Have two schemas of one structure on the source alone, and statements there."""
    with stack.lab.connect(SOURCE) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for tenant in ("tenant_1", "tenant_2"):
            cursor.execute(f"CREATE DATABASE {tenant}")
            cursor.execute(f"USE {tenant}")
            for statement in (*TABLES, *ROWS):
                cursor.execute(statement)
        connection.commit()
        cursor.execute("TRUNCATE performance_schema.events_statements_summary_by_digest")
        for tenant in ("tenant_1", "tenant_2"):
            cursor.execute(f"USE {tenant}")
            for statement, count in LOAD:
                for n in range(count // 2):
                    cursor.execute(statement.format(n=n))
        connection.commit()


def read(stack: Stack) -> dict[str, Any]:
    status, found = manage(stack, "digests", SOURCE, "--schema", "tenant_1")
    assert (status, found["status"]) == (0, "succeeded"), found
    return found


def request(stack: Stack) -> dict[str, Any]:
    is_mariadb = stack.lab.flavor.name == "mariadb"
    workload = {"profile": "rotating-schemas", "schema": "tenant_1", "row_share": 1, "seconds_on_schema": 0.05}
    if not is_mariadb:
        workload["table_ddl"] = ";\n".join((*TABLES, *ROWS))
    run = good_backup(stack) if is_mariadb else 0
    changes = {"raised": "schemas", "steps": [3], "threads": 2, "seconds": 12, "run": run}
    return request_of(stack, workload=workload, **changes)


def scratch_digests(stack: Stack, uid: str) -> dict[str, int]:
    """Return what the scratch server counted until now; empty if it does not answer."""
    words = [word for _, line in command_lines() for word in line if uid in word]
    sockets = {found[1] for word in words if (found := re.match(r"--socket=(.*/run/s)$", word))}
    if not sockets:
        return {}
    flavor = flavor_named(stack.lab.flavor.name)
    programs = flavor.programs | flavor.host_programs
    client = programs["mariadb" if flavor.name == "mariadb" else "mysql"]
    sql = (
        "SELECT DIGEST_TEXT, SUM(COUNT_STAR) FROM performance_schema.events_statements_summary_by_digest"
        " WHERE SCHEMA_NAME LIKE 'dbops_copy%' GROUP BY DIGEST_TEXT"
    )
    done = subprocess.run(
        [
            client,
            "--no-defaults",
            f"--socket={sockets.pop()}",
            "--user=root",
            "--batch",
            "--skip-column-names",
            "-e",
            sql,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {" ".join(tokens_of(text)): int(count) for text, count in rows if text != "NULL"}


def test_scratch_server_gets_the_statements_of_the_source_in_their_proportions(stack: Stack) -> None:
    found = read(stack)
    assert found["schemas"] == 2
    used = {one["text"]: one for one in found["digests"] if not one["reason"]}
    assert len(used) == 6, found["digests"]
    assert [one["count"] for one in found["digests"] if "MD5" in one["text"]] == [20]
    assert all("c1" not in one["text"] for one in found["digests"]), "a digest has no values"
    with unchanged(stack):
        wanted = request(stack)
        reading = str(found["reading"])
        status, plan = manage(stack, "plan", "-", "--digests", reading, request=wanted)
        assert status == 0, plan["findings"]
        seen: dict[str, int] = {}
        row = begin_with(stack, wanted, reading, plan["fingerprint"])

        def is_over() -> bool:
            now = scratch_digests(stack, row["uid"])
            if all(text in now for text in used):
                seen.update(now)
            return load_test_of(stack, row["id"])["status"] in ("succeeded", "failed", "cancelled")

        wait_for("the end of the load test", is_over, 240)
    ended = wait_for_end(stack, row["id"])
    assert ended["status"] == "succeeded", ended["error"]
    counts = {text: seen[text] for text in used}
    print(sum(counts.values()), counts)
    total = sum(one["count"] for one in used.values())
    for text, one in used.items():
        assert counts[text] / sum(counts.values()) == pytest.approx(one["count"] / total, abs=0.03), text
    status, shown = manage(stack, "show", str(row["id"]))
    report = shown["report"]
    assert report["Total"]["IsValid"], report["Total"]["Reasons"]
    assert report["Total"]["ErrorQueryCount"] <= report["Total"]["QueryCount"] / 50
    assert {one["text"] for one in report["Digests"]["Used"]} == set(used)
    assert "empty_tables" not in report["Facts"]
    record = load_test_of(stack, row["id"])
    assert 'a \\"note' not in record["plan"] + record["report"] + record["checkpoint"], (
        "sampled values stay on the host"
    )


def begin_with(stack: Stack, wanted: dict[str, Any], reading: str, fingerprint: str) -> dict[str, Any]:
    words = ("--digests", reading, "--confirm", wanted["host"], "--reason", "a test", "--fingerprint", fingerprint)
    status, found = manage(stack, "start", "-", *words, request=wanted)
    assert status == 0, found
    return load_test_of(stack, found["load_test"])


def test_plan_of_another_reading_is_stale(stack: Stack) -> None:
    wanted = request(stack)
    first = read(stack)
    _, plan = manage(stack, "plan", "-", "--digests", str(first["reading"]), request=wanted)
    with stack.lab.connect(SOURCE) as connection, connection.cursor() as cursor:
        cursor.execute("USE tenant_1")
        cursor.execute("SELECT price FROM orders WHERE price = 3")
    second = read(stack)
    words = ("--digests", str(second["reading"]), "--confirm", wanted["host"], "--reason", "a test")
    status, refused = manage(stack, "start", "-", *words, "--fingerprint", plan["fingerprint"], request=wanted)
    assert (status, refused["error"]["code"]) == (2, "load_test.stale")
