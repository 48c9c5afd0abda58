"""Statements of digests on real scratch servers: hostile values are sampled and sent unharmed, in the source's proportions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.engine.load_tests.digest_text import tokens_of
from dbops.engine.load_tests.digests import chosen_of, sample_sql
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from lab.unpacked import MYSQL, MYSQL_5_7, why_no_mysql_8_0
from script.lib.load_rounds import Bench, ScratchServer, scratch_server
from tests.run_folder import new_folder, remove

pytestmark = pytest.mark.services
SERVERS = {
    "mariadb": lambda: "",
    "mysql-5.7": MYSQL_5_7.why_not,
    "mysql-8.0": why_no_mysql_8_0,
    "mysql-9.7": MYSQL.why_not,
}
INT = 2**31 - 1
#: The most of a unique column: random numbers up to it would repeat within seconds.
FEW = 2**19
TABLES = (
    TableColumns(
        "odd `t",
        (
            Column("id", ColumnKind.NUMBER, INT, is_unique=True),
            Column("name", ColumnKind.BYTES, 200),
            Column("raw", ColumnKind.BYTES, 200),
            Column("at", ColumnKind.TEXT),
        ),
    ),
    TableColumns(
        "hollow",
        (Column("id", ColumnKind.NUMBER, FEW, is_unique=True), Column("name", ColumnKind.BYTES, 20, is_unique=True)),
    ),
    TableColumns("absent", (Column("id", ColumnKind.NUMBER, INT),)),
)
COUNTS = {
    "SELECT `name` FROM `odd ``t` WHERE `id` = ?": 5000,
    "SELECT `id` FROM `odd ``t` WHERE `name` = ? AND `raw` = ? AND `at` <= ?": 3000,
    "SELECT COUNT ( * ) FROM `odd ``t` WHERE `id` BETWEEN ? AND ? LIMIT ?": 1500,
    "UPDATE `odd ``t` SET `name` = ? , `raw` = ? WHERE `id` = ?": 600,
    "INSERT INTO `hollow` ( `id` , `name` ) VALUES (...)": 400,
    "INSERT INTO `hollow` ( `id` , `name` ) VALUES (...) /* , ... */": 200,
}
#: Quotes, backslashes, NUL, binary and other alphabets, a template's own signs, and nothing.
HOSTILE = (
    *(
        "plain",
        "it's",
        'a "b"',
        "\\",
        "\\'",
        "a\0b",
        "\x01n5\x01",
        "line\nline\ttab",
        "ünï 漢字 🙂",
        "; DROP TABLE x -- ",
        "%_",
    ),
    *("", " ", "\x1a", "?", "`", "x'61'", "NULL"),
)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[ScratchServer]:
    if reason := SERVERS[request.param]():
        pytest.skip(reason)
    folder = new_folder("digests")
    options = [("performance_schema", "ON"), ("innodb_buffer_pool_size", "64M"), ("character_set_server", "utf8mb4")]
    with scratch_server(folder, request.param, options) as running:
        yield running
    remove(folder)


def make_data(server: ScratchServer) -> None:
    server.ask("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    server.ask(
        "USE shop; CREATE TABLE `odd ``t` (id INT PRIMARY KEY, name VARCHAR(200), raw VARBINARY(200), at DATETIME);"
        "CREATE TABLE hollow (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)"
    )
    rows = ", ".join(
        f"({number}, CONVERT(X'{value.encode().hex()}' USING utf8mb4), X'{(value.encode() + bytes([255, 0, 39])).hex()}', NOW())"
        for number, value in enumerate(HOSTILE)
    )
    server.ask(f"INSERT INTO shop.`odd ``t` VALUES {rows}, (1000, NULL, NULL, NULL)")


def test_proportions_and_values_are_those_of_the_source(server: ScratchServer, tmp_path: Path) -> None:
    make_data(server)
    source = SourceDigests(
        "shop",
        total=sum(COUNTS.values()),
        digests=tuple(Digest(text, count, count * 3 if "/*" in text else 0) for text, count in COUNTS.items()),
        tables=TABLES,
    )
    assert [one.reason for one in chosen_of(source)] == [""] * len(COUNTS)
    workload = Workload(Profile.ROTATING, schema="shop", row_share=1, seconds_on_schema=0.05, digests=source)
    bench = Bench(server, tmp_path, workload)
    bench.make_copies(3)
    flavor = "mariadb" if server.is_mariadb else "mysql"
    (tmp_path / "sample.sql").write_text(sample_sql(source, flavor, of_copy="dbops_copy_0001"))
    assert bench.run_script("sample_values").stdout == "2", "the table without rows"
    assert "ERROR" not in (tmp_path / "log.sample").read_text()
    before = server.ask("SELECT name, COUNT(*) FROM dbops_copy_0001.`odd ``t` GROUP BY name")
    server.ask("TRUNCATE performance_schema.events_statements_summary_by_digest")
    result = bench.run(Round(number=1, step=1, threads=2, seconds=4, warm_up_seconds=0, schemas=3))
    assert result.errors <= result.queries / 50, result.errors_by_number  # deadlocks
    assert result.errors_by_number.keys() <= {1205, 1213}
    found = {
        " ".join(tokens_of(line.split("\t")[0])): int(line.split("\t")[1])
        for line in server.ask(
            "SELECT DIGEST_TEXT, SUM(COUNT_STAR) FROM performance_schema.events_statements_summary_by_digest"
            " WHERE SCHEMA_NAME LIKE 'dbops%' AND DIGEST_TEXT NOT LIKE 'USE%' GROUP BY DIGEST_TEXT"
        ).splitlines()
    }
    print(result.queries, found)
    total = sum(COUNTS.values())
    by_length = sorted(found.values(), reverse=True)
    for seen, count in zip(by_length, sorted(COUNTS.values(), reverse=True), strict=False):
        assert seen / sum(found.values()) == pytest.approx(count / total, abs=0.03)
    assert len([count for count in found.values() if count > result.queries / 1000]) == len(COUNTS)
    values = set(
        server.ask("SELECT DISTINCT HEX(name) FROM dbops_copy_0001.`odd ``t` WHERE name IS NOT NULL").splitlines()
    )
    assert values <= {value.encode().hex().upper() for value in HOSTILE}, "a value was changed on its way"
    assert before
    assert int(server.ask("SELECT COUNT(DISTINCT name) FROM dbops_copy_0001.hollow")) > 50
