"""MySQL replicas rebuilt by stream with XtraBackup, under writes: also what InnoDB alone does not have, and each binary log format."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.hosts import LabHost
from lab.unpacked import MYSQL
from tests.situations.test_quiet_start import clock_on_the_source, configured, events, quieted
from tests.situations.test_stored_data import reread
from tests.stack import Stack, running_stack, wait_for
from tests.whole_file import write_whole

from .host_state import (
    checksums,
    follows,
    is_replicating,
    last_rebuild,
    one,
    same_data_at_one_gtid,
    source_is_given_back,
    wait_for_primary,
)
from .settings import own_settings, relaxed_and_put_back, values_of
from .test_managed_backup import back_up, make_schedule
from .test_variants import paused
from .xtrabackup import FLAVORS

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
#: Unusual values.
OWN = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "7"}
#: What a copy by a tool of InnoDB can lose: another engine, partitions, a schema with blanks in its name.
OTHER_TABLES = (
    "CREATE DATABASE `sbtest of a b`",
    "CREATE TABLE `sbtest of a b`.`t t` (id INT PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    "INSERT INTO `sbtest of a b`.`t t` (id) VALUES (1), (2)",
    "CREATE TABLE sbtest.old_engine (id INT PRIMARY KEY, body VARCHAR(90)) ENGINE=MyISAM",
    "INSERT INTO sbtest.old_engine VALUES (1, 'one'), (2, 'two')",
    "CREATE TABLE sbtest.parts (id INT, at INT, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)"
    " (PARTITION early VALUES LESS THAN (100), PARTITION late VALUES LESS THAN MAXVALUE)",
    "INSERT INTO sbtest.parts VALUES (1, 1), (2, 100), (3, 1000)",
    "CREATE DATABASE clocks",
    "CREATE TABLE clocks.ticks (id VARCHAR(40) PRIMARY KEY)",
)


@pytest.fixture(scope="module", params=FLAVORS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with running_stack(web=False, flavor=request.param, parallel_appliers=4) as running:
        for statement in OTHER_TABLES:
            one(running, PRIMARY, statement)
        for name in (SOURCE, TARGET):
            wait_for_primary(running, name)
        measure_again(running, SOURCE)
        yield running


def measure_again(stack: Stack, name: str) -> None:
    """Let the next probe count tables and sizes again: it does so every five minutes."""
    record = stack.facts(name)
    record["datadir"]["measured_at"] = "2000-01-01T00:00:00+00:00"
    sql = "UPDATE dbops_instancestate SET record = ? WHERE instance_id = (SELECT id FROM dbops_instance WHERE name = ?)"
    stack.write(sql, json.dumps(record), name)
    stack.wait_for_facts(name)
    assert stack.facts(name)["server"]["foreign_engines"] == {"MyISAM": 1}


@pytest.fixture(autouse=True)
def same_machines(stack: Stack) -> Iterator[None]:
    """After each of these the source is as it was found, and no claim is left."""
    yield
    stack.lab.load_stop()
    for row in stack.rows("SELECT uid FROM dbops_rebuild ORDER BY id DESC LIMIT 1"):
        source_is_given_back(stack, row["uid"])


def rebuild_under_writes(stack: Stack, *words: str) -> list[dict[str, Any]]:
    """Rebuild the target while the primary is written to; the data is the same then."""
    stack.lab.load_start(tps=50)
    stack.wait_for_possible_plan(TARGET, *words)
    _, lines = stack.rebuild(TARGET, *words)
    assert lines[-1]["status"] == "succeeded", lines[-1]
    assert follows(stack, TARGET, PRIMARY)
    same_data_at_one_gtid(stack, TARGET)
    return lines


@pytest.mark.by_hand("MySQL 5.7", "xbstream")
@pytest.mark.by_hand("MySQL 5.7", "catch-up")
def test_wiped_replica_is_rebuilt_under_writes(stack: Stack) -> None:
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_facts(TARGET, answering=False)
    with own_settings(stack, TARGET, OWN):
        lines = rebuild_under_writes(stack)
    assert {step["state"] for step in lines[-1]["steps"]} == {"done"}
    uuids = {one(stack, name, "SELECT @@server_uuid AS u")["u"] for name in (TARGET, SOURCE, PRIMARY)}
    assert len(uuids) == 3
    assert {"`sbtest of a b`.`t t`", "`sbtest`.`old_engine`", "`sbtest`.`parts`"} <= checksums(stack, TARGET).keys()
    changed = relaxed_and_put_back(stack)
    assert changed["innodb_flush_log_at_trx_commit"] == ("2", "1")
    assert changed["sync_binlog"] == ("0", "7")
    assert values_of(stack, TARGET, *OWN) == OWN
    assert appliers(stack) == 4


def appliers(stack: Stack) -> int:
    found = one(stack, TARGET, "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE '%_parallel_workers' AND Value > 0")
    return int(found["Value"])


def test_certificate_names_what_was_compared(stack: Stack) -> None:
    rebuild_under_writes(stack, "--full-certificate")
    found = json.loads(last_rebuild(stack)["checkpoint"])["certificate"]
    assert found["compared_with"] == SOURCE
    assert {"account", "column", "grant", "index", "partition", "schema", "table"} <= set(found["objects"])
    assert found["unchecked"] == {}
    assert found["rows"]["count"] > 1000


@pytest.mark.parametrize("value", ["STATEMENT", "MIXED"])
def test_source_with_other_binary_logs_is_copied(stack: Stack, value: str) -> None:
    """Statements that count up would show a transaction that was applied twice, or not at all."""
    before = one(stack, PRIMARY, "SELECT @@GLOBAL.binlog_format AS f")["f"]
    with binary_logs(stack, value, before):
        one(stack, PRIMARY, "CREATE TABLE IF NOT EXISTS sbtest.counter (id INT PRIMARY KEY, n INT)")
        one(stack, PRIMARY, "REPLACE INTO sbtest.counter VALUES (1, 0)")
        for _ in range(20):
            one(stack, PRIMARY, "UPDATE sbtest.counter SET n = n + 1")
        wait_for_primary(stack, SOURCE)
        stack.wait_for_facts(SOURCE)
        rebuild_under_writes(stack)
        assert paused(stack) is (value == "STATEMENT"), "temporary tables of statements are in no file"
        assert one(stack, TARGET, "SELECT n FROM sbtest.counter")["n"] == 20


@contextmanager
def binary_logs(stack: Stack, value: str, before: str) -> Iterator[None]:
    """Let the servers write another format; one that writes statements refuses rows of another server."""

    def write(value: str, names: tuple[str, ...]) -> None:
        stack.lab.load_stop()
        for name in (SOURCE, TARGET):
            wait_for_primary(stack, name)
        for name in names:
            one(stack, name, f"SET GLOBAL binlog_format = {value}")
            if name != PRIMARY:  # an applier keeps the format of its start
                replica_does(stack, name)

    write(value, (PRIMARY, SOURCE, TARGET))
    try:
        yield
    finally:
        write(before, (SOURCE, TARGET, PRIMARY))
        stack.wait_for_facts(SOURCE)


def test_probe_reads_the_log_sequence_number(stack: Stack) -> None:
    def read() -> int:
        [found] = re.findall(
            r"^Log sequence number:?\s+(\d+)", one(stack, SOURCE, "SHOW ENGINE INNODB STATUS")["Status"], re.M
        )
        return int(found)

    before = read()
    seen = stack.wait_for_facts(SOURCE)["server"]["redo_lsn"]
    assert before <= seen <= read()


def words_of(stack: Stack) -> tuple[str, str]:
    """Return how this series names a source, and the begin of the statement that sets it."""
    is_old = "SLAVE" in stack.lab.flavor.show_replication
    return ("MASTER", "CHANGE MASTER TO") if is_old else ("SOURCE", "CHANGE REPLICATION SOURCE TO")


def replica_does(stack: Stack, name: str, *statements: str) -> None:
    """Run statements of replication in the words of this series, between its stop and start."""
    is_old = "SLAVE" in stack.lab.flavor.show_replication
    for statement in ("STOP SLAVE", *statements, "START SLAVE"):
        one(stack, name, statement if is_old else statement.replace("SLAVE", "REPLICA"))


def test_settings_of_replication_are_kept(stack: Stack) -> None:
    word, change = words_of(stack)
    columns = ("SQL_Delay", "Connect_Retry", f"{word.capitalize()}_Retry_Count", "Replicate_Wild_Ignore_Table")

    def settings() -> dict[str, Any]:
        row = one(stack, TARGET, stack.lab.flavor.show_replication)
        more = "SELECT HEARTBEAT_INTERVAL AS h FROM performance_schema.replication_connection_configuration"
        return {name: row[name] for name in columns} | one(stack, TARGET, more)

    own = f"{word}_DELAY = 3, {word}_CONNECT_RETRY = 5, {word}_RETRY_COUNT = 77, {word}_HEARTBEAT_PERIOD = 3"
    replica_does(
        stack,
        TARGET,
        f"{change} {own}",
        "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('trash.%', 'a_b.c%')",
    )
    before = settings()
    assert (before["SQL_Delay"], before["Replicate_Wild_Ignore_Table"]) == (3, "trash.%,a_b.c%")
    try:
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        assert settings() == before
        assert is_replicating(stack, TARGET)
    finally:
        plain = f"{word}_DELAY = 0, {word}_CONNECT_RETRY = 2, {word}_HEARTBEAT_PERIOD = 5"
        replica_does(stack, TARGET, f"{change} {plain}", "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ()")


def test_copy_starts_quiet_and_without_the_links_of_its_source(stack: Stack) -> None:
    """The data has the source's connection to its own source, and an event that is enabled on the source alone."""
    clock_on_the_source(stack)
    with configured(stack, TARGET, event_scheduler="ON", relay_log_recovery="ON"):
        replica_does(stack, TARGET)
        rebuild_under_writes(stack)
        row = one(stack, TARGET, "SELECT @@event_scheduler AS scheduler, @@super_read_only AS s, SLEEP(2.5)")
        assert (row["scheduler"], row["s"]) == ("ON", 0)
        assert one(stack, TARGET, "SELECT COUNT(*) AS n FROM clocks.ticks")["n"] == 0
        assert events(stack, TARGET)["STATUS"] in ("SLAVESIDE_DISABLED", "REPLICA_SIDE_DISABLED")
        assert quieted(stack) == {"event_scheduler", "super_read_only", "offline_mode"}


