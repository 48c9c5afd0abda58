"""What the tests of MySQL 5.7 and 8.0 share: statements with their old words, a dump, and what a rebuild from it must keep."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from tests.e2e.cancelling import at_step
from tests.e2e.host_state import checksums, last_rebuild, one
from tests.e2e.settings import own_settings
from tests.e2e.test_managed_backup import back_up
from tests.e2e.test_observed_backups import begun, last, slow_reader
from tests.situations.test_certificate import on_the_target, writable
from tests.stack import Stack, wait_for
from tests.whole_file import write_whole

PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
SCHEDULE = "statements"
#: Settings of the target's own: unusual values, and an event scheduler.
OWN = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "7", "event_scheduler": "ON"}
#: Objects of ``prepare`` that a certificate has.
KINDS = {
    *("account", "column", "event", "grant", "index", "partition"),
    *("procedure", "schema", "table", "trigger", "view"),
}
#: What the target has of its own, in columns of its connection.
KEPT = (
    *("Master_SSL_Allowed", "Master_TLS_Version", "SQL_Delay", "Connect_Retry", "Master_Retry_Count"),
    *("Replicate_Wild_Ignore_Table", "Master_Host"),
)


def change_all(stack: Stack, name: str, *statements: str) -> None:
    """Run statements in one session."""
    with stack.lab.connect(name) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def link(stack: Stack, name: str) -> dict[str, Any]:
    return one(stack, name, "SHOW SLAVE STATUS")


def replicates(stack: Stack, name: str) -> bool:
    row = link(stack, name)
    return (row.get("Slave_IO_Running"), row.get("Slave_SQL_Running")) == ("Yes", "Yes")


def reaches(stack: Stack, name: str, seconds: int = 60) -> None:
    """Wait until a server has all of the primary's transactions."""
    goal = one(stack, PRIMARY, "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
    assert one(stack, name, f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{goal}', {seconds}) AS late")["late"] == 0


def has_the_same_data(stack: Stack) -> None:
    """Compare the target with the primary, which has the same rows and no transaction less."""
    reaches(stack, TARGET)
    goal = one(stack, PRIMARY, "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
    mine = one(stack, TARGET, "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
    assert one(stack, TARGET, f"SELECT GTID_SUBTRACT('{mine}', '{goal}') AS errant")["errant"] == ""
    expected = checksums(stack, PRIMARY)
    assert expected
    assert checksums(stack, TARGET) == expected
    assert len({one(stack, name, "SELECT @@server_uuid AS u")["u"] for name in (PRIMARY, SOURCE, TARGET)}) == 3


def codes(plan: dict[str, Any], *severities: str) -> set[str]:
    """Return the codes of a plan's findings."""
    return {item["code"] for item in plan["findings"] if item["severity"] in (severities or ("refusal",))}


def have_events(stack: Stack) -> None:
    """Have an event that is enabled on the source alone, as on a server that was a primary; its scheduler is off."""
    each = "ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO clocks.ticks VALUES (UUID())"
    change_all(
        stack,
        PRIMARY,
        "CREATE DATABASE clocks",
        "CREATE TABLE clocks.ticks (id VARCHAR(40) PRIMARY KEY)",
        "CREATE TABLE clocks.made (id INT PRIMARY KEY, twice INT AS (id * 2) STORED, half INT AS (id / 2) VIRTUAL)",
        "INSERT INTO clocks.made (id) VALUES (1), (2)",
        f"CREATE EVENT clocks.e {each}",
    )
    reaches(stack, SOURCE)
    file = stack.lab.host(SOURCE).config_file  # it restarts, and the default of 8.0 is ON
    write_whole(file, f"{file.read_text()}[mysqld]\nevent_scheduler = OFF\n")
    change_all(stack, SOURCE, "SET GLOBAL event_scheduler = OFF", "SET sql_log_bin = 0", "ALTER EVENT clocks.e ENABLE")


def dump_under_writes(stack: Stack) -> dict[str, Any]:
    """Make a managed dump under writes; then write what it does not have. Return its record."""
    stack.lab.load_start(tps=20)
    try:
        status, result = back_up(stack, SCHEDULE)
    finally:
        stack.lab.load_stop()
    assert status == 0, result
    one(stack, PRIMARY, "CREATE TABLE sbtest.after_the_dump (id INT PRIMARY KEY)")
    one(stack, PRIMARY, "INSERT INTO sbtest.after_the_dump VALUES (4)")
    return record_of(stack, result)


def record_of(stack: Stack, result: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a published backup."""
    [row] = stack.rows("SELECT evidence FROM dbops_backuprun WHERE id = ?", result["backup_run"])
    record: dict[str, Any] = json.loads(row["evidence"])
    return record


@contextmanager
def source_down(stack: Stack) -> Iterator[None]:
    """Let the server that made the dump be down."""
    source = stack.lab.host(SOURCE)
    source.stop_server()
    try:
        stack.wait_for_facts(SOURCE, answering=False)
        yield
    finally:
        source.start_server()
        one(stack, SOURCE, "START SLAVE")


def rebuild_from_dump(stack: Stack, *words: str) -> dict[str, Any]:
    """Rebuild the target under writes while the dump's server is down. Return the last line."""
    with source_down(stack), own_settings(stack, TARGET, OWN):
        for name in (PRIMARY, TARGET):
            stack.wait_for_facts(name)
        stack.lab.load_start(tps=20)
        try:
            _, lines = stack.rebuild(TARGET, "--method", "dump", *words, check=False)
        finally:
            stack.lab.load_stop()
    last_line: dict[str, Any] = lines[-1]
    return last_line


def kept_of(stack: Stack) -> dict[str, Any]:
    return {name: link(stack, TARGET).get(name) for name in KEPT}


def no_event_wrote(stack: Stack) -> None:
    """The copy has the event, with its definer, and it does not run though the scheduler does."""
    event = "SELECT STATUS, DEFINER FROM information_schema.EVENTS WHERE EVENT_NAME = 'e'"
    found = one(stack, TARGET, event)
    assert found == {"STATUS": "SLAVESIDE_DISABLED", "DEFINER": one(stack, SOURCE, event)["DEFINER"]}
    row = one(stack, TARGET, "SELECT COUNT(*) AS n, SLEEP(2.5), @@event_scheduler AS scheduler FROM clocks.ticks")
    assert (row["n"], row["scheduler"]) == (0, "ON")


def checkpoint(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(last_rebuild(stack)["checkpoint"])
    return found


def differs_and_is_put_back(stack: Stack) -> None:
    """Change a row of the copy before its full certificate, and roll back after the failure."""
    for name in (SOURCE, PRIMARY):
        stack.wait_for_facts(name)
    words = ("--method", "dump", "--full-certificate")
    stack.wait_for_possible_plan(TARGET, *words)
    before = stack.lab.host(TARGET).data_dir.stat().st_ino
    harm = writable("UPDATE shopping.items SET name = 'stool' WHERE id = 2")
    with at_step(stack, "catch-up", lambda: on_the_target(stack, *harm)):
        _, lines = stack.rebuild(TARGET, *words, check=False)
    error = lines[-1].get("error") or {}
    assert error.get("code") == "certificate.rows_differ", lines[-1]
    assert "shopping.items" in error["cause"]
    status, lines = stack.rebuild(TARGET, "--roll-back", check=False)
    assert (status, lines[-1]["status"]) == (0, "succeeded"), lines[-1]
    assert stack.lab.host(TARGET).data_dir.stat().st_ino == before
    wait_for("replication", lambda: replicates(stack, TARGET))
    has_the_same_data(stack)


def dump_of_others_is_observed(stack: Stack, folder: Path, program: str) -> None:
    """Run a dump as a cron job does, and look at its row."""
    account, file = stack.lab.accounts["owner"], folder / "client.cnf"
    file.write_text(
        f"[client]\nuser={account.user}\npassword={account.password}\nsocket={stack.lab.host(SOURCE).socket}\n"
    )
    before = last(stack)
    with slow_reader([program, f"--defaults-file={file}", "--all-databases"]):
        row = begun(stack, before, "the dump", status="running")
        assert (row["name"], row["origin"], row["method"]) == (SOURCE, "observed", "dump")
        assert row["evidence"]["tool"] == "mysqldump"
    begun(stack, before, "its end", status="ended")


def dump_without_gtid_is_refused(stack: Stack) -> None:
    """Make a dump by file and position. A copy from it could not attach to the primary, which the plan says."""
    without_gtid(stack)
    status, result = back_up(stack, SCHEDULE)
    assert status == 0, result
    position = record_of(stack, result)["position"]
    assert (position["gtid"], position["log_file"]) == ("", one(stack, SOURCE, "SHOW MASTER STATUS")["File"])
    assert codes(stack.plan(TARGET, "--method", "dump")) == {"archive.gtid"}


def without_gtid(stack: Stack) -> None:
    """Let the cluster replicate by file and position, as one that never used GTID."""
    for name in (SOURCE, TARGET):
        reaches(stack, name)
        where = link(stack, name)
        place = f"MASTER_LOG_FILE = '{where['Relay_Master_Log_File']}', MASTER_LOG_POS = {where['Exec_Master_Log_Pos']}"
        change_all(stack, name, "STOP SLAVE", f"CHANGE MASTER TO MASTER_AUTO_POSITION = 0, {place}")
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"):
        for name in (PRIMARY, SOURCE, TARGET):
            one(stack, name, f"SET GLOBAL gtid_mode = {mode}")
    for name in (SOURCE, TARGET):
        one(stack, name, "START SLAVE")
        wait_for("replication", lambda name=name: replicates(stack, name))  # type: ignore[misc]
    for name in (PRIMARY, SOURCE, TARGET):
        stack.wait_for_facts(name)


#: Their defaults differ between releases, so a session's setting cannot be distinguished from a person's.
UNKNOWN_DEFAULTS = {"optimizer_switch", "group_replication_consistency"}


def settings_of_sessions_are_not_named(stack: Stack) -> None:
    """Set every variable of a session, as drivers and dump programs do; then one of the server."""
    with stack.lab.connect(TARGET) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES")
        names = {row["Variable_name"] for row in cursor.fetchall()}
        for name in names - UNKNOWN_DEFAULTS - {"pseudo_thread_id", "gtid_next"}:
            with suppress(pymysql.Error):  # of the server alone, or read only
                cursor.execute(f"SET SESSION {name} = @@GLOBAL.{name}")
        cursor.execute("SELECT COUNT(*) AS n FROM performance_schema.variables_info WHERE VARIABLE_SOURCE = 'DYNAMIC'")
        assert cursor.fetchone()["n"] > 100
    assert named(stack) == ""
    one(stack, TARGET, "SET GLOBAL long_query_time = 3")
    assert "long_query_time = 3" in named(stack)
    one(stack, TARGET, "SET GLOBAL long_query_time = DEFAULT")


def named(stack: Stack) -> str:
    """Return what the plan says of settings that a restart would lose."""
    stack.wait_for_facts(TARGET)
    found = [item for item in stack.plan(TARGET)["findings"] if item["code"] == "target.run_time"]
    return "".join(item["seen"] for item in found if item["severity"] == "warning")
