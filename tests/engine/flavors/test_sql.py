"""Replication statements by version, and the rows and variables that servers answer with."""

from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Coordinates, ReplicationSource

#: What servers, tools and scripts say or get: recorded, not worded here.
MARIADB_POSITION = "MASTER_USE_GTID = no, MASTER_LOG_FILE = 'binlog.000006', MASTER_LOG_POS = 198"
MYSQL_POSITION = "SOURCE_AUTO_POSITION = 0, SOURCE_LOG_FILE = 'binlog.000006', SOURCE_LOG_POS = 198"
NAMED_CHANNEL = "CHANGE MASTER 'c 1' TO MASTER_HOST = 'h'"
RESET_LOGS = "RESET BINARY LOGS AND GTIDS"
RESET_SLAVE = "RESET SLAVE ALL"
RESET_REPLICA = "RESET REPLICA ALL"

SAMPLES = Path(__file__).parent / "samples"
mariadb = flavor_for("10.11.19-MariaDB")
GTID = ReplicationSource("h", 3306, "repl", "p%s", gtid=True)
POSITION = ReplicationSource("h", 3306, "repl", "p", gtid=False, start=Coordinates("binlog.000006", 198))


def typed(statement: tuple[str, object]) -> str:
    sql, parameters = statement
    return sql % tuple(repr(value) if isinstance(value, str) else value for value in parameters)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("version", "status", "position", "hosts", "stop"),
    [
        ("5.7.42", "SHOW SLAVE STATUS", "SHOW MASTER STATUS", "SHOW SLAVE HOSTS", "STOP SLAVE"),
        ("8.0.21", "SHOW SLAVE STATUS", "SHOW MASTER STATUS", "SHOW SLAVE HOSTS", "STOP SLAVE"),
        ("8.0.22", "SHOW REPLICA STATUS", "SHOW MASTER STATUS", "SHOW REPLICAS", "STOP REPLICA"),
        ("8.0.46", "SHOW REPLICA STATUS", "SHOW MASTER STATUS", "SHOW REPLICAS", "STOP REPLICA"),
        ("8.4.10", "SHOW REPLICA STATUS", "SHOW BINARY LOG STATUS", "SHOW REPLICAS", "STOP REPLICA"),
        ("9.7.4", "SHOW REPLICA STATUS", "SHOW BINARY LOG STATUS", "SHOW REPLICAS", "STOP REPLICA"),
        ("10.11.19-MariaDB", "SHOW ALL SLAVES STATUS", "SHOW MASTER STATUS", "SHOW SLAVE HOSTS", "STOP ALL SLAVES"),
    ],
)
def test_statements_fit_each_server_version(version: str, status: str, position: str, hosts: str, stop: str) -> None:
    flavor = flavor_for(version)
    assert (flavor.show_replication, flavor.show_binlog_position, flavor.show_replicas) == (status, position, hosts)
    assert flavor.stop_replication() == [stop]
    assert flavor.pause_applier() == f"{stop} SQL_THREAD"
    assert flavor.resume_applier() == f"{stop.replace('STOP', 'START')} SQL_THREAD"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "5.7.42",
            "CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PORT = 3306, MASTER_USER = 'repl', "
            "MASTER_PASSWORD = 'p%s', MASTER_AUTO_POSITION = 1",
        ),
        (
            "8.0.22",
            "CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PORT = 3306, MASTER_USER = 'repl', MASTER_PASSWORD = 'p%s', "
            "GET_MASTER_PUBLIC_KEY = 1, MASTER_AUTO_POSITION = 1",
        ),
        (
            "8.0.23",
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', SOURCE_PORT = 3306, SOURCE_USER = 'repl', SOURCE_PASSWORD = 'p%s', "
            "GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = 1",
        ),
        (
            "10.11.19-MariaDB",
            "CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PORT = 3306, MASTER_USER = 'repl', MASTER_PASSWORD = 'p%s', "
            "MASTER_USE_GTID = slave_pos",
        ),
    ],
)
def test_replicating_by_gtid(version: str, expected: str) -> None:
    statement = flavor_for(version).replicate_from(GTID)
    assert typed(statement) == expected
    assert "p%s" in statement[1]


def test_replicating_from_a_file_and_position() -> None:
    assert typed(mariadb.replicate_from(POSITION)).endswith(MARIADB_POSITION)
    assert typed(flavor_for("8.4.10").replicate_from(POSITION)).endswith(MYSQL_POSITION)


@pytest.mark.parametrize("version", ["10.11.19-MariaDB", "5.7.42", "8.4.10"])
def test_replicate_from_never_starts_at_the_first_log(version: str) -> None:
    sql = typed(flavor_for(version).replicate_from(ReplicationSource("h", 1, "u", "p", gtid=False)))
    assert "_LOG_FILE = 'position-unknown'" in sql