def test_encrypted_source_is_refused_by_methods_that_copy_its_files(stack: Stack) -> None:
    """Prepare would need the source's keys on the target. The target's server encrypts the rows of a dump itself."""
    folder = Path(one(stack, SOURCE, "SELECT @@plugin_dir AS place")["place"])
    if not (folder / "keyring_file.so").exists():
        pytest.skip(f"this MySQL has no keyring_file plugin in {folder}")
    for host in stack.lab.hosts:
        own = stack.lab.folder / "keys" / host.name / "keyring"
        own.parent.mkdir(parents=True)
        own.parent.chmod(0o777)
        with_keyring(host, own)
    for name in (SOURCE, TARGET):
        replica_does(stack, name)
    one(stack, PRIMARY, "CREATE TABLE sbtest.secret (id INT PRIMARY KEY) ENCRYPTION = 'Y'")
    one(stack, PRIMARY, "INSERT INTO sbtest.secret VALUES (1), (2)")
    wait_for_primary(stack, SOURCE)
    try:
        found = {method: encryption_finding(stack, method) for method in ("xbstream", "archive", "dump")}
        assert found == {"xbstream": "refusal", "archive": "refusal", "dump": "ok"}
        programs, own = stack.lab.host(SOURCE).sshd.programs, MYSQL.folder()
        programs.mkdir(exist_ok=True)
        if own and not (programs / "mysqldump").exists():
            (programs / "mysqldump").symlink_to(MYSQL.programs(own)["mysqldump"])
        make_schedule(stack, "encrypted", "dump")
        status, result = back_up(stack, "encrypted")
        assert status == 0, result
        reread(stack, PRIMARY, SOURCE, TARGET)
        stack.rebuild(TARGET, "--method", "dump")
        same_data_at_one_gtid(stack, TARGET)
        assert one(stack, TARGET, "SELECT COUNT(*) AS n FROM sbtest.secret")["n"] == 2
    finally:
        one(stack, PRIMARY, "DROP TABLE sbtest.secret")
        wait_for_primary(stack, SOURCE)
        reread(stack, PRIMARY, SOURCE, TARGET)


