"""What a source's own option files and logins say never changes what the tools do."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lab.hosts import LabHost
from tests.e2e.host_state import last_rebuild, one, same_data_at_one_gtid
from tests.e2e.test_managed_backup import SOURCE, back_up, backup_stack, backups_of
from tests.e2e.test_restore_tests import run_restore_test
from tests.stack import Stack, running_stack, wait_for
from tests.whole_file import write_whole

from .plugins import plugin_folder

pytestmark = pytest.mark.services

TARGET, PRIMARY = "replica-1", "primary-1"
#: A table that partial backups of the source's own jobs leave out.
PARTIAL = "SELECT COUNT(*) AS found FROM archive_db.t"
#: Names that need utf8mb4, quotes or an escape in file names.
ODD_SCHEMA = "日本"
ODD_TABLES = ("größe-ß 日本", "back`tick", "dot.ted", 'it\'s "quoted"', "100%")
#: Options of other jobs and people on the source. Each broke a rebuild, or lost a database without a word.
STEERING = {
    "1": "[mariabackup]\ndatabases-exclude = archive_db\n[xtrabackup]\ntables-exclude = ^archive_db\n",
    "1b": "[mariabackup]\ncompress\n",
    "1c": "[mariadb-backup]\nsafe-slave-backup\n",
    "2": "[client]\nhost = {primary}\nport = {port}\nprotocol = tcp\n",
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical", statements="dump") as running:
        write_partial(running)
        write_odd_names(running)
        yield running


@pytest.fixture(autouse=True)
def restored(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the next test a fleet whose servers all run."""
    yield
    if "stack" in request.fixturenames:
        stack: Stack = request.getfixturevalue("stack")
        for host in stack.lab.hosts:
            if host.server_pid() is None:
                host.start_server()


def write_partial(stack: Stack) -> None:
    for statement in ("CREATE DATABASE archive_db", "CREATE TABLE archive_db.t (id INT PRIMARY KEY) ENGINE=InnoDB"):
        one(stack, PRIMARY, statement)
    one(stack, PRIMARY, "INSERT INTO archive_db.t VALUES (1)")
    wait_for("the row on the source", lambda: has_partial(stack, SOURCE))


def write_odd_names(stack: Stack) -> None:
    one(stack, PRIMARY, f"CREATE DATABASE `{ODD_SCHEMA}`")
    for table in ODD_TABLES:
        quoted = table.replace("`", "``")
        one(stack, PRIMARY, f"CREATE TABLE `{ODD_SCHEMA}`.`{quoted}` (id INT PRIMARY KEY) ENGINE=InnoDB")
    found = f"SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{ODD_SCHEMA}'"
    wait_for("the tables on the source", lambda: one(stack, SOURCE, found)["n"] == len(ODD_TABLES))


def has_partial(stack: Stack, name: str) -> bool:
    with suppress(Exception):
        return one(stack, name, PARTIAL)["found"] == 1
    return False


@contextmanager
def also_in(file: Path, text: str) -> Iterator[None]:
    """Add text to a file; undone in any case."""
    before = file.read_text()
    write_whole(file, f"{before}\n{text}")
    try:
        yield
    finally:
        write_whole(file, before)


def steering(stack: Stack, case: str) -> str:
    primary = stack.lab.host(PRIMARY)
    return STEERING[case].format(primary=primary.address, port=primary.port)


def rebuilds_the_same_data(stack: Stack) -> None:
    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    assert last_rebuild(stack)["status"] == "succeeded"
    assert has_partial(stack, TARGET)
    same_data_at_one_gtid(stack, TARGET)


