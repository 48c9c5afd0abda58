"""From variables to facts, and the rule for pausing."""

from dataclasses import replace

import pytest

from dbops.engine.facts.instance import PageWrites, ReplicationFacts, ServerFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.pause import needs_pause

MARIADB_VARIABLES = {
    "version": "10.11.19-MariaDB-0+deb12u1-log",
    "version_comment": "Debian 12",
    "server_id": "102",
    "hostname": "vm",
    "port": "34102",
    "socket": "/srv/b/s.sock",
    "datadir": "/srv/b/data/",
    "read_only": "OFF",
    "log_bin": "ON",
    "log_slave_updates": "ON",
    "gtid_current_pos": "0-101-12",
    "gtid_binlog_pos": "0-101-12",
    "binlog_format": "ROW",
    "expire_logs_days": "0.000000",
    "binlog_expire_logs_seconds": "0",
    "innodb_page_size": "16384",
    "lower_case_table_names": "0",
    "innodb_log_file_size": "33554432",
    "slave_parallel_threads": "0",
    "innodb_data_home_dir": "",
    "innodb_undo_directory": "./",
    "innodb_log_group_home_dir": "./",
    "innodb_data_file_path": "ibdata1:12M:autoextend",
    "aria_log_dir_path": "/srv/b/data/",
}
MYSQL_VARIABLES = {
    "version": "8.0.46-0ubuntu0.24.04.5",
    "version_comment": "(Ubuntu)",
    "server_id": "7",
    "server_uuid": "8f84f270-e51e-11f1-9a6c-02fc00000001",
    "datadir": "/var/lib/mysql/",
    "read_only": "ON",
    "log_bin": "ON",
    "log_replica_updates": "ON",
    "gtid_mode": "ON",
    "gtid_executed": "a:1,\nb:2",
    "expire_logs_days": "0",
    "binlog_expire_logs_seconds": "2592000",
    "innodb_redo_log_capacity": "104857600",
    "replica_parallel_workers": "4",
    "innodb_undo_directory": "/fast/undo",
    "innodb_data_file_path": "ibdata1:12M;/fast/ibdata2:10M:autoextend",
}
LINK = ReplicationFacts("", "h", 3306, "Yes", "Yes", 0.0, True, "0-1-1", "binlog.000001", 4)
STATUS = {"Uptime": "2929", "Innodb_lsn_current": "1235107922"}


def server(variables: dict[str, str] = MARIADB_VARIABLES, **changes: object) -> ServerFacts:
    flavor = flavor_for(variables["version"], variables["version_comment"])
    facts = ServerFacts(**flavor.server_facts_from(variables, STATUS, (LINK,)), replication=(LINK,))
    return replace(facts, **changes)  # type: ignore[arg-type]


def test_facts_read_mariadb_variables() -> None:
    facts = server()
    assert (facts.flavor, facts.version, facts.server_id, facts.server_uuid) == ("mariadb", "10.11.19", 102, "")
    assert (facts.gtid_enabled, facts.gtid_executed, facts.gtid_binlog) == (True, "0-101-12", "0-101-12")
    assert (facts.binlog_expire_seconds, facts.redo_capacity_bytes, facts.redo_lsn) == (0, 33554432, 1235107922)
    assert (facts.log_bin, facts.log_replica_updates, facts.read_only) == (True, True, False)
    assert facts.external_paths == ()


def test_facts_say_how_pages_are_written() -> None:
    mysql = {**MYSQL_VARIABLES, "version": "5.7.22-log", "innodb_flush_method": ""}
    assert server(mysql).page_writes == PageWrites("fsync")
    mariadb = {**MARIADB_VARIABLES, "innodb_flush_method": "O_DIRECT", "innodb_use_atomic_writes": "ON"}
    flavor = flavor_for(mariadb["version"], "")
    status = {"Innodb_pages_written": "12", "Innodb_dblwr_pages_written": "0"}
    found = flavor.server_facts_from(mariadb, status)["page_writes"]
    assert found == PageWrites("O_DIRECT", use_atomic="ON", pages=12, doublewritten=0)
    assert set(status) <= set(flavor.read_status())
    assert server().page_writes == PageWrites()


