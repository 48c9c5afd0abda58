"""Parts of the probe alone: what it parses and derives."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dbops.drivers.probe import with_sizes
from dbops.drivers.probe_host import Inspect, clock_offset, parse_config, parse_records, parse_version
from dbops.drivers.probe_server import clients, missing_privileges, redo_rate
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.flavors import flavor_for
from tests.drivers.test_probe import ask
from tests.fakes import FakeDatabase, FakeShell

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_records_accept_everything_except_nul() -> None:
    assert parse_records("Welcome\na\t1\0b\tx\ty\nz\0c\t\0cut\tof") == {"a": "1", "b": "x\ty\nz", "c": ""}


def test_last_of_equal_options_counts() -> None:
    config = parse_config("--server-id=1\n--server_id=2\n--read_only\n--socket=/s\n--master-password=x\n")
    assert (config.server_id, config.read_only, config.socket) == (2, True, "/s")
    assert config.options["master_password"] == "***"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)", "10.11.19"),
        (
            "xtrabackup version 8.0.35-30 based on MySQL server 8.0.35 Linux (x86_64) (revision id: 6beb4b49)",
            "8.0.35-30",
        ),
        ("xtrabackup version 2.4.9 based on MySQL server 5.7.13 Linux (x86_64)", "2.4.9"),
        ("xbstream  Ver 8.0.35-30 for Linux (x86_64) (revision id: 6beb4b49)", "8.0.35-30"),
        ("/usr/sbin/mysqld  Ver 8.0.46-0ubuntu0.24.04.5 for Linux on x86_64 ((Ubuntu))", "8.0.46"),
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", "10.11.19"),
        ("mysql  Ver 15.1 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)", "10.11.19"),
        ("mariadb from 11.4.2-MariaDB, client 15.2 for Linux (x86_64)", "11.4.2"),
        ("OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.14 4 Jun 2024", "9.2p1"),
        ("", None),
    ],
)
def test_versions_are_parsed(said: str, version: str | None) -> None:
    assert parse_version(said) == version


@pytest.mark.parametrize(
    ("first", "last", "offset"),
    [
        ("100.2", "100.8", 0.0),
        ("99.9", "100.9", -0.1),
        ("101.5", "102", 1.0),
        ("40", "41", -60.0),
        ("100.%N", "101", 0.0),
    ],
)
def test_clock_offset_counts_the_certain_part(first: str, last: str, offset: float) -> None:
    assert clock_offset(first, last, 100.0, 101.0) == offset


def test_clients_exclude_system_sessions() -> None:
    rows = [
        {"User": user, "Host": "h:1", "db": None, "Command": command}
        for user, command in [
            ("app", "Sleep"), ("monitor", "Query"), ("system user", "Slave_IO"), ("event_scheduler", "Daemon"),
            ("other", "Binlog Dump"), ("other", "Binlog Dump GTID"), ("unauthenticated user", "Connect"),
        ]
    ]  # fmt: skip
    assert [client.user for client in clients(rows, ["monitor", ""])] == ["app"]


def test_redo_rate_needs_two_readings_of_one_directory() -> None:
    assert redo_rate(5, NOW, None) is None
    assert redo_rate(5, NOW, InstanceFacts(NOW)) is None


def test_sizes_are_not_kept_for_another_directory(tmp_path: Path) -> None:
    shell = FakeShell(runs_here=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    old = replace(ask(shell, tmp_path / "a", inspect=Inspect.ALL).datadir, measured_at=NOW)
    new = ask(shell, tmp_path / "b").datadir
    previous = InstanceFacts(NOW, datadir=old)
    assert with_sizes(new, False, NOW, previous) == new
    again = with_sizes(replace(old, total_bytes=None, data_bytes=None), True, NOW + timedelta(1), previous)
    assert (again.total_bytes, again.measured_at) == (0, NOW + timedelta(1))


def test_emptied_directory_has_no_bytes_before_its_next_measurement(tmp_path: Path) -> None:
    shell, file = FakeShell(runs_here=True), tmp_path / "ibdata1"
    file.write_bytes(bytes(5000))
    old = replace(ask(shell, tmp_path, inspect=Inspect.ALL).datadir, measured_at=NOW)
    assert old.total_bytes
    file.unlink()
    found = with_sizes(ask(shell, tmp_path).datadir, False, NOW, InstanceFacts(NOW, datadir=old))
    assert (found.total_bytes, found.data_bytes, found.measured_at) == (0, 0, NOW)


def test_grants_that_a_server_does_not_tell_are_unknown() -> None:
    """As with ``--skip-grant-tables``: all else of the server is still read."""
    database = FakeDatabase()
    refused = RemoteFailure("mysql.error", "Reading", cause="1290: running with the --skip-grant-tables option")
    database.expect("SHOW GRANTS", refused, Unreachable("mysql.unreachable", "Reading"))
    assert missing_privileges(database, flavor_for("10.11.19-MariaDB", "")) is None
    with pytest.raises(Unreachable):
        missing_privileges(database, flavor_for("10.11.19-MariaDB", ""))
