"""A copy starts quiet: none of its events writes, its links are forgotten, and what only it has is found and blamed rightly."""

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.quiet import quiet_words
from dbops.engine.hosts.scripts import load
from lab.unpacked import why_no_mysql
from tests.e2e.host_state import is_replicating, last_rebuild, on_a_small_disk, one, when_step
from tests.faults.injectors import disks
from tests.scratch import left_in_tmp
from tests.stack import Stack, running_stack, wait_for
from tests.whole_file import write_whole

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
#: Of more than 64 MiB that a clone of the lab copies.
COPIED_BYTES = 30 * 1024**2


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False) as running:
        for statement in (
            "CREATE DATABASE clocks",
            "CREATE TABLE clocks.ticks (id VARCHAR(40) PRIMARY KEY)",
            "CREATE TABLE clocks.writes (id INT AUTO_INCREMENT PRIMARY KEY)",
        ):
            one(running, PRIMARY, statement)
        yield running


@contextmanager
def configured(stack: Stack, name: str, **options: str) -> Iterator[None]:
    """Let the host's option file have these options while its server is restarted on it."""
    host = stack.lab.host(name)
    before = host.config_file.read_text()
    lines = "".join(f"{key} = {value}\n" for key, value in options.items())
    kept = [
        line for line in before.splitlines(keepends=True) if line.split("=")[0].strip().replace("-", "_") not in options
    ]
    write_whole(host.config_file, "".join(kept).replace("[mysqld]\n", f"[mysqld]\n{lines}"))
    host.stop_server()
    host.start_server()
    try:
        yield
    finally:
        write_whole(host.config_file, before)


def clock_on_the_source(stack: Stack) -> None:
    """Have an event that is enabled on the source alone, as on a server that was a primary; its scheduler is off."""
    each = "ON SCHEDULE EVERY 1 SECOND DO INSERT INTO clocks.ticks VALUES (UUID())"
    for statement in ("SET sql_log_bin = 0", "DROP EVENT IF EXISTS clocks.e", f"CREATE EVENT clocks.e {each}"):
        with stack.lab.connect(SOURCE) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(statement)


def events(stack: Stack, name: str, event: str = "e") -> dict[str, Any]:
    return one(stack, name, f"SELECT STATUS, DEFINER FROM information_schema.EVENTS WHERE EVENT_NAME = '{event}'")


SETTINGS = "'event_scheduler', 'init_connect', 'read_only', 'super_read_only', 'offline_mode'"


def settings(stack: Stack, name: str) -> dict[str, str]:
    with stack.lab.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({SETTINGS})")
        return {row["Variable_name"]: row["Value"] for row in cursor.fetchall()}


def quieted(stack: Stack) -> set[str]:
    """Return the settings that the last rebuild changed on the started copy."""
    sql = 'SELECT "key" FROM dbops_executedcommand WHERE rebuild_id = ? AND "key" LIKE \'quiet.begin.%\''
    return {row["key"].removeprefix("quiet.begin.") for row in stack.rows(sql, last_rebuild(stack)["id"])}


@pytest.mark.situation("7", "succeeded; no event of the copy writes, and the history names them")
@pytest.mark.parametrize("strict", ["ON", "OFF"])
def test_enabled_event_of_the_source_writes_nothing_on_the_copy(stack: Stack, strict: str) -> None:
    clock_on_the_source(stack)
    definer = events(stack, SOURCE)["DEFINER"]
    with configured(stack, TARGET, event_scheduler="ON", gtid_strict_mode=strict):
        stack.lab.load_start(tps=20)
        stack.wait_for_possible_plan(TARGET)
        _, lines = stack.rebuild(TARGET, check=False)
        assert lines[-1]["status"] == "succeeded", lines[-1]
        stack.lab.load_stop()
        assert is_replicating(stack, TARGET)
        assert one(stack, TARGET, "SELECT @@event_scheduler AS on_, SLEEP(2.5)")["on_"] == "ON"
        assert one(stack, TARGET, "SELECT COUNT(*) AS n FROM clocks.ticks")["n"] == 0
        assert events(stack, TARGET) == {"STATUS": "SLAVESIDE_DISABLED", "DEFINER": definer}
        assert events(stack, SOURCE)["STATUS"] == "ENABLED"
    assert any("clocks.e" in line.get("text", "") for line in lines if line.get("step") == "start")


@pytest.mark.situation("7", "succeeded; an event that the target ran before runs again")
def test_targets_own_event_and_settings_are_put_back(stack: Stack) -> None:
    one(stack, PRIMARY, "CREATE EVENT clocks.own ON SCHEDULE EVERY 1 HOUR DO SET @x = 1")
    wait_for("the event", lambda: events(stack, TARGET, "own"))
    with stack.lab.connect(TARGET) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("ALTER EVENT clocks.own ENABLE")
    with configured(stack, TARGET, event_scheduler="ON", init_connect="SET @own = 'x'"):
        before, event = settings(stack, TARGET), events(stack, TARGET, "own")
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        assert settings(stack, TARGET) == before
        assert quieted(stack) == {"event_scheduler", "init_connect"}
        assert lets_in(stack, TARGET, "backup")
        assert events(stack, TARGET, "own")["STATUS"] == event["STATUS"] == "ENABLED"
        assert events(stack, TARGET, "own")["DEFINER"] == events(stack, PRIMARY, "own")["DEFINER"]


