"""The same on MySQL 9.7, rebuilt by clone: its settings lie in tables that a clone brings from the source."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lab.unpacked import why_no_mysql
from tests.stack import Stack, running_stack, wait_for

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_no_mysql()), reason=why_no_mysql() or "MySQL is here")]
TARGET, CHANNEL = "replica-1", "main"
#: What the target has of its own, in columns of two sources.
STATUS = (
    *("Channel_Name", "Source_SSL_Allowed", "Source_TLS_Version", "SQL_Delay", "Connect_Retry", "Source_Retry_Count"),
    *("Replicate_Wild_Ignore_Table", "Replicate_Do_DB", "Source_Host"),
)
TABLES = (
    *("HEARTBEAT_INTERVAL", "COMPRESSION_ALGORITHM", "ZSTD_COMPRESSION_LEVEL", "PRIVILEGE_CHECKS_USER"),
    *("REQUIRE_ROW_FORMAT", "REQUIRE_TABLE_PRIMARY_KEY_CHECK"),
)
OPTIONS = (
    "SOURCE_SSL = 1, SOURCE_TLS_VERSION = 'TLSv1.3', SOURCE_DELAY = 900, SOURCE_CONNECT_RETRY = 5, SOURCE_RETRY_COUNT = 77,"
    " SOURCE_HEARTBEAT_PERIOD = 3, SOURCE_COMPRESSION_ALGORITHMS = 'zstd',"
    " SOURCE_ZSTD_COMPRESSION_LEVEL = 7, REQUIRE_ROW_FORMAT = 1, REQUIRE_TABLE_PRIMARY_KEY_CHECK = 'ON'"
).replace("'ON'", "ON")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mysql") as running:
        yield running


def query(stack: Stack, *statements: str) -> list[dict[str, Any]]:
    with closing(stack.lab.connect(TARGET)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def replicates(stack: Stack) -> bool:
    rows = query(stack, "SHOW REPLICA STATUS")
    return bool(rows) and all((row["Replica_IO_Running"], row["Replica_SQL_Running"]) == ("Yes", "Yes") for row in rows)


def settings(stack: Stack) -> dict[str, Any]:
    [row] = query(stack, "SHOW REPLICA STATUS")
    [more] = query(
        stack,
        "SELECT * FROM performance_schema.replication_connection_configuration"
        " JOIN performance_schema.replication_applier_configuration USING (CHANNEL_NAME)",
    )
    return {name: row[name] for name in STATUS} | {name: more[name] for name in TABLES}


AT_RUN_TIME = {
    "replica_parallel_workers": "6",
    "replica_exec_mode": "IDEMPOTENT",
    "replica_net_timeout": "99",
    "event_scheduler": "OFF",
    "super_read_only": "ON",
}


def variables(stack: Stack) -> dict[str, str]:
    names = ", ".join(map(repr, AT_RUN_TIME))
    rows = query(stack, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {row["Variable_name"]: row["Value"] for row in rows}


@pytest.mark.situation("9", "kept, and read back after the repoint")
@pytest.mark.situation("chained", "it goes back to the intermediate replica after it was verified at the primary")
@pytest.mark.situation("run time", "set again and read back; others are named by the plan")
def test_settings_of_a_channel_are_kept(stack: Stack) -> None:
    account, between = stack.lab.accounts["replication"], stack.lab.host("backup-1")
    query(
        stack,
        "STOP REPLICA",
        "RESET REPLICA ALL",
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{between.address}', SOURCE_PORT = {between.port},"
        f" SOURCE_USER = '{account.user}', SOURCE_PASSWORD = '{account.password}', SOURCE_AUTO_POSITION = 1,"
        f" GET_SOURCE_PUBLIC_KEY = 1, {OPTIONS} FOR CHANNEL '{CHANNEL}'",
        f"CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('trash.%', 'a_b.c%') FOR CHANNEL '{CHANNEL}'",
        f"START REPLICA FOR CHANNEL '{CHANNEL}'",
    )
    wait_for("replication", lambda: replicates(stack))
    for name, value in AT_RUN_TIME.items():
        query(stack, f"SET GLOBAL {name} = {value if value.isdigit() else repr(value)}")
    before = settings(stack)
    plan = stack.wait_for_possible_plan(TARGET, "--method", "clone")
    assert plan["replication"]["variables"] == AT_RUN_TIME
    assert plan["upstream"]["name"] == between.name
    stack.rebuild(TARGET, "--method", "clone")
    assert settings(stack) == before
    assert variables(stack) == AT_RUN_TIME
    assert replicates(stack)
