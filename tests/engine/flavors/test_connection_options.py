"""Settings of a replication connection: what is read can be written, and what cannot be written safely is left out."""

from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import ReplicationSource
from dbops.engine.flavors.connection_options import MARIADB, change_of, mysql_options, same_filter, words_of

SAMPLE = Path(__file__).parent / "samples" / "mariadb-10.11-show-all-slaves-status.txt"
mariadb, mysql = flavor_for("10.11.19-MariaDB"), flavor_for("9.7.4")


def mariadb_row(**changes: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in SAMPLE.read_text().splitlines()[1:])
    return {name.strip(): value.strip() for name, value in pairs} | changes


def test_options_of_a_mariadb_row_are_read() -> None:
    link = mariadb.parse_replication(
        mariadb_row(Master_SSL_Allowed="Yes", SQL_Delay="3600", Replicate_Ignore_Domain_Ids="7, 8", Replicate_Do_DB="a")
    )
    assert {name: link.options[name] for name in ("MASTER_SSL", "MASTER_DELAY", "IGNORE_DOMAIN_IDS")} == {
        "MASTER_SSL": "1",
        "MASTER_DELAY": "3600",
        "IGNORE_DOMAIN_IDS": "7,8",
    }
    assert link.filters == {"Replicate_Do_DB": "a"}
    assert link.source_user == "repl"


def test_what_was_read_is_written_again() -> None:
    link = mariadb.parse_replication(mariadb_row(Master_SSL_CA_File="/etc/it's.pem", Master_SSL_Allowed="Yes"))
    sql, parameters = mariadb.replicate_from(ReplicationSource("h", 1, "u", "p", options=link.options))
    typed = sql % tuple(map(repr, parameters))
    assert "MASTER_SSL = 1, MASTER_SSL_CA = '/etc/it''s.pem'," in typed
    assert "MASTER_HEARTBEAT_PERIOD = 30.000" in typed


def test_percent_in_a_value_is_no_placeholder() -> None:
    sql, parameters = mysql.replicate_from(ReplicationSource("h", 1, "u", "p", options={"SOURCE_SSL_CA": "/a%s"}))
    assert "SOURCE_SSL_CA = '/a%s'" in sql % tuple(parameters)


def test_options_of_a_mysql_row_come_from_status_and_tables() -> None:
    row = {"Channel_Name": "c", "Source_SSL_Allowed": "Yes", "SQL_Delay": 5, "HEARTBEAT_INTERVAL": "3.000"}
    options = mysql.parse_replication({**row, "PRIVILEGE_CHECKS_USER": "'u'@'%'"}).options
    words = words_of(options, mysql_options("SOURCE"))
    assert words == [
        "SOURCE_SSL = 1",
        "SOURCE_HEARTBEAT_PERIOD = 3.000",
        "SOURCE_DELAY = 5",
        "PRIVILEGE_CHECKS_USER = 'u'@'%%'",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MASTER_DELAY", "1; DROP TABLE t"),
        ("IGNORE_DOMAIN_IDS", "7); DROP"),
        ("MASTER_SSL", "1, MASTER_HOST = 'x'"),
    ],
)
def test_value_that_is_no_value_is_not_written(name: str, value: str) -> None:
    assert change_of({name: value}, MARIADB) == []
    assert words_of({name: value}, MARIADB) == []


def test_word_that_is_no_word_is_not_written() -> None:
    options = {"PRIVILEGE_CHECKS_USER": "'u'@'h', SOURCE_HOST = 'x'"}
    assert change_of(options, mysql_options("SOURCE")) == []
    assert change_of({"PRIVILEGE_CHECKS_USER": ""}, mysql_options("SOURCE")) == ["PRIVILEGE_CHECKS_USER = NULL"]


def test_change_names_the_connection_and_empties_what_is_empty() -> None:
    assert mariadb.change_options("m'x", {"IGNORE_DOMAIN_IDS": "", "MASTER_DELAY": "0"}) == (
        "CHANGE MASTER 'm''x' TO IGNORE_DOMAIN_IDS = (), MASTER_DELAY = 0"
    )
    assert mysql.change_options("c", {"SOURCE_DELAY": "4"}).endswith(" SOURCE_DELAY = 4 FOR CHANNEL 'c'")
    assert flavor_for("8.0.22").change_options("", {"MASTER_DELAY": "4"}) == "CHANGE MASTER TO MASTER_DELAY = 4"


def test_filters_are_set_in_words_of_the_server() -> None:
    filters = {"Replicate_Wild_Ignore_Table": "a.%,b'c.d%", "Replicate_Do_Table": "x.y"}
    assert "SET GLOBAL `m`.replicate_wild_ignore_table = 'a.%,b''c.d%'" in mariadb.set_filters("m", filters)
    [sql] = mysql.set_filters("c", {**filters, "Replicate_Rewrite_DB": "(a,b),(c,d)"})
    assert "REPLICATE_WILD_IGNORE_TABLE = ('a.%', 'b''c.d%')" in sql
    assert "REPLICATE_DO_TABLE = (`x`.`y`)" in sql
    assert "REPLICATE_REWRITE_DB = ((`a`, `b`), (`c`, `d`))" in sql
    assert sql.endswith(" FOR CHANNEL 'c'")


@pytest.mark.parametrize(("version", "expected"), [("10.6.27-MariaDB", False), ("10.11.19-MariaDB", True)])
def test_mariadb_rewrites_are_set_where_they_are_a_variable(version: str, expected: bool) -> None:
    found = flavor_for(version).set_filters("", {"Replicate_Rewrite_DB": "a->b,c->d"})
    assert ("SET GLOBAL replicate_rewrite_db = 'a->b,c->d'" in found) == expected
    assert len(found) == 6 + expected


def test_order_of_a_filter_counts_only_in_rewrites() -> None:
    assert same_filter("Replicate_Do_Table", "e.e,b.b,z.a", "z.a,b.b,e.e")
    assert not same_filter("Replicate_Do_Table", "e.e,b.b", "e.e,b.b,z.a")
    assert not same_filter("Replicate_Rewrite_DB", "a->b,a->c", "a->c,a->b")


def test_named_connections_are_forgotten_by_their_names() -> None:
    assert mariadb.forget_replication(["main"]) == ["RESET SLAVE 'main' ALL"]
    assert mariadb.forget_replication(["", "main"]) == ["RESET SLAVE ALL", "RESET SLAVE 'main' ALL"]