def fails_before_the_target_is_stopped(stack: Stack, code: str) -> None:
    """Rebuild, and check that the failure has this code and found the target untouched."""
    target = stack.lab.host(TARGET)
    before = target.server_pid(), target.data_dir.stat().st_ino
    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET, check=False)
    assert (lines[-1]["status"], lines[-1]["error"]["code"]) == ("failed", code), lines[-1]
    assert (target.server_pid(), target.data_dir.stat().st_ino) == before


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("1", marks=pytest.mark.situation("1", "the whole copy, whatever the source's tool sections say")),
        pytest.param("1b", marks=pytest.mark.situation("1b", "a working copy beside `compress` of another job")),
        pytest.param(
            "1c", marks=pytest.mark.situation("1c", "`safe-slave-backup` of another job does not reach the tool")
        ),
        pytest.param(
            "2", marks=pytest.mark.situation("2", "the tool reads the planned server, whatever `[client]` says")
        ),
    ],
)
@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_rebuild_copies_all_data_beside_options_of_other_jobs(stack: Stack, case: str) -> None:
    with also_in(stack.lab.host(SOURCE).config_file, steering(stack, case)):
        rebuilds_the_same_data(stack)


@pytest.mark.situation("1", "managed backups and their restore tests are whole, too")
@pytest.mark.situation("23", "the restore test of a good backup opens every table by its name, and succeeds")
def test_managed_backup_is_whole_beside_options_of_other_jobs(stack: Stack) -> None:
    with also_in(stack.lab.host(SOURCE).config_file, "".join(steering(stack, case) for case in STEERING)):
        status, result = back_up(stack, "files")
        assert status == 0, result
        status, tested = run_restore_test(stack, int(result["backup_run"]))
    assert status == 0, tested
    result = json.loads(stack.rows("SELECT result FROM dbops_restoretest ORDER BY id DESC LIMIT 1")[0]["result"])
    counted = {(schema, table) for schema, table, _ in result["tables"]}
    assert {("archive_db", "t"), *((ODD_SCHEMA, table) for table in ODD_TABLES)} <= counted


@pytest.mark.situation("1", "a managed dump is whole and of the planned server, too")
def test_managed_dump_is_whole_beside_options_of_other_jobs(stack: Stack) -> None:
    text = "[mysqldump]\nno-data\n[mariadb-dump]\nignore-database = archive_db\n" + steering(stack, "2")
    with also_in(stack.lab.host(SOURCE).config_file, text):
        status, result = back_up(stack, "statements")
    assert status == 0, result
    newest = max(backups_of(stack).glob("*.sql.gz"), key=lambda path: path.stat().st_mtime)
    assert b"INSERT INTO `t` VALUES" in gzip.decompress(newest.read_bytes())


@contextmanager
def session_starts_with(host: LabHost, text: str) -> Iterator[None]:
    """Let every SSH session of the host begin with a start-up file, as ``.zshenv`` does."""
    start_up = host.folder / "start_up"
    start_up.write_text(f"unset BASH_ENV\n{text}\n")
    config, as_it_was = host.sshd.config_file, host.sshd.config_file.read_text()
    config.write_text(as_it_was.replace("SetEnv PATH", f"SetEnv BASH_ENV={start_up} PATH"))
    try:
        host.sshd.stop()
        host.sshd.start()
        yield
    finally:
        config.write_text(as_it_was)
        host.sshd.stop()
        host.sshd.start()


@pytest.mark.situation("13", "a start-up file that prints is found before the target is stopped")
def test_login_that_prints_is_refused_before_the_target_is_stopped(stack: Stack) -> None:
    with session_starts_with(stack.lab.host(SOURCE), "echo hello"):
        fails_before_the_target_is_stopped(stack, "stream.noisy_login")


@pytest.mark.situation("13", "a start-up file that writes to standard error changes nothing")
def test_login_that_complains_on_standard_error_is_no_obstacle(stack: Stack) -> None:
    with session_starts_with(stack.lab.host(SOURCE), "echo hello >&2"):
        rebuilds_the_same_data(stack)


