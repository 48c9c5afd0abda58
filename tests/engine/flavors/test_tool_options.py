"""What a backup tool gets of the server's option file, written by the host's own script."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.binlog_origin import foreign_position
from dbops.engine.flavors.tool_options import allowed_names, script_arguments, server_groups
from dbops.engine.hosts.scripts import load

MARIADB, MYSQL = flavor_for("10.11.19-MariaDB"), flavor_for("9.7.4")
#: Options by which a tool leaves out data, goes to another server, or changes its stream or replication.
STEERING = ("databases_exclude", "tables", "host", "port", "compress", "safe_slave_backup", "encrypt", "stream", "user")


def add(tmp_path: Path, text: str, path: str = "", flavor=MARIADB) -> dict[str, str]:
    """Return the [mysqld] options of the tool's file after the host's script has read a server's option file."""
    server, own = tmp_path / "my.cnf", tmp_path / "own.cnf"
    server.write_text(text)
    own.write_text("[client]\nuser=ours\n")
    words = [str(own), str(tmp_path), *script_arguments(flavor, str(server))]
    script = load("common", "tool_options") + '\nadd_tool_options "$@"\n'
    subprocess.run(["bash", "-c", script, "dbops", *words], check=True, env={"PATH": path or "/usr/bin:/bin"})
    shown = subprocess.run(
        ["my_print_defaults", f"--defaults-file={own}", "mysqld"], capture_output=True, text=True, check=True
    ).stdout
    pairs = [line.removeprefix("--").partition("=") for line in shown.splitlines()]
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("flavor", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
@pytest.mark.parametrize("group", ["client", "mariabackup", "mariadb-backup", "xtrabackup", "mysqldump", "mysqld"])
def test_no_option_that_steers_a_tool_is_taken_from_any_group(group: str, flavor, tmp_path: Path) -> None:
    lines = "\n".join(f"loose-{name}=x" for name in STEERING)
    assert add(tmp_path, f"[{group}]\n{lines}\n[mysqld]\ninnodb-page-size=8k\n", flavor=flavor) == {
        "innodb_page_size": "8k"
    }


def test_values_arrive_as_the_server_reads_them(tmp_path: Path) -> None:
    text = (
        '[mariadb-10.11]\nloose-Innodb-Data-Home-Dir="/a \\"b\\\\c #d"\n[mariadb-11.8]\ntmpdir=/other\n'
        "[galera]\ninnodb_file_per_table\nfile-key-management-filename=/k y\n"
    )
    assert add(tmp_path, text) == {
        "innodb_data_home_dir": '/a "b\\c #d',
        "innodb_file_per_table": "",
        "file_key_management_filename": "/k y",
    }


def test_group_suffix_of_the_running_server_counts(tmp_path: Path) -> None:
    shutil.copy("/bin/bash", tmp_path / "mariadbd")
    words = [tmp_path / "mariadbd", "-c", "read -r; :", "--defaults-group-suffix=.r1"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE) as server:
        text = "[mysqld]\ninnodb_page_size=8k\n[mysqld.r1]\ntmpdir=/r1\n[mysqld.r2]\ntmpdir=/r2\n"
        found = add(tmp_path, text)
        server.kill()
    assert found == {"innodb_page_size": "8k", "tmpdir": "/r1"}


def test_missing_server_file_leaves_the_tool_its_login(tmp_path: Path) -> None:
    own = tmp_path / "own.cnf"
    own.write_text("[client]\nuser=ours\n")
    words = [str(own), str(tmp_path), *script_arguments(MARIADB, str(tmp_path / "gone.cnf"))]
    script = load("common", "tool_options") + '\nadd_tool_options "$@"\n'
    subprocess.run(["bash", "-c", script, "dbops", *words], check=True)
    assert own.read_text() == "[client]\nuser=ours\n"


def test_unreadable_server_file_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text("innodb_page_size without a group\n")
    words = [str(tmp_path / "own.cnf"), str(tmp_path), *script_arguments(MARIADB, str(tmp_path / "my.cnf"))]
    script = load("common", "tool_options") + '\nadd_tool_options "$@"\n'
    done = subprocess.run(["bash", "-c", script, "dbops", *words], check=False, capture_output=True)
    assert done.returncode != 0


@pytest.mark.parametrize(
    "version", ["10.3.39-MariaDB", "10.11.19-MariaDB", "11.8.6-MariaDB", "5.7.42", "8.4.10", "9.7.4"]
)
def test_allowed_names_and_groups_are_of_the_version(version: str) -> None:
    flavor = flavor_for(version)
    assert not {name for name in allowed_names(flavor) if name.rstrip("*") in STEERING}
    groups = server_groups(flavor)
    assert ("mariadbd" in groups) == (flavor.name == "mariadb")
    assert f"mysqld-{'.'.join(version.split('.')[:2])}" in groups


LOGS = {"bin.000003": 900, "bin.000004": 4711}


@pytest.mark.parametrize(
    ("log_file", "log_pos", "gtid", "there", "is_foreign"),
    [
        ("bin.000004", 4711, "0-1-99", "0-1-99", False),
        ("bin.000004", 4711, "0-1-99,7-1-3", "7-1-3,0-1-99", False),
        ("bin.000004", 4711, "0-1-99", None, False),
        ("bin.000002", 12, "", None, False),  # purged since
        ("bin.000004", 4712, "0-1-99", None, True),
        ("bin.000005", 4, "", None, True),
        ("binlog.000002", 4, "", None, True),
        ("bin.000004", 4711, "0-1-101", "0-1-99", True),
        ("bin.000004", 4711, "0-2-99", "0-1-99", True),
    ],
)
def test_position_of_another_server_is_foreign(
    log_file: str, log_pos: int, gtid: str, there: str | None, is_foreign: bool
) -> None:
    found = foreign_position(MARIADB, Coordinates(log_file, log_pos, gtid), LOGS, gtid_there=there)
    assert bool(found) is is_foreign


def test_server_without_binary_logs_proves_nothing() -> None:
    assert foreign_position(MYSQL, Coordinates("bin.000001", 4), {}, gtid_there=None) == ""
