"""Digests of real servers of each series: read, made statements with sampled values, and sent in the same proportions."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from dbops.drivers.digests import read_digests
from dbops.engine.errors import RemoteFailure
from dbops.engine.load_tests.digests import chosen_of
from tests.drivers.clusters import SERIES
from tests.plain_servers import PlainServer, plain_server

pytestmark = pytest.mark.services
TABLES = (
    "CREATE TABLE {}.Orders (id INT PRIMARY KEY, status VARCHAR(20), price DECIMAL(8,2), at DATETIME, UNIQUE KEY (status, id))",
    "CREATE TABLE {}.items (number BIGINT AUTO_INCREMENT PRIMARY KEY, `key` BINARY(8), note TEXT, size INT AS (LENGTH(note)) VIRTUAL)",
)


@pytest.fixture(scope="module", params=list(SERIES))
def server(request: pytest.FixtureRequest) -> Iterator[PlainServer]:
    if SERIES[request.param]:
        pytest.skip(SERIES[request.param])
    with plain_server(request.param, ["performance-schema=ON"]) as running:
        for schema in ("shop_1", "shop_2", "other"):
            running.run(f"CREATE DATABASE {schema}", *(one.format(schema) for one in TABLES))
        running.run("CREATE TABLE other.more (id INT)")
        yield running


def send(server: PlainServer, schema: str, statement: str, times: int) -> None:
    with closing(server.connect()) as database:
        database.execute(f"USE {schema}")
        for _ in range(times):
            database.query(statement) if statement.startswith("SELECT") else database.execute(statement)


def test_statements_of_sister_schemas_are_one_sum(server: PlainServer) -> None:
    long = ", ".join(f"status AS s{number}" for number in range(300))
    for schema, times in (("shop_1", 3), ("shop_2", 4), ("other", 9)):
        send(server, schema, "SELECT status, COUNT(*) FROM Orders WHERE id = 5 AND status IN ('a', 'b')", times)
        send(server, schema, f"SELECT price FROM {schema}.Orders AS o WHERE o.id BETWEEN 1 AND 9 LIMIT 3", times)
        send(server, schema, f"SELECT {long} FROM Orders", times)
    send(server, "shop_1", "INSERT INTO items (`key`, note) VALUES ('a', 'b'), ('c', NULL), ('d', 'e')", 2)
    with closing(server.connect()) as database:
        found = read_digests(database, server.flavor, "shop_1")
    assert found.schemas == 2
    chosen = {one.digest.text: one for one in chosen_of(found)}
    reads = [one for text, one in chosen.items() if text.startswith("SELECT") and ("Orders" in text or "`s9`" in text)]
    assert sorted(one.digest.count for one in reads) == [7, 7, 7]
    [cut] = [one for one in reads if one.template is None]
    assert "max_digest_length" in cut.reason
    assert "`shop_" not in "".join(text for text, one in chosen.items() if one.template)
    [insert] = [one for text, one in chosen.items() if text.startswith("INSERT")]
    assert insert.template is not None
    assert {bind.row for bind in insert.template.binds} == {0, 1, 2}, "as many rows as it changed on average"
    assert found.total >= sum(one.count for one in found.digests)
    tables = {one.name: {column.name: column for column in one.columns} for one in found.tables}
    assert tables["Orders"]["id"].is_unique
    assert tables["items"]["number"].is_counter
    assert tables["items"]["size"].is_generated
    assert "a" not in "".join(one.text for one in found.digests if "'" in one.text), "a digest has no values"


def test_schema_without_tables_is_told(server: PlainServer) -> None:
    with closing(server.connect()) as database, pytest.raises(RemoteFailure) as caught:
        read_digests(database, server.flavor, "absent")
    assert caught.value.code == "digests.no_schema"


def test_account_without_the_right_is_told(server: PlainServer) -> None:
    server.run("CREATE USER 'stranger'@'127.0.0.1' IDENTIFIED BY 'another-password'")
    server.run("GRANT SELECT ON shop_1.* TO 'stranger'@'127.0.0.1'")
    with closing(server.connect("stranger", "another-password")) as database, pytest.raises(RemoteFailure) as caught:
        read_digests(database, server.flavor, "shop_1")
    assert caught.value.code == "digests.denied"


@pytest.mark.parametrize("series", list(SERIES))
def test_server_without_performance_schema_is_told(series: str) -> None:
    if SERIES[series]:
        pytest.skip(SERIES[series])
    with plain_server(series, ["performance-schema=OFF"]) as server, closing(server.connect()) as database:
        with pytest.raises(RemoteFailure) as caught:
            read_digests(database, server.flavor, "mysql")
        assert caught.value.code == "digests.off"
