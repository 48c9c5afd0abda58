"""Command lines, option files, and the statements that try an account's rights."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dbops.engine.errors import Refused
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import BackupRequest

REQUEST = BackupRequest(
    credentials_file="/run/dbops/backup.cnf",
    socket="/run/mysqld/mysqld.sock",
    datadir="/var/lib/mysql",
    target_dir="/run/dbops/target",
    lsn_dir="/run/dbops/lsn",
    parallel=4,
)
ALL = [
    "10.3.39-MariaDB",
    "10.4.34-MariaDB",
    "10.11.19-MariaDB",
    "11.8.6-MariaDB",
    "5.7.42",
    "8.0.46",
    "8.4.10",
    "9.7.4",
]


@pytest.mark.parametrize("version", ALL)
def test_backup_command_has_the_option_file_first_and_no_dangerous_option(version: str) -> None:
    command = flavor_for(version).backup_command("/usr/bin/tool", REQUEST)
    assert command[:3] == ["/usr/bin/tool", "--defaults-file=/run/dbops/backup.cnf", "--backup"]
    assert {
        "--stream=xbstream",
        "--slave-info",
        "--socket=/run/mysqld/mysqld.sock",
        "--datadir=/var/lib/mysql",
        "--target-dir=/run/dbops/target",
        "--extra-lsndir=/run/dbops/lsn",
        "--parallel=4",
    } <= set(command)
    forbidden = ("--safe-slave", "--history", "--throttle", "--password", "--user", "--no-lock", "--no-server-version")
    assert [word for word in command if word.startswith(forbidden)] == []


def test_mariadb_backup_is_verbose_and_does_not_wait_for_a_moment_without_statements() -> None:
    command = flavor_for("10.11.19-MariaDB").backup_command("mariadb-backup", REQUEST)
    assert "--verbose" in command
    assert [word for word in command if "ftwrl" in word or "version-check" in word or "open-files" in word] == []


def test_xtrabackup_command_skips_the_version_check_and_bounds_its_wait() -> None:
    command = flavor_for("8.0.46").backup_command("xtrabackup", REQUEST)
    assert {"--no-version-check", "--ftwrl-wait-timeout=600", "--open-files-limit=1000000"} <= set(command)
    assert "--verbose" not in command


def test_unpacking_and_preparing() -> None:
    mariadb, mysql = flavor_for("10.11.19-MariaDB"), flavor_for("8.4.10")
    assert mariadb.unpack_command("mbstream", "/d", parallel=3) == ["mbstream", "-x", "-C", "/d", "-p", "3"]
    assert mysql.unpack_command("xbstream", "/d", parallel=3) == ["xbstream", "-x", "-C", "/d", "--parallel=3"]
    for flavor in (mariadb, mysql):
        assert flavor.prepare_command("tool", "/d", memory_bytes=5) == [
            "tool",
            "--prepare",
            "--target-dir=/d",
            "--use-memory=5",
        ]


PASSWORDS = [
    "plain",
    "a b#c'd\"e\\f;g$h%i!j=k",
    " lead and trail ",
    "#x",
    '"full"',
    "'full'",
    "\\",
    "ends\\",
    '"',
    "[mysqld]",
    "!include x",
    "ü€😀",
    "tab\tx",
    "%s$HOME`id`",
    'x"#y',
    "\\n",
    "",
]


@pytest.mark.skipif(shutil.which("my_print_defaults") is None, reason="my_print_defaults is not installed")
@pytest.mark.parametrize("password", PASSWORDS)
def test_option_file_passwords_are_read_back_by_the_server(password: str, tmp_path: Path) -> None:
    option_file = tmp_path / "credentials.cnf"
    option_file.write_text(
        flavor_for("10.11.19-MariaDB").credentials_file("us er", password, plugin_dir="/p", socket="/a b/s.sock")
    )
    option_file.chmod(0o600)
    shown = subprocess.run(
        ["my_print_defaults", f"--defaults-file={option_file}", "mariadb-backup"], capture_output=True, check=True
    ).stdout.decode()
    local = "--host=localhost\n--loose-protocol=socket\n--socket=/a b/s.sock\n"
    local += "--plugin-dir=/p\n" if password else "--plugin-dir=\n"
    assert shown == f"--user=us er\n--password={password}\n{local}"


@pytest.mark.parametrize("password", ["a\nb", "a\rb", "a\0b", "x" * 5000])
def test_credentials_file_refuses_an_unwritable_password_without_showing_it(password: str) -> None:
    with pytest.raises(Refused) as error:
        flavor_for("8.4.10").credentials_file("u", password, plugin_dir="/p")
    assert error.value.code == "credentials.unwritable"
    assert password not in str(error.value)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "10.11.19-MariaDB",
            ["BACKUP UNLOCK", "SHOW ENGINE INNODB STATUS", "SHOW MASTER STATUS", "SHOW ALL SLAVES STATUS"],
        ),
        (
            "8.4.10",
            [
                "SHOW ENGINE INNODB STATUS",
                "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS",
                "SHOW BINARY LOG STATUS",
                "SELECT server_uuid FROM performance_schema.log_status",
                "SELECT COUNT(*) FROM performance_schema.keyring_component_status",
                "SHOW REPLICA STATUS",
            ],
        ),
        (
            "5.7.42",
            [
                "SHOW ENGINE INNODB STATUS",
                "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS",
                "SHOW MASTER STATUS",
                "SHOW SLAVE STATUS",
            ],
        ),
    ],
)
def test_statements_of_backup_include_late_rights(version: str, expected: list[str]) -> None:
    assert flavor_for(version).statements_of_backup(replica=True) == expected
    assert flavor_for(version).statements_of_backup(replica=False) == expected[:-1]