def test_facts_read_mysql_variables() -> None:
    facts = server(MYSQL_VARIABLES)
    assert (facts.flavor, facts.version, facts.gtid_enabled, facts.gtid_executed) == (
        "mysql",
        "8.0.46",
        True,
        "a:1,b:2",
    )
    assert (facts.binlog_expire_seconds, facts.redo_capacity_bytes, facts.parallel_workers) == (2592000, 104857600, 4)
    assert facts.read_only
    assert facts.external_paths == ("/fast/undo", "/fast/ibdata2")


def test_facts_have_no_gtid_when_a_mariadb_connection_lacks_it() -> None:
    flavor = flavor_for("10.11.19-MariaDB")
    old = replace(LINK, uses_gtid=False)
    assert flavor.server_facts_from(MARIADB_VARIABLES, {}, (old,))["gtid_enabled"] is False
    assert flavor.server_facts_from({}, {})["gtid_enabled"] is False


@pytest.mark.parametrize("version", ["10.3.39-MariaDB", "10.11.19-MariaDB", "5.7.42", "9.7.4"])
def test_facts_have_every_field_when_the_server_answers_little(version: str) -> None:
    flavor = flavor_for(version)
    ServerFacts(**flavor.server_facts_from({}, {}))
    assert len(set(flavor.read_variables())) == len(flavor.read_variables())


def test_days_and_old_redo_files_are_counted() -> None:
    facts = flavor_for("5.7.42").server_facts_from(
        {"expire_logs_days": "1.5", "innodb_log_file_size": "50331648", "innodb_log_files_in_group": "2"}, {}
    )
    assert (facts["binlog_expire_seconds"], facts["redo_capacity_bytes"]) == (129600, 100663296)


@pytest.mark.parametrize("version", ["5.7.42", "8.0.29", "10.11.19-MariaDB"])
def test_bytes_written_to_the_log_are_no_log_sequence_number(version: str) -> None:
    """A flush writes its last block again, so they grow faster, and a rebuild would be refused for its redo log."""
    flavor = flavor_for(version)
    assert flavor.server_facts_from({}, {"Innodb_os_log_written": "1024"})["redo_lsn"] == 0
    assert "Innodb_os_log_written" not in flavor.read_status()


WITHOUT_GTID = {"gtid_enabled": False}


@pytest.mark.parametrize(
    ("facts", "pause", "word"),
    [
        (server(), False, "BACKUP STAGE"),
        (server(replication=()), False, "does not replicate"),
        (server(replication=(replace(LINK, open_temp_tables=2),)), True, "temporary"),
        (server(binlog_format="STATEMENT"), True, "statement-based"),
        (server(parallel_workers=4, **WITHOUT_GTID), False, "BACKUP STAGE"),
        (server(version="10.4.34", parallel_workers=4, **WITHOUT_GTID), True, "parallel"),
        (server(MYSQL_VARIABLES), False, "GTID"),
        (server(MYSQL_VARIABLES, foreign_engines={"MyISAM": 3}), False, "not InnoDB"),
        (server(MYSQL_VARIABLES, **WITHOUT_GTID), True, "parallel"),
        (server(MYSQL_VARIABLES, parallel_workers=0, **WITHOUT_GTID), False, "One applier"),
    ],
)
def test_needs_pause_only_when_the_copy_would_be_incomplete(facts: ServerFacts, pause: bool, word: str) -> None:
    paused, sentence = needs_pause(facts)
    assert paused is pause
    assert word in sentence


def test_written_blocks_are_no_log_sequence_number() -> None:
    """A commit of some bytes writes a whole block."""
    for version in ("5.7.22", "8.0.15", "10.4.2-MariaDB"):
        assert flavor_for(version).server_facts_from({}, {"Innodb_os_log_written": "512"})["redo_lsn"] == 0