def lets_in(stack: Stack, name: str, account: str) -> bool:
    """Return whether an account can work on a server; a server that keeps clients out ends the connection."""
    try:
        with closing(stack.lab.connect(name, account)) as connection, connection.cursor() as cursor:
            return bool(cursor.execute("SELECT 1"))
    except pymysql.OperationalError as error:
        if error.args[0] not in (1184, 2006, 2013):
            raise
        return False


@pytest.mark.situation("errant", "failed: repoint.errant names the transactions and the server that wrote them")
@pytest.mark.situation("clients", "kept out until the copy is verified; dbops gets in")
def test_lower_number_of_another_server_is_found_and_blamed_on_it(stack: Stack) -> None:
    one(stack, SOURCE, "SET GLOBAL gtid_strict_mode = OFF")
    one(stack, SOURCE, "INSERT INTO clocks.ticks VALUES ('of the source alone')")
    for _ in range(3):
        one(stack, PRIMARY, "INSERT INTO clocks.writes VALUES (NULL)")
    goal = one(stack, PRIMARY, "SELECT @@gtid_binlog_pos AS gtid")["gtid"]
    one(stack, SOURCE, f"SELECT MASTER_GTID_WAIT('{goal}', 30) AS reached")
    stack.wait_for_facts(PRIMARY)
    stack.wait_for_facts(SOURCE)
    stack.wait_for_possible_plan(TARGET)
    status, lines = stack.rebuild(TARGET, check=False)
    assert status != 0, "the copy has a row that the primary lacks"
    error = lines[-1]["error"]
    assert error["code"] == "repoint.errant"
    assert f"-{stack.lab.host(SOURCE).server_id}-" in error["cause"]
    assert SOURCE in error["cause"]
    # the copy was not verified: it serves, but not to clients
    assert quieted(stack) >= {"init_connect"}
    assert not lets_in(stack, TARGET, "backup")
    assert lets_in(stack, TARGET, "admin")


@pytest.fixture(scope="module")
def mysql() -> Iterator[Stack]:
    if why_no_mysql():
        pytest.skip(why_no_mysql())
    with running_stack(web=False, flavor="mysql") as running:
        yield running


@pytest.mark.situation("7", "succeeded; no event of a clone writes")
@pytest.mark.situation("persisted", "the target's own stay, the source's are removed before the copy starts")
def test_event_of_a_cloned_source_writes_nothing_on_the_copy(mysql: Stack) -> None:
    one(mysql, SOURCE, "SET GLOBAL event_scheduler = OFF")
    for statement in ("CREATE DATABASE clocks", "CREATE TABLE clocks.ticks (id VARCHAR(40) PRIMARY KEY)"):
        one(mysql, PRIMARY, statement)
    wait_for("the table", lambda: one(mysql, SOURCE, "SHOW TABLES FROM clocks"))
    clock_on_the_source(mysql)
    for name in (SOURCE, PRIMARY):
        mysql.wait_for_facts(name)
    mysql.wait_for_possible_plan(TARGET, "--method", "clone")
    # the target's own persisted settings stay, in its private starts they have no effect; the source's do not come
    one(mysql, SOURCE, "SET PERSIST max_connections = 66")
    one(mysql, SOURCE, "SET PERSIST innodb_lock_wait_timeout = 66")
    one(mysql, TARGET, "SET PERSIST max_connections = 77")
    one(mysql, TARGET, "SET PERSIST event_scheduler = ON")
    before = settings(mysql, TARGET)
    _, lines = mysql.rebuild(TARGET, "--method", "clone", check=False)
    assert lines[-1]["status"] == "succeeded", lines[-1]
    assert one(mysql, TARGET, "SELECT COUNT(*) AS n, SLEEP(2.5) FROM clocks.ticks")["n"] == 0
    row = one(
        mysql, TARGET, "SELECT @@event_scheduler AS scheduler, @@server_uuid AS own, @@GLOBAL.gtid_executed AS gtid"
    )
    assert row["scheduler"] == "ON"
    assert settings(mysql, TARGET) == before
    assert quieted(mysql) == {"event_scheduler", "super_read_only", "offline_mode"}
    assert row["own"] not in row["gtid"]
    persisted = one(mysql, TARGET, "SELECT @@max_connections AS own, @@innodb_lock_wait_timeout AS of_source")
    assert (persisted["own"], persisted["of_source"]) == (77, 50)
    assert one(mysql, TARGET, "SELECT COUNT(*) AS n FROM mysql.user WHERE user LIKE 'dbops-%'")["n"] == 0
    assert events(mysql, TARGET)["STATUS"] in ("SLAVESIDE_DISABLED", "REPLICA_SIDE_DISABLED")
    assert events(mysql, TARGET)["DEFINER"] == events(mysql, SOURCE)["DEFINER"]
    assert json.loads(last_rebuild(mysql)["checkpoint"])["quieted"]