def test_replicate_from_supports_a_named_channel() -> None:
    source = ReplicationSource("h", 1, "u", "p", channel="c 1")
    assert typed(mariadb.replicate_from(source)).startswith(NAMED_CHANNEL)
    assert typed(flavor_for("8.4.10").replicate_from(source)).endswith(" FOR CHANNEL 'c 1'")


@pytest.mark.parametrize(
    ("start", "executed", "statements"),
    [
        ("0-101-16", "", ["SET GLOBAL gtid_slave_pos = '0-101-16'"]),
        ("0-101-16", "0-101-16", []),
        ("0-101-16", "0-99-7", ["SET GLOBAL gtid_slave_pos = '0-101-16'"]),
        ("0-101-16", "0-101-12,5-7-3", ["SET GLOBAL gtid_slave_pos = '0-101-16,5-7-3'"]),
        ("0-101-16", "0-101-20", []),
        ("", "0-101-16", []),
        ("GTID-OF-COPY", "", ["SET GLOBAL gtid_slave_pos = 'GTID-OF-COPY'"]),
        ("x'; DROP", "", ["SET GLOBAL gtid_slave_pos = 'x''; DROP'"]),
    ],
)
def test_set_position_is_set_in_mariadb_only_when_unknown(start: str, executed: str, statements: list[str]) -> None:
    assert mariadb.set_position(Coordinates("f", 4, start), executed) == statements


def test_set_position_is_set_in_mysql_only_when_unknown() -> None:
    uuid = "8f84f270-e51e-11f1-9a6c-02fc00000001"
    start = Coordinates("f", 4, f"{uuid}:1-17")
    found = f"SET GLOBAL gtid_purged = '{uuid}:1-17'"
    assert flavor_for("5.7.42").set_position(start, "") == ["RESET MASTER", found]
    assert flavor_for("8.0.46").set_position(start, f"{uuid}:1-3") == ["RESET MASTER", found]
    assert flavor_for("8.4.10").set_position(start, "") == [RESET_LOGS, found]
    assert flavor_for("8.4.10").set_position(start, f"{uuid}:1-17") == []
    assert flavor_for("8.4.10").set_position(start, f"{uuid}:1-20") == []
    assert flavor_for("8.4.10").set_position(Coordinates("f", 4), "") == []
    assert flavor_for("8.4.10").set_position(Coordinates(gtid="GTID-OF-COPY"), "")[1].endswith("'GTID-OF-COPY'")


def test_settings_that_came_with_the_data_are_forgotten() -> None:
    assert mariadb.forget_replication() == [RESET_SLAVE]
    assert flavor_for("5.7.42").forget_replication() == [RESET_SLAVE]
    assert flavor_for("8.4.10").forget_replication() == [RESET_REPLICA]


def test_replication_row_of_mariadb_is_read() -> None:
    text = (SAMPLES / "mariadb-10.11-show-all-slaves-status.txt").read_text()
    pairs = (line.split(": ", 1) for line in text.splitlines() if ": " in line)
    facts = mariadb.parse_replication({key.strip(): value for key, value in pairs})
    assert (facts.source_host, facts.source_port, facts.lag_seconds) == ("127.0.0.1", 34101, 0.0)
    assert facts.is_running
    assert facts.uses_gtid
    assert facts.gtid_position.startswith("0-101-")
    assert facts.relay_source_log_file == "binlog.000001"
    assert facts.exec_source_log_pos > 4


def test_replication_row_of_mysql_is_read_with_typed_values() -> None:
    row = {
        "Channel_Name": "",
        "Source_Host": "h",
        "Source_Port": 3306,
        "Replica_IO_Running": "Connecting",
        "Replica_SQL_Running": "Yes",
        "Seconds_Behind_Source": None,
        "Auto_Position": 1,
        "Executed_Gtid_Set": "a:1,\nb:1-17",
        "Relay_Source_Log_File": "binlog.000002",
        "Exec_Source_Log_Pos": 197,
        "Last_IO_Error": "error connecting",
        "Last_SQL_Error": "",
    }
    facts = flavor_for("8.4.10").parse_replication(row)
    assert facts.lag_seconds is None
    assert not facts.is_running
    assert facts.uses_gtid
    assert facts.gtid_position == "a:1,b:1-17"
    assert (facts.relay_source_log_file, facts.exec_source_log_pos) == ("binlog.000002", 197)
    assert facts.last_io_error == "error connecting"


def test_old_names_and_the_clients_null_are_read_too() -> None:
    row = {
        "Master_Host": "h",
        "Master_Port": "3307",
        "Seconds_Behind_Master": "NULL",
        "Using_Gtid": "No",
        "Slave_SQL_Running": "No",
    }
    facts = mariadb.parse_replication(row)
    assert (facts.source_host, facts.source_port, facts.lag_seconds, facts.uses_gtid) == ("h", 3307, None, False)
    assert facts.sql_running == "No"
