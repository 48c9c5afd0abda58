"""Wait events of real servers of each series: contention is named, a reading is cheap, and what is off is named."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dbops.drivers.waits import read_waits
from dbops.engine.capacity.contention import contentions
from dbops.engine.capacity.waits import (
    ReadingLimit,
    WaitClass,
    WaitComparison,
    class_of,
    compare,
    instruments,
    parse_reading,
    server_options,
    switch_on_statement,
    wait_statement,
)
from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from lab.flavors import flavor_named
from tests.drivers.clusters import SERIES
from tests.plain_servers import OWNER, PASSWORD, PlainServer, plain_server

pytestmark = pytest.mark.services
VERSIONS = {
    "mariadb": "10.11.19-MariaDB",
    "mariadb-11.8": "11.8.9-MariaDB",
    "mysql-5.7": "5.7.22",
    "mysql-8.0": "8.0.15",
    "mysql-9.7": "9.7.4",
}
TABLES, THREADS, SECONDS = 900, 8, 6
#: One reading with this many tables and sessions, on a machine with much other work.
COSTS_AT_MOST_SECONDS = 1.0
#: Both caches far too small: each statement opens its table, and InnoDB its definition.
SMALL_CACHES = ("table-open-cache=10", "table-open-cache-instances=1", "table-definition-cache=400")
LUA = f"""
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT * FROM many.t" .. math.random({TABLES}) .. " WHERE id = 1") end
"""


@pytest.fixture(scope="module", params=list(SERIES))
def server(request: pytest.FixtureRequest) -> Iterator[PlainServer]:
    if SERIES[request.param]:
        pytest.skip(SERIES[request.param])
    version = flavor_for(VERSIONS[request.param])
    options = [*SMALL_CACHES, *server_options(version.name, version.version)]
    with plain_server(request.param, options) as running:
        running.run(
            "CREATE DATABASE many",
            *(f"CREATE TABLE many.t{number} (id INT PRIMARY KEY)" for number in range(1, TABLES + 1)),
        )
        yield running


def load(server: PlainServer, folder: Path) -> subprocess.Popen[bytes]:
    """Start threads that each take one table after the other."""
    script = folder / "tables.lua"
    script.write_text(LUA)
    return subprocess.Popen(
        [
            *("sysbench", str(script), f"--threads={THREADS}", f"--time={SECONDS + 4}", "--events=0"),
            *("--db-driver=mysql", f"--mysql-socket={server.plan.socket}", f"--mysql-user={OWNER}"),
            *(f"--mysql-password={PASSWORD}", "--mysql-db=many", "run"),
        ],
        stdout=subprocess.DEVNULL,
    )


def under_load(server: PlainServer, folder: Path) -> tuple[WaitComparison, float]:
    """Return what sessions waited for under load, and how long the second reading took."""
    running = load(server, folder)
    try:
        time.sleep(2)
        with closing(server.connect()) as database:
            before = read_waits(database, server.flavor)
            time.sleep(SECONDS)
            began = time.monotonic()
            after = read_waits(database, server.flavor)
            took = time.monotonic() - began
        assert running.poll() is None, "the load has ended before the second reading"
    finally:
        running.terminate()
        running.wait(20)
    return compare(before, after), took


def test_table_cache_and_dictionary_are_named(server: PlainServer, tmp_path: Path) -> None:
    found, took = under_load(server, tmp_path)
    named = {one.kind: one for one in contentions(found)}
    print(server.flavor.name, server.flavor.version, f"{took:.3f} s", found.active_seconds, found.counters, named)
    for wait in found.waits[:12]:
        print(f"{wait.share:7.3f} {wait.seconds:9.3f} s {wait.count:9} {wait.event}")
    assert found.limits == ()
    assert {WaitClass.TABLE_CACHE, WaitClass.DATA_DICTIONARY} <= set(named)
    assert {WaitClass.TABLE_CACHE, WaitClass.DATA_DICTIONARY} <= {class_of(wait.event) for wait in found.waits}
    assert found.active_seconds
    assert THREADS * SECONDS * 0.1 < found.active_seconds < THREADS * SECONDS * 1.2
    assert found.counters["Table_open_cache_misses"] > 1000
    assert took < COSTS_AT_MOST_SECONDS


def test_batch_output_of_a_client_is_the_same_reading(server: PlainServer) -> None:
    """As the job of a load test reads its scratch server."""
    statement = wait_statement(server.flavor.name, server.flavor.version)
    client = [*flavor_named(server.series).superuser_client(server.plan), "--batch", f"--execute={statement}"]
    said = subprocess.run(client, capture_output=True, text=True, check=True).stdout
    with closing(server.connect()) as database:
        by_driver = read_waits(database, server.flavor)
    by_client = parse_reading(said)
    assert by_client.status.keys() == by_driver.status.keys()
    assert by_client.schema_is_on
    assert by_client.waits.keys() <= by_driver.waits.keys()
    assert 0 < by_client.active <= by_driver.active
    assert compare(by_client, by_driver).limits == ()


def test_statement_that_still_runs_counts(server: PlainServer) -> None:
    sleeping = subprocess.Popen(
        [*flavor_named(server.series).superuser_client(server.plan), "--execute=SELECT SLEEP(8)"],
        stdout=subprocess.DEVNULL,
    )
    try:
        time.sleep(1)
        with closing(server.connect()) as database:
            before = read_waits(database, server.flavor)
            time.sleep(3)
            after = read_waits(database, server.flavor)
    finally:
        sleeping.terminate()
        sleeping.wait(10)
    found = compare(before, after)
    assert found.active_seconds == pytest.approx(3, abs=0.7)


def test_waits_for_row_locks_are_named(server: PlainServer) -> None:
    server.run(
        "CREATE TABLE IF NOT EXISTS many.locked (id INT PRIMARY KEY, n INT)", "REPLACE INTO many.locked VALUES (1, 0)"
    )
    with closing(server.connect()) as holder, closing(server.connect()) as reader:
        before = read_waits(reader, server.flavor)
        holder.execute("BEGIN")
        holder.execute("UPDATE many.locked SET n = 1")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(server.run, "UPDATE many.locked SET n = 2")
            time.sleep(2)
            holder.execute("COMMIT")
            waiting.result(10)
        found = compare(before, read_waits(reader, server.flavor))
    named = {one.kind: one for one in contentions(found)}
    assert WaitClass.ROW_LOCKS in named
    assert named[WaitClass.ROW_LOCKS].evidence["sessions_waiting"] == pytest.approx(1, abs=0.4)


def test_account_without_the_right_is_told(server: PlainServer) -> None:
    server.run("CREATE USER 'stranger'@'127.0.0.1' IDENTIFIED BY 'another-password'")
    with closing(server.connect("stranger", "another-password")) as database, pytest.raises(RemoteFailure) as caught:
        read_waits(database, server.flavor)
    assert caught.value.code == "waits.denied"
    server.run(
        "GRANT SELECT ON performance_schema.* TO 'stranger'@'127.0.0.1'",
        "GRANT PROCESS ON *.* TO 'stranger'@'127.0.0.1'",
    )
    with closing(server.connect("stranger", "another-password")) as database:
        assert read_waits(database, server.flavor).schema_is_on


@pytest.mark.parametrize("series", list(SERIES))
def test_server_without_options_tells_what_is_off(series: str) -> None:
    """MariaDB has ``performance_schema`` off, MySQL the instruments of locks; an operator's statement switches those on."""
    if SERIES[series]:
        pytest.skip(SERIES[series])
    with plain_server(series) as server, closing(server.connect()) as database:
        before = read_waits(database, server.flavor)
        found = compare(before, read_waits(database, server.flavor))
        if server.flavor.name == "mariadb":
            assert found.limits == (ReadingLimit.SCHEMA_OFF,)
            assert found.counters["Questions"] > 0
            return
        assert ReadingLimit.INSTRUMENTS_OFF in found.limits
        wanted = instruments(server.flavor.name, server.flavor.version)
        assert set(found.instruments_off) < set(wanted)
        server.run(switch_on_statement(server.flavor.name, server.flavor.version))
        assert read_waits(database, server.flavor).instruments_off == ()


@pytest.mark.parametrize("series", [name for name in SERIES if name.startswith("mysql")])
def test_mysql_without_performance_schema_tells_counters(series: str) -> None:
    if SERIES[series]:
        pytest.skip(SERIES[series])
    with plain_server(series, ["performance-schema=OFF"]) as server, closing(server.connect()) as database:
        before = read_waits(database, server.flavor)
        found = compare(before, read_waits(database, server.flavor))
        assert found.limits == (ReadingLimit.SCHEMA_OFF,)
        assert found.counters["Questions"] > 0
