"""A real tidb-server: what a probe reads, and each statement of the advice, with what it changes and how it is undone."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.probe_tidb import read_tidb
from dbops.engine.capacity.tidb_advice import SpreadOption, ways_for
from dbops.engine.capacity.tidb_placement import is_sharded, why_hot
from dbops.engine.facts.tidb import TablePlacement, TidbFacts
from dbops.engine.flavors.sql_text import sql_name
from tests.fakes import FakeShell
from tests.tidb import WHY_NOT, Recorder, connect, running_tidb

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
RECORDED = Path(__file__).parents[1] / "engine" / "recorded" / "tidb-8.4" / "probe.json"
#: With a back-tick, quotes, a comment, a placeholder, and as long as a name may be.
HOSTILE = ("a`b%s';--\"/*" + "x" * 64)[:64]
ROWS = 300
#: The hostile table is in the second one.
SCHEMAS = ("shop", "shop`s")
#: Definition by table. Each counts its rows up, or has no key.
TABLES = {
    "orders": "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY CLUSTERED, u INT, note VARCHAR(99) COMMENT 'PRIMARY KEY (`x`)')",
    "signless": "(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY CLUSTERED, u INT, UNIQUE KEY both_of (u, id))",
    "heap": "(id INT, u INT)",
    "loose": "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY NONCLUSTERED, u INT)",
    "pair of": "(id BIGINT NOT NULL AUTO_INCREMENT, u INT, PRIMARY KEY (id, u) CLUSTERED) COMMENT 'a \\'b\\' `c`'",
    HOSTILE: "(`i``d` BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY CLUSTERED, u INT)",
}
DONE = (
    "CREATE TABLE {}.sharded (id INT PRIMARY KEY NONCLUSTERED) SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=3",
    "CREATE TABLE {}.parts (id BIGINT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 12",
    "CREATE TABLE {}.random (id BIGINT PRIMARY KEY AUTO_RANDOM)",
)


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with running_tidb() as port:
        database = connect(port)
        yield database
        database.close()


@pytest.fixture
def tables(database: MysqlDatabase) -> None:
    for schema in SCHEMAS:
        database.execute(f"DROP DATABASE IF EXISTS {sql_name(schema)}")
        database.execute(f"CREATE DATABASE {sql_name(schema)}")
    for table, definition in TABLES.items():
        name = quoted(table)
        database.execute(f"CREATE TABLE {name} {definition}")
        values = ", ".join(f"({number})" for number in range(ROWS))
        database.execute(f"INSERT INTO {name} (u) VALUES {values}")
        database.execute(f"ANALYZE TABLE {name}")
    for statement in DONE:
        database.execute(statement.format(SCHEMAS[0]))


def quoted(table: str) -> str:
    return f"{sql_name(SCHEMAS[table == HOSTILE])}.{sql_name(table)}"


def read(database: MysqlDatabase) -> TidbFacts:
    first = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
    found = read_tidb(database, first["version"], first["comment"], now=NOW, previous=None, grows=True)
    assert found.facts.tidb
    return found.facts.tidb


def placement(database: MysqlDatabase, table: str) -> TablePlacement:
    return next(one for one in read(database).placements or () if one.table == table)


@pytest.mark.by_hand("TiDB 8.4", "statements")
@pytest.mark.usefixtures("tables")
def test_probe_reads_a_node(database: MysqlDatabase) -> None:
    recorder = Recorder(database)
    target = ProbeTarget("/nowhere", is_tidb=True)
    facts = probe_instance(target, FakeShell(runs_here=True), lambda: recorder, NOW)
    assert facts.server_problem is None
    assert facts.server
    assert facts.server.tidb
    assert facts.growth
    found = facts.server.tidb
    assert (facts.server.flavor, found.store, found.tikv_nodes, found.schemas) == ("tidb", "unistore", 1, 3)
    assert facts.growth.tables == found.tables == len(TABLES) + len(DONE)
    known = {one.table: one for one in found.placements or ()}
    assert known.keys() >= {*TABLES, "sharded", "parts", "random"}
    assert all(one.stores and not one.problem for one in known.values())
    assert {name for name, one in known.items() if why_hot(one)} == set(TABLES)
    assert [known[name].partitions for name in ("parts", "sharded")] == [12, 0]
    assert known["parts"].regions == 12
    assert known["signless"].unique_keys == (("u", "id"),)
    # what MySQL answers and TiDB does not never gets into its facts
    assert "error" not in {key for act in recorder.acts for key in act}
    if os.environ.get("DBOPS_RECORD"):
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(
            without_places(json.dumps(recorder.acts, indent=1, ensure_ascii=False)) + "\n", encoding="utf-8"
        )


def without_places(text: str) -> str:
    """Replace what is of this machine: its name, folder and ports."""
    for name, value in {"hostname": "tidb-1", "datadir": "/var/lib/tidb", "port": "4000"}.items():
        text = re.sub(rf'("{name}",\s+"Value": )"[^"]*"', rf'\1"{value}"', text)
    return re.sub(r"127\.0\.0\.1:\d+", "192.0.2.1:4000", text)


@pytest.mark.by_hand("TiDB 8.4", "statements")
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["partitions", "shards", "random_ids"])
def test_advice_is_done_and_undone(database: MysqlDatabase, table: str, name: str) -> None:
    before, where = placement(database, table), quoted(table)
    # a cluster of 12 stores, whose statements are tried on one
    way = next(way for way in ways_for(before, tikv_nodes=12, release=read(database).release) if way.name == name)
    possible = {"partitions": {*TABLES} - {"heap"}, "shards": {*TABLES}, "random_ids": {"orders", "signless", HOSTILE}}
    assert (not way.why_not) == (table in possible[name]), way
    if way.why_not:
        assert not way.statements
        return
    seen = run(database, way.statements)
    assert seen == [[]]  # the last check lists no region that still moves
    changed(placement(database, table), way)
    assert count(database, where) == ROWS
    run(database, way.undo)
    after = placement(database, table)
    assert count(database, where) == ROWS
    if name != "random_ids":  # that one says that it cannot be undone in place
        assert same(after) == same(before)


def changed(found: TablePlacement, way: SpreadOption) -> None:
    assert not why_hot(found)
    if way.name == "partitions":
        assert (found.partition_method, found.partitions, found.regions) == ("KEY", 12, 12)
    else:
        assert is_sharded(found)
    if way.name == "shards":
        assert (found.regions or 0) >= 16


def run(database: MysqlDatabase, statements: tuple[str, ...]) -> list[list[object]]:
    """Run statements and return the answers of the checks."""
    answers = []
    for statement in statements:
        rows = database.query(statement)
        if statement.startswith("SHOW"):
            answers.append([row["REGION_ID"] for row in rows])
    return answers or [[]]


def count(database: MysqlDatabase, name: str) -> int:
    return int(database.query(f"SELECT COUNT(*) AS found FROM {name}")[0]["found"])


@pytest.mark.by_hand("TiDB 8.4", "statements")
def test_statements_for_mysql_are_rejected_by_number(database: MysqlDatabase) -> None:
    """Why a TiDB node has a probe of its own."""
    recorder, rejected = Recorder(database), []
    for statement in (
        "SHOW REPLICA STATUS",
        "SELECT @@gtid_executed",
        "FLUSH TABLES WITH READ LOCK",
        "LOCK INSTANCE FOR BACKUP",
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011 - of any kind: the recorder notes its number
            recorder.query(statement)
        rejected.append(str(recorder.acts[-1]["error"])[:6].strip("( ,'"))
    assert [number[:4] for number in rejected] == ["1235", "1193", "1105", "1064"]


def same(table: TablePlacement) -> TablePlacement:
    """The table without what statistics and the store say of it."""
    return replace(table, stores=None, definition="", bytes=0, rows=0)


@pytest.mark.by_hand("TiDB 8.4", "statements")
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("granted", [True, False])
def test_documented_privileges_suffice(database: MysqlDatabase, granted: bool) -> None:
    """Without them, values are unknown, and the probe does not fail."""
    database.execute("DROP USER IF EXISTS reader")
    database.execute("CREATE USER reader")
    if granted:
        database.execute("GRANT PROCESS, SELECT ON *.* TO reader")
    with closing(MysqlDatabase(replace(database.address, user="reader"))) as own:
        facts = probe_instance(ProbeTarget("/nowhere", is_tidb=True), FakeShell(runs_here=True), lambda: own, NOW)
    assert facts.server_problem is None
    assert facts.server
    assert facts.server.tidb
    found = facts.server.tidb
    assert (found.tikv_nodes, len(found.placements or ())) == ((1, len(TABLES) + len(DONE)) if granted else (None, 0))
    assert all(one.stores and one.definition for one in found.placements or ())
