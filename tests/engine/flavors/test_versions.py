"""Which flavor a server is, which tool fits it, and which server may open its data."""

import pytest

from dbops.engine.errors import Refused
from dbops.engine.flavors import flavor_for, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("10.11.19-MariaDB-0+deb12u1", (10, 11, 19)),
        ("8.0.46-0ubuntu0.24.04.5", (8, 0, 46)),
        ("5.7.42-0ubuntu0.18.04.1-log", (5, 7, 42)),
        ("5.5.5-10.11.19-MariaDB-log", (10, 11, 19)),
        ("8.0.35-30", (8, 0, 35)),
        ("26.10", (26, 10, 0)),
        ("/usr/sbin/mysqld  Ver 8.0.46-0ubuntu0.24.04.5 for Linux on x86_64 ((Ubuntu))", (8, 0, 46)),
    ],
)
def test_versions_are_read_as_servers_and_tools_print_them(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("version", "comment", "name"),
    [
        ("10.11.19-MariaDB-0+deb12u1-log", "Debian 12", "mariadb"),
        ("11.8.6", "MariaDB Server", "mariadb"),
        ("10.11.19", "mariadb", "mariadb"),
        ("8.0.46-0ubuntu0.24.04.5", "(Ubuntu)", "mysql"),
        ("8.4.8-8", "Percona Server (GPL), Release 8", "mysql"),
        ("9.7.4", "mysql", "mysql"),
        ("26.10.0", "MySQL Community Server - GPL", "mysql"),
    ],
)
def test_flavor_for_uses_words_not_numbers(version: str, comment: str, name: str) -> None:
    assert flavor_for(version, comment).name == name


@pytest.mark.parametrize(
    ("version", "comment", "code"),
    [
        ("", "", "flavor.unknown"),
        ("trunk", "", "flavor.unknown"),
        ("11.8.6", "(Debian)", "flavor.unknown"),
        ("10.2.44-MariaDB", "", "flavor.unsupported"),
        ("5.6.51", "MySQL Community Server", "flavor.unsupported"),
    ],
)
def test_flavor_for_refuses_unknown_or_old_versions(version: str, comment: str, code: str) -> None:
    with pytest.raises(Refused) as error:
        flavor_for(version, comment)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("server", "tool", "fits"),
    [
        ("10.11.19-MariaDB", "10.11.19", True),
        ("10.11.15-MariaDB", "10.11.19", True),
        ("10.11.19-MariaDB", "10.11.15", False),
        ("11.8.6-MariaDB", "10.11.19", False),
        ("10.11.19-MariaDB", "11.8.6", False),
        ("5.7.42", "2.4.9", True),
        ("5.7.42", "8.0.35-30", False),
        ("8.0.32", "8.0.32-26", True),
        ("8.0.32", "8.0.30-23", False),
        ("8.0.46", "8.0.35-30", True),
        ("8.0.46", "8.0.33-28", False),
        ("8.0.46", "8.4.0-5", False),
        ("8.4.10", "8.4.0-1", True),
        ("8.4.10", "8.0.35-30", False),
        ("9.6.0", "9.6.0-1", True),
        ("9.5.0", "9.6.0-1", False),
        ("8.0.46", None, False),
        ("10.11.19-MariaDB", None, False),
    ],
)
def test_tool_problem_compares_versions(server: str, tool: str | None, fits: bool) -> None:
    assert (flavor_for(server).tool_problem(tool) == "") is fits


@pytest.mark.parametrize(
    ("server", "tool", "bugs"),
    [
        ("10.11.19-MariaDB", "10.11.19", []),
        ("10.11.15-MariaDB", "10.11.15", ["MDEV-39468", "MDEV-39408"]),
        ("10.11.12-MariaDB", "10.11.12", ["MDEV-36159", "MDEV-37453", "MDEV-39468", "MDEV-39408"]),
        ("11.8.6-MariaDB", "11.8.6", ["MDEV-39468", "MDEV-39408"]),
        ("11.8.9-MariaDB", "11.8.9", []),
        ("5.7.42", "2.4.9", ["2.4.21"]),
        ("8.0.30", "8.0.35-30", ["INSTANT"]),
        ("8.0.46", None, []),
    ],
)
def test_tool_warning_names_known_bugs(server: str, tool: str | None, bugs: list[str]) -> None:
    warning = flavor_for(server).tool_warning(tool)
    assert [bug for bug in bugs if bug not in warning] == []
    assert bool(warning) is bool(bugs)


@pytest.mark.parametrize(
    ("source", "target", "may"),
    [
        ("10.11.15-MariaDB", (10, 11, 19), True),
        ("10.11.19-MariaDB", (10, 11, 15), False),
        ("10.11.19-MariaDB", (11, 8, 6), False),
        ("8.0.35", (8, 0, 46), True),
        ("8.0.46", (8, 0, 35), False),
        ("8.0.46", (8, 4, 10), False),
    ],
)
def test_copy_problem_refuses_another_series_and_older_servers(
    source: str, target: tuple[int, int, int], may: bool
) -> None:
    assert (flavor_for(source).clone_problem(target) == "") is may


@pytest.mark.parametrize(
    ("server", "output", "version"),
    [
        (
            "10.11.19-MariaDB",
            "mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)",
            "10.11.19",
        ),
        (
            "10.11.19-MariaDB",
            "mariabackup based on MariaDB server 10.3.39-MariaDB debian-linux-gnu (x86_64)",
            "10.3.39",
        ),
        (
            "8.0.46",
            "2026-11-20T20:16:31.871402-00:00 0 [Note] [MY-011825] [Xtrabackup] recognized server arguments: --datadir=/d\n"
            "xtrabackup version 8.0.35-30 based on MySQL server 8.0.35 Linux (x86_64) (revision id: 6beb4b49)",
            "8.0.35-30",
        ),
        (
            "5.7.42",
            "xtrabackup version 2.4.9 based on MySQL server 5.7.13 Linux (x86_64) (revision id: a467167cdd4)",
            "2.4.9",
        ),
        ("5.7.42", "bash: xtrabackup: command not found", None),
        ("10.11.19-MariaDB", "mbstream: unknown option '--version'", None),
    ],
)
def test_parse_tool_version_finds_the_version_in_any_output(server: str, output: str, version: str | None) -> None:
    assert flavor_for(server).parse_tool_version(output) == version
