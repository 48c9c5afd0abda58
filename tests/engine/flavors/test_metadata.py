"""Metadata files: names, contents, and the check that two of them are of one run."""

from dataclasses import replace
from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import BackupInfo, Checkpoints, Coordinates

SAMPLES = Path(__file__).parent / "samples"
mariadb, mysql = flavor_for("10.11.19-MariaDB"), flavor_for("8.4.10")


def sample(name: str) -> str:
    return (SAMPLES / f"mariadb-10.11-{name}").read_text()


def test_mariadb_files_have_two_names_and_the_versions_own_comes_first() -> None:
    assert mariadb.metadata_files["info"] == ("xtrabackup_info", "mariadb_backup_info")
    newer = flavor_for("11.8.6-MariaDB").metadata_files
    assert newer["checkpoints"] == ("mariadb_backup_checkpoints", "xtrabackup_checkpoints")
    assert newer["last"] == newer["info"]
    assert flavor_for("11.0.6-MariaDB").metadata_files["binlog"][0] == "xtrabackup_binlog_info"


def test_last_file_depends_on_the_series_of_xtrabackup() -> None:
    assert flavor_for("5.7.42").metadata_files["last"] == ("xtrabackup_info",)
    assert mysql.metadata_files["last"] == ("xtrabackup_tablespaces",)
    assert (mariadb.prepared_type, mysql.prepared_type) == ("log-applied", "full-prepared")


def test_metadata_files_of_mariadb_are_read() -> None:
    assert mariadb.parse_binlog_info(sample("xtrabackup_binlog_info")) == Coordinates(
        "binlog.000001", 1029192410, "0-101-276395"
    )
    assert mariadb.parse_slave_info(sample("xtrabackup_slave_info")) == Coordinates(gtid="0-101-276395")
    assert mariadb.parse_checkpoints(sample("xtrabackup_checkpoints")) == Checkpoints(
        "full-backuped", 1232102244, 1235108328
    )
    info = mariadb.parse_info(sample("xtrabackup_info"))
    assert (info.tool_version, info.start_time) == ("10.11.19-MariaDB", "2026-11-20 22:49:54")


def test_same_run_accepts_differing_uuids_in_mariadb() -> None:
    sent, arrived = (mariadb.parse_info(sample(name)) for name in ("xtrabackup_info-on-source", "xtrabackup_info"))
    assert sent.uuid != arrived.uuid
    assert mariadb.same_run(sent, arrived)
    assert not mariadb.same_run(sent, replace(arrived, start_time="2026-11-20 22:49:55"))
    assert not mariadb.same_run(sent, replace(arrived, tool_command="--another-run"))
    assert not mariadb.same_run(BackupInfo("", "", ""), BackupInfo("", "", ""))


def test_same_run_compares_the_uuid_in_xtrabackup() -> None:
    info = BackupInfo("u1", "8.4.0-5", "8.4.10", to_lsn="5")
    assert mysql.same_run(info, info)
    assert not mysql.same_run(info, replace(info, uuid="u2"))
    assert not mysql.same_run(replace(info, uuid=""), replace(info, uuid=""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("binlog.000001\t577\t1fc7-3:1,\n8f84-1:1-17\n", Coordinates("binlog.000001", 577, "1fc7-3:1,8f84-1:1-17")),
        ("binlog.000010\t237\n", Coordinates("binlog.000010", 237)),
        ("binlog.000001\t24105182\t0-1180-16,1-5-9\n", Coordinates("binlog.000001", 24105182, "0-1180-16,1-5-9")),
        ("", Coordinates()),
        ("cut off", Coordinates()),
    ],
)
def test_parse_binlog_info_reads_a_gtid_of_several_lines(text: str, expected: Coordinates) -> None:
    assert mysql.parse_binlog_info(text) == expected
    assert mariadb.parse_binlog_info(text) == expected


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        (
            "5.7.42",
            "SET GLOBAL gtid_purged='8f84:1-17';\nCHANGE MASTER TO MASTER_AUTO_POSITION=1;\n",
            Coordinates(gtid="8f84:1-17"),
        ),
        (
            "5.7.42",
            "SET GLOBAL gtid_purged='1fc7:1,\n8f84:1-17';\nCHANGE MASTER TO MASTER_AUTO_POSITION=1;\n",
            Coordinates(gtid="1fc7:1,8f84:1-17"),
        ),
        (
            "8.0.46",
            "CHANGE MASTER TO MASTER_LOG_FILE='binlog.000006', MASTER_LOG_POS=197;\n",
            Coordinates("binlog.000006", 197),
        ),
        (
            "8.4.10",
            "CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000006', SOURCE_LOG_POS=198;\n",
            Coordinates("binlog.000006", 198),
        ),
        (
            "11.8.6-MariaDB",
            "CHANGE MASTER TO MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=24105332;\n",
            Coordinates("binlog.000001", 24105332),
        ),
    ],
)
def test_slave_info_of_every_version_is_read(version: str, text: str, expected: Coordinates) -> None:
    assert flavor_for(version).parse_slave_info(text) == expected


def test_parse_checkpoints_fails_on_a_truncated_file() -> None:
    with pytest.raises(KeyError):
        mariadb.parse_checkpoints("backup_type = full-backuped\n")
