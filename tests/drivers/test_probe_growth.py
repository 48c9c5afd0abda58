"""The hourly reading: when it is due, what it does without a privilege or without time, and which tables have their turn."""

from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from dbops.drivers import probe_growth
from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.probe_growth import EVERY_SECONDS, is_growth_due, read_growth
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.growth import AutoIncrement, GrowthReading
from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.growth import TABLES_OF_AN_HOUR, has_dictionary, largest_value
from tests.app.factories import make_server_facts
from tests.drivers.conftest import Server
from tests.fakes import FakeDatabase, FakeShell

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MARIADB = flavor_for("10.11.19-MariaDB", "MariaDB")
MYSQL = flavor_for("8.0.36", "MySQL Community Server - GPL")
REFUSED = RemoteFailure("mysql.error", "Reading", cause="1142: SELECT command denied")


@pytest.mark.parametrize(
    ("age", "due"), [(0, False), (EVERY_SECONDS - 1, False), (EVERY_SECONDS, True), (-3, False), (-60, True)]
)
def test_a_reading_is_due_each_hour_and_after_the_clock_was_set_back(age: float, due: bool) -> None:
    known = InstanceFacts(NOW, growth=GrowthReading(NOW - timedelta(seconds=age)))
    assert is_growth_due(NOW, known) is due


def test_a_first_reading_is_due() -> None:
    assert is_growth_due(NOW, None)
    assert is_growth_due(NOW, InstanceFacts(NOW))


@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        ("int(11)", 2**31 - 1),
        ("int unsigned", 2**32 - 1),
        ("INT(10) UNSIGNED ZEROFILL", 2**32 - 1),
        ("tinyint(4)", 127),
        ("smallint(5) unsigned", 65535),
        ("mediumint", 2**23 - 1),
        ("bigint(20) unsigned", 2**64 - 1),
        ("double", None),
        ("", None),
    ],
)
def test_largest_values_are_those_of_the_types(kind: str, largest: int | None) -> None:
    assert largest_value(kind) == largest


def world(tables: int = 0) -> FakeDatabase:
    """Return a server of which each statement can be answered; ``asked`` tables are named t0 to t<n>."""
    database = FakeDatabase()
    database.expect("SHOW GLOBAL STATUS", [{"Variable_name": "Questions", "Value": "7"}])
    database.expect("SHOW GLOBAL VARIABLES", [{"Variable_name": "max_connections", "Value": "151"}])
    database.expect("SHOW BINARY LOGS", [{"Log_name": "b.1", "File_size": 5}, {"Log_name": "b.2", "File_size": 6}])
    database.expect("SET SESSION", [])
    database.expect("AS found", [{"found": 3}])
    database.expect("AS whole", [{"whole": Decimal(3), "parts": Decimal(4)}])
    database.expect("AS entries", [{"entries": tables, "data": Decimal(10), "indexes": Decimal(20)}])
    database.expect("AS bytes", [{"s": "shop", "n": "t", "bytes": 1}])
    database.expect("LIMIT %s, %s", lambda _, parameters: names(tables, *parameters))
    database.expect("UNION ALL|t.AUTO_INCREMENT", counters)
    return database


def names(tables: int, start: int, count: int) -> list[dict[str, str]]:
    return [{"s": "shop", "n": f"t{number:05}"} for number in range(tables)][start : start + count]


def counters(_: str, parameters: Any) -> list[dict[str, Any]]:
    found = list(zip(parameters[0::4], parameters[1::4], strict=True))
    assert found == list(zip(parameters[2::4], parameters[3::4], strict=True))
    return [{"s": s, "n": n, "c": "id", "kind": "int", "value": int(n.strip("t"))} for s, n in found]


def read(
    database: FakeDatabase, now: datetime = NOW, previous: GrowthReading | None = None, flavor: Any = MARIADB
) -> Any:
    return read_growth(database, flavor, now, previous, make_server_facts(foreign_engines={"MyISAM": 2}))


def test_an_answer_is_read() -> None:
    found = read(world())
    assert (found.schemas, found.tables, found.partitions) == (3, 5, 4)
    assert (found.data_bytes, found.index_bytes, found.binlog_bytes) == (10, 20, 11)
    assert (found.questions, found.max_connections, found.open_tables, found.writes) == (7, 151, None, None)
    assert from_record(GrowthReading, to_record(found)) == found


def test_a_dictionary_counts_tables_of_all_engines() -> None:
    assert has_dictionary(MYSQL)
    assert read(world(), flavor=MYSQL).tables == 3


