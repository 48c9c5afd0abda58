"""Data that a copy would miss or could not read: refused or named before anything is stopped, and right where it is possible."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.checks import server_user
from lab.hosts import make_folder
from tests.e2e.host_state import is_replicating, last_rebuild, nothing_changes, one, same_data_at_one_gtid
from tests.stack import Stack, running_stack, wait_for
from tests.whole_file import write_whole

from .plugins import plugin_folder

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"


def run(stack: Stack, name: str, *statements: str) -> None:
    with stack.lab.connect(name) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def caught_up(stack: Stack) -> None:
    def position(name: str) -> Any:
        return one(stack, name, "SELECT @@gtid_binlog_pos AS at")["at"]

    wait_for("replication", lambda: position(PRIMARY) == position(SOURCE) == position(TARGET))


def reread(stack: Stack, *names: str) -> None:
    """Wait for probes that read everything, as those of a new instance do."""
    asked = stack.now()

    def is_read(name: str) -> bool:
        stack.write(
            "UPDATE dbops_instancestate SET record = '{}' WHERE instance_id ="
            " (SELECT id FROM dbops_instance WHERE name = ?)",
            name,
        )
        # A probe that was under way writes once more what it knew before.
        read_at = stack.wait_for_facts(name, answering=True).get("stored_at")
        return bool(read_at) and datetime.fromisoformat(read_at) > asked

    for name in names:
        wait_for(f"facts of the data of {name}", partial(is_read, name), 120)


def findings(stack: Stack, *words: str) -> dict[str, str]:
    """Return the severity of each finding that is not ok, by code."""
    found = stack.plan(TARGET, *words)["findings"]
    return {item["code"]: item["severity"] for item in found if item["severity"] != "ok"}


def refused(stack: Stack, code: str) -> None:
    """Have a rebuild refused because of one finding, with nothing changed anywhere."""
    assert findings(stack).get(code) == "refusal"
    with nothing_changes(stack):
        done = stack.manage("rebuild", TARGET, "--reason", "a test", "--json", check=False)
        assert json.loads(done.stdout)["error"]["code"] == "plan.refused"


@contextmanager
def configured(stack: Stack, name: str, *lines: str) -> Iterator[None]:
    """Run a server with more lines in its option file."""
    host = stack.lab.host(name)
    before = host.config_file.read_text()
    write_whole(host.config_file, before.replace("[mysqld]\n", "\n".join(["[mysqld]", *lines, ""]), 1))
    host.stop_server()
    host.start_server()
    stack.wait_for_facts(name, answering=True)
    try:
        yield
    finally:
        write_whole(host.config_file, before)
        host.stop_server()
        host.start_server()
        stack.wait_for_facts(name, answering=True)


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk2")
    for path in (folder, *list(folder.parents)[:3]):
        os.chmod(path, 0o755)  # noqa: S103 - the server's user walks through
    make_folder(folder, owner=server_user())
    return folder


@pytest.mark.situation("3", "refused: a source with replication filters lacks data")
def test_source_with_replication_filters_is_refused(stack: Stack) -> None:
    filters = "replicate-wild-ignore-table = staging.%"
    with configured(stack, SOURCE, filters):
        refused(stack, "source.filters")
        with configured(stack, TARGET, filters):
            assert findings(stack)["source.filters"] == "warning"
    assert "source.filters" not in findings(stack)


@pytest.mark.situation("4", "refused: DATA DIRECTORY tables are outside the data directory")
@pytest.mark.situation("F2", "refused: DATA DIRECTORY tables are outside the data directory")
def test_source_with_tables_outside_is_refused_and_rebuilt_when_they_are_moved(stack: Stack, outside: Path) -> None:
    run(
        stack,
        SOURCE,
        "SET sql_log_bin = 0",
        "CREATE DATABASE far",
        f"CREATE TABLE far.t (id INT PRIMARY KEY) DATA DIRECTORY='{outside}'",
    )
    try:
        # facts of some minutes ago do not show it: the check of the live servers does
        code, _ = stack.rebuild(TARGET, check=False)
        assert code != 0
        assert json.loads(last_rebuild(stack)["error"])["code"] == "plan.changed"
        assert is_replicating(stack, TARGET)
        refused(stack, "source.outside_files")
    finally:
        run(stack, SOURCE, "SET sql_log_bin = 0", "DROP DATABASE far")
    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    same_data_at_one_gtid(stack, TARGET)


@pytest.mark.situation("6", "warned: MEMORY tables arrive empty")
def test_memory_tables_are_named_in_the_plan(stack: Stack) -> None:
    run(stack, PRIMARY, "CREATE DATABASE quick", "CREATE TABLE quick.t (id INT PRIMARY KEY) ENGINE=MEMORY")
    caught_up(stack)
    try:
        code, _ = stack.rebuild(TARGET, check=False)
        assert code != 0, "a warning that was not accepted"
        assert json.loads(last_rebuild(stack)["error"])["code"] == "plan.changed"
        assert findings(stack)["source.memory_tables"] == "warning"
        stack.rebuild(TARGET)
        run(stack, PRIMARY, "DELETE FROM quick.t", "INSERT INTO quick.t VALUES (1)")
        caught_up(stack)
        assert one(stack, TARGET, "SELECT COUNT(*) AS n FROM quick.t")["n"] == 1
    finally:
        run(stack, PRIMARY, "DROP DATABASE quick")
        caught_up(stack)


@pytest.mark.situation("link", "warned: a database that is a symbolic link becomes a directory")
def test_database_that_is_a_link_arrives_as_a_directory(stack: Stack, outside: Path) -> None:
    run(
        stack,
        PRIMARY,
        "CREATE DATABASE linked",
        "CREATE TABLE linked.t (id INT PRIMARY KEY)",
        "INSERT INTO linked.t VALUES (7)",
    )
    caught_up(stack)
    host = stack.lab.host(SOURCE)
    host.stop_server()
    shutil.move(host.data_dir / "linked", outside / "linked")
    (host.data_dir / "linked").symlink_to(outside / "linked")
    host.start_server()
    try:
        reread(stack, SOURCE)
        assert findings(stack)["source.schema_links"] == "warning"
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        arrived = stack.lab.host(TARGET).data_dir / "linked"
        assert arrived.is_dir()
        assert not arrived.is_symlink()
        same_data_at_one_gtid(stack, TARGET)
    finally:
        run(stack, PRIMARY, "DROP DATABASE linked")
        caught_up(stack)
        (host.data_dir / "linked").unlink(missing_ok=True)


@pytest.mark.situation("11", "kept: directories and files in the data directory that the option file names")
def test_named_directories_and_files_in_the_data_directory_are_kept(stack: Stack) -> None:
    host = stack.lab.host(TARGET)
    data = host.data_dir
    for folder, mode in (("binlogs", 0o750), ("tmpdir", 0o770), ("ssl", 0o700)):
        make_folder(data / folder, owner=server_user(), mode=mode)
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab", "-days", "9"]
    files = ["-keyout", str(data / "ssl/key.pem"), "-out", str(data / "ssl/cert.pem")]
    subprocess.run([*certificate, *files], check=True, capture_output=True, timeout=60)
    for path in (data / "ssl").iterdir():
        shutil.chown(path, server_user())
    (data / "ssl/key.pem").chmod(0o600)
    before = host.config_file.read_text()
    kept = [line for line in before.splitlines() if not line.startswith(("tmpdir", "log-bin", "log_bin"))]
    named = [
        f"tmpdir = {data}/tmpdir",
        f"log-bin = {data}/binlogs/x",
        "ssl-cert = ssl/cert.pem",
        f"ssl-key = {data}/ssl/key.pem",
        "ignore-db-dirs = binlogs",
        "ignore-db-dirs = ssl",
        "ignore-db-dirs = tmpdir",
    ]
    write_whole(host.config_file, "\n".join(kept).replace("[mysqld]\n", "\n".join(["[mysqld]", *named, ""]), 1) + "\n")
    try:
        host.stop_server()
        host.start_server()
        stack.wait_for_possible_plan(TARGET)
        fingerprint = (data / "ssl/cert.pem").read_text()
        stack.rebuild(TARGET)
        same_data_at_one_gtid(stack, TARGET)
        assert (data / "ssl/cert.pem").read_text() == fingerprint
        modes = {path: (data / path).stat().st_mode & 0o777 for path in ("binlogs", "tmpdir", "ssl", "ssl/key.pem")}
        assert modes == {"binlogs": 0o750, "tmpdir": 0o770, "ssl": 0o700, "ssl/key.pem": 0o600}
        assert {(data / path).owner() for path in modes} == {server_user()}
        assert one(stack, TARGET, "SHOW VARIABLES LIKE 'have_ssl'")["Value"] == "YES"
        assert not list(data.glob(".dbops-*")), "what was packed is removed"
    finally:
        host.stop_server()
        write_whole(host.config_file, before)
        host.start_server()
        stack.wait_for_facts(TARGET, answering=True)


@pytest.mark.situation("layout", "refused: a start-up setting of the target's option file differs from the data")
def test_option_file_that_differs_from_the_data_is_refused(stack: Stack) -> None:
    named = "[mysqld]\ninnodb-data-file-path = ibdata1:512M:autoextend\n"
    with edited(stack.lab.host(TARGET).config_file, "[mysqld]\n", named):
        stack.wait_for_facts(TARGET)
        refused(stack, "pair.settings")


@pytest.mark.situation("chained", "it goes back to the intermediate replica after it was verified at the primary")
def test_target_that_follows_an_intermediate_replica_goes_back_to_it(stack: Stack) -> None:
    try:
        follow(stack, SOURCE)
        plan = stack.wait_for_possible_plan(TARGET)
        assert plan["upstream"]["name"] == SOURCE
        stack.lab.load_start(tps=20)
        _, lines = stack.rebuild(TARGET)
        assert lines[-1]["status"] == "succeeded"
        assert one(stack, TARGET, "SHOW SLAVE STATUS")["Master_Host"] == stack.lab.host(SOURCE).address
        assert is_replicating(stack, TARGET)
        stack.lab.load_stop()
        goal = one(stack, PRIMARY, "SELECT @@gtid_binlog_pos AS gtid")["gtid"]
        assert one(stack, TARGET, f"SELECT MASTER_GTID_WAIT('{goal}', 20) AS reached")["reached"] == 0
        run(stack, SOURCE, "STOP SLAVE SQL_THREAD")
        stack.wait_for_facts(SOURCE)
        assert stack.plan(TARGET)["upstream"] is None
    finally:
        run(stack, SOURCE, "START SLAVE SQL_THREAD")
        follow(stack, PRIMARY)


def follow(stack: Stack, name: str) -> None:
    change = f"CHANGE MASTER TO MASTER_HOST = '{stack.lab.host(name).address}'"
    run(stack, TARGET, "STOP SLAVE", change, "START SLAVE")
    wait_for("replication", lambda: is_replicating(stack, TARGET))
    stack.wait_for_facts(TARGET, answering=True)


@pytest.mark.situation("20", "rebuilt: a source without log_slave_updates; the copy attaches to the primary at once")
def test_copy_of_a_source_without_its_replicated_writes_attaches_to_the_primary(stack: Stack) -> None:
    host = stack.lab.host(SOURCE)
    with edited(host.config_file, "log-slave-updates = ON", "log-slave-updates = OFF"):
        host.stop_server()
        host.start_server()
        run(stack, PRIMARY, "CREATE DATABASE late", "CREATE TABLE late.t (id INT PRIMARY KEY)")
        stack.lab.load_start(tps=50)
        try:
            stack.wait_for_facts(SOURCE, answering=True)
            stack.wait_for_possible_plan(TARGET)
            stack.rebuild(TARGET)
        finally:
            stack.lab.load_stop()
        assert one(stack, TARGET, "SHOW ALL SLAVES STATUS")["Master_Host"] == stack.lab.host(PRIMARY).address
        wait_for("replication", lambda: is_replicating(stack, TARGET) and is_replicating(stack, SOURCE))
        positions = [f"SELECT @@gtid_{name}_pos AS at" for name in ("binlog", "slave")]
        wait_for(
            "the source",
            lambda: one(stack, PRIMARY, positions[0])["at"] == one(stack, SOURCE, positions[1])["at"],
        )
        sums = "CHECKSUM TABLE late.t, " + ", ".join(tables(stack))
        assert rows(stack, TARGET, sums) == rows(stack, SOURCE, sums) == rows(stack, PRIMARY, sums)
    host.stop_server()
    host.start_server()
    run(stack, PRIMARY, "DROP DATABASE late")


def rows(stack: Stack, name: str, sql: str) -> list[Any]:
    with stack.lab.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def tables(stack: Stack) -> list[str]:
    found = rows(
        stack,
        PRIMARY,
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) AS name FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
        " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'late')",
    )
    return [next(iter(row.values())) if isinstance(row, dict) else row[0] for row in found]


@pytest.fixture(scope="module")
def encrypted() -> Iterator[Stack]:
    """A lab whose servers encrypt with the keys of one file, at one path, with an encrypted table of each engine."""
    plugins = plugin_folder()
    with running_stack(web=False) as running:
        keys = running.lab.folder / "keys"
        keys.write_text("1;" + "a7" * 32 + "\n2;" + "b8" * 32 + "\n")
        shutil.chown(keys, server_user())
        keys.chmod(0o600)
        for host in running.lab.hosts:
            lines = [
                f"plugin-dir = {plugins}",
                "plugin-load-add = file_key_management",
                f"file-key-management-filename = {keys}",
                "innodb-encrypt-log = ON",
                "encrypt-binlog = ON",
                "aria-encrypt-tables = ON",
            ]
            text = host.config_file.read_text()
            write_whole(host.config_file, text.replace("[mysqld]\n", "\n".join(["[mysqld]", *lines, ""]), 1))
            host.stop_server()
            host.start_server()
        run(
            running,
            PRIMARY,
            "CREATE DATABASE safe",
            "CREATE TABLE safe.i (id INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=2",
            "CREATE TABLE safe.a (id INT PRIMARY KEY) ENGINE=Aria TRANSACTIONAL=1",
            "INSERT INTO safe.i VALUES (1), (2)",
            "INSERT INTO safe.a VALUES (1)",
        )
        caught_up(running)
        reread(running, PRIMARY, SOURCE, TARGET)
        yield running


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    before = path.read_text()
    assert old in before
    write_whole(path, before.replace(old, new))
    try:
        yield
    finally:
        write_whole(path, before)


@pytest.mark.situation("5", "refused: the target does not load the key plugin; with it, all sums are equal")
def test_target_without_the_key_plugin_is_refused(encrypted: Stack) -> None:
    with edited(encrypted.lab.host(TARGET).config_file, "plugin-load-add", "#plugin-load-add"):
        encrypted.wait_for_facts(TARGET)
        refused(encrypted, "pair.encryption")


@pytest.mark.situation("F1", "refused: the target's key file has other keys; with the same keys, all sums are equal")
def test_target_with_other_keys_is_refused_and_with_the_same_keys_rebuilt(encrypted: Stack) -> None:
    host = encrypted.lab.host(TARGET)
    other = encrypted.lab.folder / "other-keys"
    other.write_text("1;" + "a7" * 32 + "\n2;" + "c9" * 32 + "\n")
    with edited(host.config_file, str(encrypted.lab.folder / "keys"), str(other)):
        encrypted.wait_for_facts(TARGET)
        refused(encrypted, "pair.encryption")
    encrypted.wait_for_possible_plan(TARGET)
    assert "pair.encryption" not in findings(encrypted)
    encrypted.rebuild(TARGET)
    same_data_at_one_gtid(encrypted, TARGET)
    assert one(encrypted, TARGET, "SELECT COUNT(*) AS n FROM safe.i")["n"] == 2