def encryption_finding(stack: Stack, method: str) -> str | None:
    reread(stack, PRIMARY, SOURCE, TARGET)
    plan = stack.plan(TARGET, "--method", method)
    return {item["code"]: item["severity"] for item in plan["findings"]}.get("pair.encryption")


def with_keyring(host: LabHost, file: Path) -> None:
    text = host.config_file.read_text()
    lines = f"early-plugin-load = keyring_file.so\nkeyring-file-data = {file}\n"
    write_whole(host.config_file, text.replace("[mysqld]\n", f"[mysqld]\n{lines}"))
    host.stop_server()
    host.start_server()


def turn_gtid_off(stack: Stack) -> None:
    """Let every server of the lab replicate by file and position, online, and start so."""
    word, change = words_of(stack)
    names = [host.name for host in stack.lab.hosts]
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        if mode == "OFF_PERMISSIVE":
            for name in (SOURCE, TARGET):
                wait_for_primary(stack, name)
                replica_does(stack, name, f"{change} {word}_AUTO_POSITION = 0")
        for name in names:
            one(stack, name, f"SET GLOBAL gtid_mode = {mode}")
    one(stack, PRIMARY, "INSERT INTO sbtest.parts VALUES (4, 4)")
    for name in (SOURCE, TARGET):
        wait_for("the anonymous row", lambda name=name: one(stack, name, "SELECT 1 FROM sbtest.parts WHERE id = 4"))
    for host in stack.lab.hosts:
        one(stack, host.name, "SET GLOBAL gtid_mode = OFF")
        text = host.config_file.read_text()
        write_whole(host.config_file, text.replace("gtid-mode = ON", "gtid-mode = OFF"))
    for name in names:
        stack.wait_for_facts(name)