@pytest.mark.parametrize(
    ("flavor", "limit"), [(MARIADB, "max_statement_time = 2"), (MYSQL, "max_execution_time = 2000")]
)
def test_the_limit_comes_before_the_first_statement(flavor: Any, limit: str) -> None:
    database = world()
    read(database, flavor=flavor)
    assert database.statements[0] == f"SET SESSION {limit}"


def test_what_is_refused_is_unknown() -> None:
    database = world()
    for pattern in ("SHOW GLOBAL", "SHOW BINARY", "SELECT"):
        database.expect(pattern, REFUSED)
    assert read(database) == GrowthReading(NOW)


def test_without_time_the_rest_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_growth, "TOTAL_SECONDS", -1.0)
    database = world()
    known = (AutoIncrement("shop", "orders", "id", 5, 127),)
    found = read(database, previous=GrowthReading(NOW, auto_increment=known))
    assert len(database.statements) == 1
    assert found == GrowthReading(NOW, auto_increment=known)


@pytest.mark.parametrize("failed", ["SET SESSION", "AS whole", "t.AUTO_INCREMENT"])
def test_a_reading_that_fails_knows_nothing_and_is_due_again_in_an_hour(failed: str) -> None:
    database = world(2)
    database.expect(failed, Unreachable("mysql.unreachable", "Reading"))
    known = (AutoIncrement("shop", "orders", "id", 5, 127),)
    before = NOW - timedelta(hours=1)
    found = read(database, previous=GrowthReading(before, schemas=7, auto_increment=known))
    assert found == GrowthReading(NOW, auto_increment=known)
    assert not is_growth_due(NOW + timedelta(seconds=15), InstanceFacts(NOW, growth=found))
    assert read(database) == GrowthReading(NOW)


def test_a_lost_connection_ends_the_reading() -> None:
    database = world()
    database.lose()
    assert read(database) == GrowthReading(NOW)


def test_every_table_has_its_turn_and_the_fullest_are_kept() -> None:
    tables = 2 * TABLES_OF_AN_HOUR + 30
    reading, asked = None, set()
    for hour in range(3):
        database = world(tables)
        reading = read(database, NOW + timedelta(hours=hour), reading)
        asked |= {
            name for sql, parameters in database.executed if "t.AUTO_INCREMENT" in sql for name in parameters[1::4]
        }
        assert len([sql for sql in database.statements if "t.AUTO_INCREMENT" in sql]) <= 11
    assert len(asked) == tables
    assert [one.table for one in reading.auto_increment] == [f"t{tables - number:05}" for number in range(1, 11)]


def test_a_table_that_was_dropped_is_forgotten() -> None:
    known = GrowthReading(NOW, auto_increment=(AutoIncrement("shop", "gone", "id", 100, 127),))
    database = world(2)
    database.expect("t.AUTO_INCREMENT", lambda _, __: [])
    assert read(database, previous=known).auto_increment == ()


@pytest.mark.services
def test_an_account_without_privileges_learns_nothing_and_fails_nothing(
    server: Server, database: MysqlDatabase
) -> None:
    database.execute("CREATE USER poor@'%' IDENTIFIED BY 'poor'")
    try:
        with closing(MysqlDatabase(replace(server.address, user="poor", password="poor"))) as poor:
            found = read_growth(poor, MARIADB, NOW, None, make_server_facts())
    finally:
        with closing(MysqlDatabase(server.address)) as again:
            again.execute("DROP USER poor@'%'")
    unknown = {item.name for item in fields(found) if getattr(found, item.name) is None}
    assert {"tables", "partitions", "data_bytes", "index_bytes", "largest", "auto_increment", "binlog_bytes"} <= unknown
    assert found.questions


@pytest.mark.services
def test_a_probe_reads_growth_once_an_hour_and_not_for_a_plan(server: Server, shell: Any) -> None:
    target = ProbeTarget(str(server.datadir), str(server.defaults_file))

    def probe(now: datetime, previous: InstanceFacts | None, *, is_fresh: bool = False) -> InstanceFacts:
        return probe_instance(
            target, FakeShell(runs_here=True), lambda: MysqlDatabase(server.address), now, previous, is_fresh=is_fresh
        )

    first = probe(NOW, None)
    assert first.growth
    assert (first.growth.read_at, first.growth.max_connections is None) == (NOW, False)
    second = probe(NOW + timedelta(minutes=59), first)
    assert second.growth == first.growth
    fresh = probe(NOW + timedelta(minutes=61), second, is_fresh=True)
    assert fresh.growth == first.growth
    third = probe(NOW + timedelta(minutes=62), fresh)
    assert third.growth
    assert third.growth.read_at == NOW + timedelta(minutes=62)