MARK = ".dbops-0123456789abcdef"


def replace_persisted(folder: Path, old: str, new: str) -> None:
    """Pack the persisted settings of a stopped server as its own, and leave others in the data, as a copy has its source's."""
    file = folder / "mysqld-auto.cnf"
    subprocess.run(["tar", "-c", "-f", f"{MARK}.inside", file.name], cwd=folder, check=True, timeout=60)
    text = file.read_text()
    assert old in text
    write_whole(file, text.replace(old, new))


def start_as_a_copy(stack: Stack, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start the stopped server of the target as a rebuild does with a copy that has all of its data."""
    host = stack.lab.host(TARGET)
    status, owner = host.data_dir.stat(), host.data_dir.owner()
    mark = host.data_dir / MARK
    mark.touch()
    version = one(stack, PRIMARY, "SELECT @@version AS version")["version"]
    programs = stack.lab.flavor.programs
    words = quiet_words(
        flavor_for(version, "mysql"),
        client=programs["mysql"],
        server=programs["mysqld"],
        defaults_file=str(host.config_file),
    )
    script = load("common", "inside", "server_log", "service", "quiet_copy", "start")
    identity = f"{status.st_dev}:{status.st_ino}"
    arguments = [host.data_dir, identity, "0123456789abcdef", owner, host.config_file, "", *words, host.start_script]
    folder.mkdir()
    try:
        return subprocess.run(
            ["bash", "-c", script, "dbops", *map(str, arguments)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        mark.unlink()


@pytest.mark.situation("links", "forgotten before the copy starts; nothing is replayed")
@pytest.mark.situation("persisted", "the target's own stay, the source's are removed before the copy starts")
def test_links_in_the_data_are_forgotten_before_the_copy_starts(mysql: Stack, tmp_path: Path) -> None:
    host = mysql.lab.host(TARGET)
    assert one(mysql, TARGET, "SHOW REPLICA STATUS")
    one(mysql, TARGET, "SET PERSIST max_connections = 77")
    # links that need not run to come with the data: of a second source, and of a group
    login = "SOURCE_USER = 'u', SOURCE_PASSWORD = 'p'"
    one(mysql, TARGET, f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.9', {login} FOR CHANNEL 'second'")
    one(mysql, TARGET, f"CHANGE REPLICATION SOURCE TO {login} FOR CHANNEL 'group_replication_recovery'")
    with configured(mysql, TARGET, skip_replica_start="OFF"):
        assert one(mysql, TARGET, "SHOW REPLICA STATUS")["Replica_SQL_Running"] == "Yes"
        host.stop_server()
        replace_persisted(host.data_dir, '"77"', '"66"')
        done = start_as_a_copy(mysql, tmp_path / "job")
        assert done.returncode == 0, done
        assert one(mysql, TARGET, "SHOW REPLICA STATUS") == {}
        for table in ("slave_master_info", "slave_relay_log_info", "slave_worker_info"):
            assert one(mysql, TARGET, f"SELECT COUNT(*) AS n FROM mysql.{table}")["n"] == 0, table
        left = [path.name for path in host.data_dir.iterdir() if path.name.startswith("relay-")]
        assert left == [], "relay logs of named channels"
        assert one(mysql, TARGET, "SELECT @@max_connections AS n")["n"] == 77
        before = one(mysql, PRIMARY, "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
        assert one(mysql, TARGET, f"SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{before}') AS errant")["errant"] == ""
    assert left_in_tmp("dbops-quiet.*") == []


def clone_on_a_disk_that_fills(stack: Stack) -> dict[str, Any]:
    """Clone onto a file system whose room ends in the middle of the data; return the rebuild's last line."""
    host = stack.lab.host(TARGET)
    with on_a_small_disk(host, 4000):
        stack.wait_for_facts(TARGET, answering=False)
        stack.wait_for_possible_plan(TARGET, "--method", "clone")

        def fill() -> bool:
            [row] = stack.rows("SELECT progress FROM dbops_rebuildstep WHERE name = 'stream' ORDER BY id DESC LIMIT 1")
            if (json.loads(row["progress"]).get("bytes") or 0) < COPIED_BYTES:
                return False
            disks.resize(host.data_dir, host.data_bytes() // disks.MEBIBYTE + 8)
            return True

        done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            hand = pool.submit(when_step, stack, "stream", fill, done)
            try:
                _, lines = stack.rebuild(TARGET, "--method", "clone", check=False)
            finally:
                done.set()
            hand.result(60)
    return lines[-1]


@pytest.mark.situation("G3", "failed with the code of a full disk")
def test_disk_that_fills_in_a_clone_is_named(mysql: Stack) -> None:
    slow = {"max_data_bandwidth": "40", "autotune_concurrency": "OFF", "max_concurrency": "1"}
    with configured(mysql, TARGET, **{f"loose_clone_{key}": value for key, value in slow.items()}):
        ended = clone_on_a_disk_that_fills(mysql)
    assert (ended["status"], ended["error"].get("code")) == ("failed", "stream.disk_full"), ended["error"]