def appliers_of_the_source(stack: Stack, count: int) -> None:
    name = "slave_parallel_workers" if words_of(stack)[0] == "MASTER" else "replica_parallel_workers"
    replica_does(stack, SOURCE, f"SET GLOBAL {name} = {count}")
    stack.wait_for_facts(SOURCE)


def same_data_at_one_position(stack: Stack) -> None:
    stack.lab.load_stop()
    show = "SHOW BINARY LOG STATUS" if words_of(stack)[0] == "SOURCE" else "SHOW MASTER STATUS"
    goal = one(stack, PRIMARY, show)
    wait = "SOURCE_POS_WAIT" if words_of(stack)[0] == "SOURCE" else "MASTER_POS_WAIT"
    reached = one(stack, TARGET, f"SELECT {wait}(%s, %s, 60) AS events", goal["File"], goal["Position"])["events"]
    assert reached is not None
    assert reached >= 0
    assert checksums(stack, TARGET) == checksums(stack, PRIMARY)


def test_replica_without_gtid_is_rebuilt_by_file_and_position(stack: Stack) -> None:
    """The last one: GTID stays off."""
    turn_gtid_off(stack)
    appliers_of_the_source(stack, 4)
    refused = {item["code"] for item in stack.plan(TARGET)["findings"] if item["severity"] == "refusal"}
    assert refused == {"source.gtid"}
    appliers_of_the_source(stack, 0)
    stack.lab.load_start(tps=50)
    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded", lines[-1]
    assert follows(stack, TARGET, PRIMARY)
    same_data_at_one_position(stack)
