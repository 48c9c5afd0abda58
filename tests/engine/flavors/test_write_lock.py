"""When writes wait for a backup tool, and for how long, by real logs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.write_lock import WriteLock, follow_write_lock, when_writes_wait, write_lock_seconds
from tests.engine import builders

SAMPLES = Path(__file__).parent / "samples"
OLD = Path(__file__).parents[1] / "recorded" / "xtrabackup-2.4.20"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        (OLD / "backup.log", 1.0),
        (SAMPLES / "mariadb-10.11-backup.log", 1.0),
        (OLD / "failures" / "lock-wait.log", None),
    ],
)
def test_write_lock_is_measured_by_the_log(log: Path, seconds: float | None) -> None:
    assert follow_write_lock(lines(log)).seconds == seconds


def test_write_lock_is_followed_over_several_looks() -> None:
    found = WriteLock()
    for line in lines(OLD / "backup.log"):
        found = follow_write_lock([line], found)
    assert found == WriteLock(None, 1.0)


def test_write_lock_has_the_fractions_of_newer_tools() -> None:
    head = "2026-11-20T20:16:{}-00:00 0 [Note] [MY-011825] [Xtrabackup] {}"
    log = [
        head.format("30.250000", "Executing FLUSH TABLES WITH READ LOCK..."),
        head.format("31.500000", "Executing UNLOCK TABLES"),
        head.format("31.900000", "All tables unlocked"),
    ]
    assert follow_write_lock(log).seconds == 1.25


def test_write_lock_of_a_cut_log_is_that_of_the_record() -> None:
    info, cut = (OLD / "xtrabackup_info").read_text(), lines(OLD / "backup.log")[-8:]
    assert write_lock_seconds(flavor_for("5.7.29"), cut, info) == 1.0
    assert write_lock_seconds(flavor_for("5.7.29"), lines(OLD / "backup.log"), "") == 1.0
    on_source = (SAMPLES / "mariadb-10.11-xtrabackup_info-on-source").read_text()
    assert write_lock_seconds(flavor_for("10.11.19-MariaDB"), cut, on_source) is None
    assert write_lock_seconds(flavor_for("8.0.46"), cut, on_source) is None


@pytest.mark.parametrize(
    ("server", "waits"),
    [
        ({"flavor": "mysql", "version": "5.7.29"}, True),
        ({"flavor": "mysql", "version": "8.0.46"}, False),
        ({"flavor": "mysql", "version": "8.0.46", "foreign_engines": {"MyISAM": 2}}, True),
        ({"flavor": "mysql", "version": "8.0.46", "foreign_engines": {"MEMORY": 2}}, False),
        ({"flavor": "mysql", "version": "8.4.10", "gtid_enabled": False}, True),
        ({"flavor": "mariadb", "version": "10.11.19"}, False),
        ({"flavor": "mariadb", "version": "10.4.34"}, True),
    ],
)
def test_writes_wait_by_tool_and_server(server: dict[str, Any], waits: bool) -> None:
    assert when_writes_wait(replace(builders.server(12), **server))[0] is waits