@contextmanager
def noexec(folder: Path) -> Iterator[None]:
    """Mount an empty file system without execution over a folder."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "noexec,size=64M,mode=755", "dbops-test", folder], check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.situation("16", "all scripts run by bash, so a `noexec` work directory works")
def test_rebuild_works_with_noexec_work_directories(stack: Stack) -> None:
    source, target = (stack.lab.host(name) for name in (SOURCE, TARGET))
    with noexec(source.work_dir), noexec(target.work_dir):
        rebuilds_the_same_data(stack)


@pytest.fixture
def ed25519(stack: Stack) -> Iterator[None]:
    """Let the backup account on the source log in by ed25519, whose client plugin is not in the server's directory."""
    source = stack.lab.host(SOURCE)
    plugins = plugin_folder()
    account = f"'{stack.lab.accounts['backup'].user}'@'localhost'"
    with also_in(source.config_file, f"[mysqld]\nplugin-dir = {plugins}\n"):
        source.stop_server()
        source.start_server()
        password = stack.lab.accounts["backup"].password
        quietly(stack, "INSTALL SONAME 'auth_ed25519'")
        quietly(stack, f"ALTER USER {account} IDENTIFIED VIA ed25519 USING PASSWORD('{password}')")
        try:
            yield
        finally:
            quietly(stack, f"ALTER USER {account} IDENTIFIED BY '{password}'")
            quietly(stack, "UNINSTALL SONAME 'auth_ed25519'")
    source.stop_server()
    source.start_server()


def quietly(stack: Stack, statement: str) -> None:
    """Run a statement on the source that no other server gets."""
    with stack.lab.connect(SOURCE) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(statement)


@pytest.mark.situation("18", "the backup tool finds the client plugin of an ed25519 account")
@pytest.mark.usefixtures("ed25519")
def test_backup_account_can_use_ed25519(stack: Stack) -> None:
    rebuilds_the_same_data(stack)


@pytest.mark.situation("18", "a tool that fails is found before the target is stopped")
def test_tool_that_refuses_is_told_before_the_target_is_stopped(stack: Stack) -> None:
    with tool_wrapped(stack, 'echo "unknown variable" >&2; exit 7'):
        fails_before_the_target_is_stopped(stack, "backup.trial")


@contextmanager
def tool_wrapped(stack: Stack, body: str) -> Iterator[None]:
    """Put a program before the source's backup tool; ``$tool`` is the real one, and it runs for its version."""
    host = stack.lab.host(SOURCE)
    names = [host.sshd.programs / name for name in ("mariadb-backup", "mariabackup")]
    host.sshd.programs.mkdir(exist_ok=True)
    real = 'tool=/usr/bin/mariadb-backup\ncase "$*" in *--version*) exec $tool --version ;; esac\n'
    for path in names:
        path.write_text(f"#!/bin/bash\n{real}{body}\n")
        path.chmod(0o755)
    try:
        stack.wait_for_facts(SOURCE)
        yield
    finally:
        for path in names:
            path.unlink()
        stack.wait_for_facts(SOURCE)


@pytest.mark.situation("2", "a copy with the position of another server is refused")
def test_position_of_another_server_is_found(stack: Stack) -> None:
    """The tool speaks to the primary, and copies the source's files: both have one data directory path on real hosts."""
    for _ in range(3):
        one(stack, PRIMARY, "FLUSH LOCAL BINARY LOGS")
    socket = stack.lab.host(PRIMARY).socket
    wrong = f'exec "$tool" "$@" --socket={socket} 2> >(grep -v "has different values" >&2)'
    with tool_wrapped(stack, f'case "$*" in *--print-param*) exec "$tool" "$@" ;; esac\n{wrong}'):
        stack.wait_for_possible_plan(TARGET)
        _, lines = stack.rebuild(TARGET, check=False)
    assert lines[-1]["error"]["code"] == "backup.other_server", lines[-1]
    rebuilds_the_same_data(stack)


@pytest.mark.situation("1", "the whole copy, also of MariaDB 11.8")
@pytest.mark.situation("2", "the tool reads the planned server, also of MariaDB 11.8")
@pytest.mark.runs("MariaDB 11.8", "xbstream")
def test_rebuild_of_mariadb_11_8_copies_all_data_beside_options_of_other_jobs() -> None:
    with running_stack(replicas=1, web=False, flavor="mariadb-11.8") as stack:
        write_partial(stack)
        with also_in(stack.lab.host(SOURCE).config_file, "".join(steering(stack, case) for case in STEERING)):
            rebuilds_the_same_data(stack)
