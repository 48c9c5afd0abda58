"""The certificate's statements on a real server of each series: what they see of columns and indexes, and how they divide rows."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.rebuilds.certificate import columns, ranges, rows, sizes
from dbops.engine.rebuilds.certificate.inventory import Scope, differences, read_inventory
from dbops.engine.rebuilds.certificate.key_values import bounds_of, range_of
from dbops.engine.rebuilds.certificate.openable import Table
from lab.pytest_plugin import start_lab
from lab.unpacked import MARIADB_11_8, why_no_mysql
from tests import run_folder
from tests.networks import free_network

pytestmark = pytest.mark.services
SERIES = {"mariadb": "", "mariadb-11.8": MARIADB_11_8.why_not(), "mysql": why_no_mysql()}
THING = Table("shapes", "thing")


class Server:
    """A primary alone."""

    def __init__(self, database: MysqlDatabase) -> None:
        self.database = database
        version = str(database.query("SELECT CONCAT(@@version, ' ', @@version_comment) AS v")[0]["v"])
        self.flavor: Flavor = flavor_for(version, version)
        self.is_mysql = self.flavor.name == "mysql"

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement)

    def shape(self, *, exact: bool = True) -> str:
        columns.prepare(self.database, self.flavor)
        return columns.read_shape(self.database, self.flavor, exact=exact).digests[THING]

    def reset(self) -> None:
        self.run(
            "CREATE DATABASE IF NOT EXISTS shapes CHARACTER SET utf8mb4",
            "DROP TABLE IF EXISTS shapes.thing, shapes.two, shapes.TWO, shapes.keyless, shapes.big",
            "CREATE TABLE shapes.thing (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL DEFAULT 'x', price DECIMAL(8,2),"
            " body TEXT, twice INT AS (id * 2) VIRTUAL, KEY by_name (name), KEY by_body (body(10)))",
        )


@pytest.fixture(scope="module", params=SERIES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if SERIES[request.param]:
        pytest.skip(SERIES[request.param])
    folder = run_folder.new_folder("statements")
    options: dict[str, Any] = {"size": "8M", "replicas": 0, "backups": 0, "flavor": request.param}
    with start_lab(folder / "lab", free_network(), templates=run_folder.shared() / "labs", **options) as lab:
        owner, host = lab.accounts["owner"], lab.primary
        database = MysqlDatabase(MysqlAddress(host.address, host.port, owner.user, owner.password))
        for statement in rows.SESSION:
            database.execute(statement)
        yield Server(database)
        database.close()
    shutil.rmtree(folder, ignore_errors=True)


#: What is changed, what undoes it, and what the explanation begins with. ``same``: seen between versions, too.
CHANGED = [
    ("MODIFY price DECIMAL(10,2)", "column price: full type", False),
    ("MODIFY price BIGINT", "column price: type", True),
    ("MODIFY price DECIMAL(8,2) NOT NULL", "column price: nullability", True),
    ("MODIFY name VARCHAR(40) NOT NULL DEFAULT 'y'", "column name: default", False),
    ("MODIFY name VARCHAR(40) CHARACTER SET latin1 NOT NULL DEFAULT 'x'", "column name: character set", False),
    ("MODIFY name VARCHAR(40) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x'", "column name: collation", False),
    ("MODIFY twice INT AS (id * 3) VIRTUAL", "column twice: expression", False),
    ("DROP COLUMN price", "column price is missing", True),
    ("ADD COLUMN more INT", "column more is extra", True),
    ("DROP INDEX by_name", "index by_name is missing", True),
    ("DROP INDEX by_name, ADD UNIQUE by_name (name)", "index by_name is unique (name)", True),
    ("DROP INDEX by_name, ADD INDEX by_name (name, price)", "index by_name is (name, price)", True),
    ("DROP INDEX by_body, ADD INDEX by_body (body(12))", "index by_body is (body)", False),
    ("DROP INDEX by_name, ADD FULLTEXT by_name (name)", "index by_name is (name)", False),
]


class Before:
    """The answers of a server before a change, for the statements of ``changes``."""

    def __init__(self, server: Server) -> None:
        self.known = {}
        for kind in columns.KINDS:
            sql = kind.details(server.flavor, exact=True)
            self.known[sql] = server.database.query(sql, (THING.schema, THING.name))

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        return self.known[sql]


@pytest.mark.situation("inventory", "each property of a column or an index that differs is named, on each series")
def test_each_differing_property_is_seen_and_named(server: Server) -> None:
    for change, named, seen_between_versions in CHANGED:
        server.reset()
        exact, same, before = server.shape(), server.shape(exact=False), Before(server)
        server.run(f"ALTER TABLE shapes.thing {change}")
        assert server.shape() != exact, change
        assert (server.shape(exact=False) != same) is seen_between_versions, change
        found = columns.changes(before, server.database, server.flavor, THING, exact=True)  # type: ignore[arg-type]
        assert any(one.startswith(named) for one in found), (change, found)
        assert len(found) <= 4, found  # what follows from a character set is no more than its collation


@pytest.mark.situation("inventory", "each property of a column or an index that differs is named, on each series")
def test_geometry_type_has_one_name_on_each_series(server: Server) -> None:
    server.reset()
    server.run("ALTER TABLE shapes.thing ADD COLUMN place GEOMETRYCOLLECTION")
    found = server.database.query(columns.COLUMN.details(server.flavor, exact=False), (THING.schema, THING.name))
    number = [part.name for part in columns.COLUMN.parts(server.flavor, exact=False)].index("type")
    assert [row[f"p{number}"] for row in found if row["name"] == "place"] == ["geometrycollection"]


@pytest.mark.situation("inventory", "each property of a column or an index that differs is named, on each series")
def test_swapped_types_and_names_that_differ_in_case_are_not_confused(server: Server) -> None:
    server.reset()
    server.run("CREATE TABLE shapes.two (c1 DECIMAL(8,2), c2 DECIMAL(9,2))", "CREATE TABLE shapes.TWO (c1 INT)")
    columns.prepare(server.database, server.flavor)

    def digests() -> tuple[str, str]:
        found = columns.read_shape(server.database, server.flavor, exact=True).digests
        return found[Table("shapes", "two")], found[Table("shapes", "TWO")]

    before = digests()
    server.run("ALTER TABLE shapes.two MODIFY c1 DECIMAL(9,2), MODIFY c2 DECIMAL(8,2)")
    assert digests()[0] != before[0]
    assert digests()[1] == before[1]


@pytest.mark.situation("inventory", "each property of a column or an index that differs is named, on each series")
def test_settings_of_a_session_or_server_change_no_digest(server: Server) -> None:
    server.reset()
    if server.is_mysql:
        server.run(
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE shapes.keyless (a INT, b ENUM('a', 'it''s'), at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
        )
    scope = Scope()
    before = read_inventory(server.database, server.flavor, scope)
    settings = ["SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET SESSION sql_quote_show_create = 0"]
    if server.is_mysql:
        settings += ["SET SESSION show_gipk_in_create_table_and_information_schema = OFF"]
    else:
        settings += ["SET SESSION old_mode = ''"]
    server.run(*settings)
    after = read_inventory(server.database, server.flavor, scope)
    assert differences(before, after) == {}
    assert after.parts["column"] > len(after.tables) > 1


@pytest.mark.situation("equal", "tables whose size InnoDB does not keep are sized by opening them, on each series")
def test_table_without_kept_statistics_has_a_size(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reset()
    server.run("ALTER TABLE shapes.thing STATS_PERSISTENT=0", "DELETE FROM mysql.innodb_table_stats")
    monkeypatch.setattr(sizes, "LARGE_BYTES", 1)
    assert sizes.large_of(server.database, [THING]) == [THING]


#: The key's columns, its definition, and the values of a row.
KEYED = {
    "few tenants": ("tenant, id", "tenant INT, id BIGINT, PRIMARY KEY (tenant, id)", "seq % 2, seq"),
    "texts": ("tenant, at, id", "tenant VARCHAR(20) CHARACTER SET latin1, at DATETIME(3), id INT, PRIMARY KEY (tenant, at, id)",
              "ELT(1 + seq % 3, 'ä', 'b''%', 'C'), '2026-01-01' + INTERVAL seq % 7 DAY, seq"),
    "a unique key": ("kind, id", "kind ENUM('b', 'a'), id INT NOT NULL, PRIMARY KEY (kind, id), UNIQUE (id)", "1 + seq % 2, seq"),
    "bytes": ("part, price, id", "part BINARY(2), price DECIMAL(30,2), id INT, PRIMARY KEY (part, price, id)",
              "UNHEX(LPAD(HEX(seq % 5), 4, '0')), 12345678901234567890.00 + seq % 3, seq"),
}  # fmt: skip


@pytest.mark.situation("equal", "large tables whose key begins with few values are compared by ranges of the whole key")
@pytest.mark.parametrize("kind", KEYED)
def test_ranges_cover_each_row_once_and_use_the_index(
    server: Server, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RANGE_ROWS", 300)
    names, definition, values = KEYED[kind]
    server.reset()
    server.run(
        f"CREATE TABLE shapes.big ({definition}, at_once TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
        " twice INT AS (id * 2) VIRTUAL)",
        f"SET SESSION {'cte_max_recursion_depth' if server.is_mysql else 'max_recursive_iterations'} = 9999",
        f"INSERT INTO shapes.big ({names}) SELECT {values} FROM (WITH RECURSIVE seqs AS (SELECT 1 AS seq UNION ALL"
        " SELECT seq + 1 FROM seqs WHERE seq < 4000) SELECT seq FROM seqs) AS numbers",
        "ANALYZE TABLE shapes.big",
    )
    one = rows.describe_one(server.database, Table("shapes", "big"))
    assert one
    assert "at_once" in one.checksum  # a default is no generated column
    assert "twice" not in one.checksum
    assert rows.compared(one.table, rows.describe(server.database, "shapes")["big"]).checksum == one.checksum
    [expected] = server.database.query(rows.whole([one]))

    def read(part: ranges.Range) -> tuple[int, int, int]:
        sql, parameters = ranges.ranged(one, range_of(json.loads(json.dumps(bounds_of(part)))))
        way = server.database.query(f"EXPLAIN FORMAT=TRADITIONAL {sql}", parameters)[0]
        # the table is too small for a way through a secondary index
        assert kind == "a unique key" or (way["type"], way["key"]) == ("range", "PRIMARY"), way
        return rows.sums(server.database.query(sql, parameters)[0])

    parts = [ranges.next_range(server.database, one, None)]
    while parts[-1].until is not None:
        parts.append(ranges.next_range(server.database, one, parts[-1].until))
    found = [read(part) for part in parts]
    assert [count for count, _, _ in found] == [301] * 13 + [4000 - 301 * 13]
    assert (4000, sum(total for _, _, total in found)) == (int(expected["n"]), int(expected["t"]))
    samples = [read(part)[0] for part in ranges.samples(server.database, one, 0.4)]
    assert samples == ([301, 301] if kind in ("texts", "bytes") else [301, 301, 301])
