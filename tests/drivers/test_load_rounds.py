"""Rounds of load on real scratch servers, with the scripts that run on hosts: what they measure, and how they end."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.load_tests.percentiles import percentiles
from dbops.engine.load_tests.report import ReportLimits, make_report
from dbops.engine.load_tests.round_parsing import parse_round
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from lab.unpacked import MYSQL, why_no_mysql_8_0
from script.lib.load_rounds import Bench, ScratchServer, scratch_server
from tests.run_folder import new_folder, remove

pytestmark = pytest.mark.services

SERVERS = {"mariadb": lambda: "", "mysql-8.0": why_no_mysql_8_0, "mysql-9.7": MYSQL.why_not}
ROUND = Round(number=1, step=1, threads=4, seconds=2, warm_up_seconds=1)
#: The names are as bad as a server allows.
SHOP, TABLE = "a `shop`; -- 'x\"", "t`; DROP DATABASE mysql; -- '\\"
DDL = """CREATE TABLE `in``to` (id BIGINT UNSIGNED PRIMARY KEY, shop INT NOT NULL, name VARCHAR(10) NOT NULL, at DATETIME NOT NULL,
    price DECIMAL(5,2) NOT NULL, kind ENUM('a','b') NOT NULL, known INT NOT NULL DEFAULT 3, twice INT AS (shop * 2) STORED)"""
INSERTS = Workload(Profile.INSERT, table_ddl=DDL, key_ranges=(("id", 0, 2**64 - 1), ("shop", -5, 10)))


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[ScratchServer]:
    if reason := SERVERS[request.param]():
        pytest.skip(reason)
    folder = new_folder("load")
    options = [("performance_schema", "ON"), ("innodb_buffer_pool_size", "128M"), ("max_connections", "60")]
    with scratch_server(folder, request.param, options) as running:
        yield running
    remove(folder)


@pytest.fixture(scope="module")
def mariadb() -> Iterator[ScratchServer]:
    folder = new_folder("load")
    with scratch_server(folder, "mariadb", [("max_connections", "20"), ("innodb_buffer_pool_size", "64M")]) as running:
        yield running
    remove(folder)


def must_be_plausible(result: RoundResult, one: Round) -> None:
    assert result.queries == sum(count for _, count in result.buckets) > 100
    assert abs((result.finished_at - result.started_at).total_seconds() - one.seconds) < 1
    found = [value for value in percentiles(result.buckets).values() if value is not None]
    assert len(found) == 5
    assert found == sorted(found)
    assert result.min_ms is not None
    assert result.max_ms is not None
    assert result.average_ms is not None
    assert 0 < result.min_ms < result.average_ms < result.max_ms < 5000
    assert result.generator_cores is not None
    assert 0 < result.generator_cores < 3
    assert result.server_cores is not None
    assert 0 < result.server_cores < (os.cpu_count() or 1) * 1.2
    assert sum(second.queries for second in result.seconds) <= result.queries


@pytest.mark.parametrize("profile", [Profile.READ_ONLY, Profile.WRITE_ONLY, Profile.READ_WRITE, Profile.POINT_SELECT])
def test_profiles_of_sysbench_give_real_percentiles(server: ScratchServer, profile: Profile, tmp_path: Path) -> None:
    bench = Bench(server, tmp_path, Workload(profile, tables=2, table_rows=2_000))
    server.ask("DROP TABLE IF EXISTS dbops_load.sbtest1, dbops_load.sbtest2")
    bench.fill()
    assert server.ask("SELECT COUNT(*) FROM dbops_load.sbtest2") == "2000"
    one = replace(ROUND, seconds=6)  # a busy machine takes a second to read the counters
    result = bench.run(one)
    must_be_plausible(result, one)
    assert result.errors <= result.queries / 20  # deadlocks
    assert result.counters["Questions"] > result.queries / 2  # read a moment after the round begins
    assert result.waits
    assert all(wait.count > 0 for wait in result.waits)
    statements = {Profile.READ_ONLY: 16, Profile.WRITE_ONLY: 6, Profile.READ_WRITE: 20, Profile.POINT_SELECT: 1}[
        profile
    ]
    assert result.queries / result.events == pytest.approx(statements, rel=0.1)


def make_shop(server: ScratchServer) -> str:
    """Make a schema of five tables, one with a generated column, and return its name as the server quotes it."""
    shop = f"`{SHOP.replace('`', '``')}`"
    table = f"`{TABLE.replace('`', '``')}`"
    server.ask(f"DROP DATABASE IF EXISTS {shop}; CREATE DATABASE {shop}")
    for name in (table, "t2", "t3", "t4"):
        server.ask(
            f"CREATE TABLE {shop}.{name} (id INT PRIMARY KEY AUTO_INCREMENT, n INT, twice INT AS (n * 2) STORED, txt VARCHAR(30))"
        )
        rows = ", ".join(f"({number}, 'row {number}')" for number in range(200))
        server.ask(f"INSERT INTO {shop}.{name} (n, txt) VALUES {rows}; ANALYZE TABLE {shop}.{name}")
    server.ask(f"CREATE TABLE {shop}.child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES {shop}.t2 (id))")
    return shop


def test_copies_of_a_schema_are_rotated(server: ScratchServer, tmp_path: Path) -> None:
    make_shop(server)
    quoted = f"`{TABLE.replace('`', '``')}`"
    workload = Workload(
        Profile.ROTATING,
        schema=SHOP,
        row_share=0.5,
        seconds_on_schema=0.05,
        statements=(
            f"SELECT txt FROM {quoted} WHERE id = 7",
            "SELECT 'it''s\\n\\ta \"quote\"\\\\' AS x FROM t2 WHERE id = 3;",
            "UPDATE t3\nSET n = n + 1 WHERE id = 5",
        ),
    )
    bench = Bench(server, tmp_path, workload)
    bench.make_copies(20)
    bench.make_copies(60)  # continues
    copied = "TABLE_SCHEMA LIKE 'dbops\\_copy\\_%' AND TABLE_TYPE = 'BASE TABLE'"
    assert server.ask(f"SELECT COUNT(*) FROM information_schema.TABLES WHERE {copied}") == "300"
    assert server.ask(f"SELECT COUNT(*), SUM(twice = n * 2) FROM dbops_copy_0060.{quoted}") == "100\t100"
    assert [line.split() for line in (tmp_path / "log.notes").read_text().splitlines()] == [["foreign-keys", "1"]]
    assert (tmp_path / "log.copies").read_text().splitlines()[-1].split()[1:3] == ["60", "60"]

    one = Round(number=2, step=1, threads=4, seconds=3, warm_up_seconds=1, schemas=60)
    result = bench.run(one)
    must_be_plausible(result, one)
    assert (result.errors, result.schemas_visited) == (0, 60)
    report = make_report([(one, result)], ReportLimits(generator_cores=4))
    assert report["Total"]["IsValid"], report["Total"]["Reasons"]
    assert report["Total"]["TargetSchemaCount"] == 60


def test_tables_with_rows_elsewhere_are_left_out_of_copies(tmp_path: Path) -> None:
    if reason := SERVERS["mysql-8.0"]():
        pytest.skip(reason)
    folder = new_folder("load")
    with scratch_server(folder, "mysql-8.0", [("federated", "ON"), ("innodb_buffer_pool_size", "64M")]) as server:
        server.ask("CREATE DATABASE d; CREATE TABLE d.here (id INT PRIMARY KEY); INSERT INTO d.here VALUES (1)")
        target = f"SOCKET '{server.socket}', USER 'root', DATABASE 'd'"
        server.ask(f"CREATE SERVER far FOREIGN DATA WRAPPER mysql OPTIONS ({target})")
        server.ask("CREATE TABLE d.away (id INT PRIMARY KEY) ENGINE=FEDERATED CONNECTION='far/here'")
        bench = Bench(server, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",), row_share=1))
        bench.make_copies(2)
        assert (
            server.ask("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA='dbops_copy_0002'")
            == "here"
        )
        assert server.ask("SELECT COUNT(*) FROM d.here") == "1"
    assert (tmp_path / "log.notes").read_text().splitlines() == ["elsewhere 1"]
    remove(folder)


def test_inserts_come_at_the_wanted_rate(server: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(server, tmp_path, INSERTS)
    server.ask("DROP TABLE IF EXISTS dbops_load.`in``to`")
    bench.fill()
    one = Round(number=1, step=1, threads=4, seconds=3, warm_up_seconds=1, rate=300)
    result = bench.run(one)
    must_be_plausible(result, one)
    assert (result.errors, result.unserved) == (0, pytest.approx(0, abs=30))
    assert result.events / 3 == pytest.approx(300, rel=0.2)
    low, high, longest = server.ask("SELECT MIN(shop), MAX(shop), MAX(id) > 1 << 62 FROM dbops_load.`in``to`").split()
    assert (low, high, longest) == ("-5", "10", "1")


def test_a_rate_that_is_not_reached_waits_in_the_latency(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(
        mariadb,
        tmp_path,
        Workload(Profile.ROTATING, schema="d", statements=("SELECT SLEEP(0.1)",), seconds_on_schema=9),
    )
    mariadb.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
    one = Round(number=1, step=1, threads=2, seconds=4, warm_up_seconds=0, rate=40, schemas=1)
    result = bench.run(one)
    # two threads serve 20 a second: after 4 s the queue has waited for 2 s
    assert result.events / 4 == pytest.approx(20, rel=0.2)
    assert result.unserved > 40
    assert result.max_ms is not None
    assert result.max_ms > 1000
    assert make_report([(one, result)], ReportLimits())["Total"]["IsRateReached"] is False


def failure_of(bench: Bench, one: Round) -> RemoteFailure:
    with pytest.raises(RemoteFailure) as caught:
        bench.run(one)
    return caught.value


def test_statements_that_all_fail_end_the_round(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(mariadb, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT * FROM nothing",)))
    mariadb.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
    begun = time.monotonic()
    found = failure_of(bench, Round(number=1, step=1, threads=2, seconds=60, warm_up_seconds=0, schemas=1))
    assert (found.code, "1146" in found.cause) == ("load_test.statements_fail", True)
    assert time.monotonic() - begun < 20


def test_statements_that_sometimes_fail_are_counted(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(
        mariadb, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1", "SELECT * FROM nothing"))
    )
    mariadb.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
    one = Round(number=1, step=1, threads=2, seconds=1, warm_up_seconds=0, schemas=1)
    result = bench.run(one)
    assert result.errors_by_number == {1146: result.errors}
    assert result.errors / (result.queries + result.errors) == pytest.approx(0.5, abs=0.1)
    assert result.events == result.queries, "a failed event is none"
    assert make_report([(one, result)], ReportLimits())["Total"]["IsValid"] is False


@pytest.mark.parametrize("warm_up_seconds", [0, 1])
def test_schema_of_each_thread_is_counted_once(mariadb: ScratchServer, tmp_path: Path, warm_up_seconds: int) -> None:
    workload = Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",), seconds_on_schema=60)
    for number in range(1, 9):
        mariadb.ask(f"CREATE DATABASE IF NOT EXISTS dbops_copy_{number:04}")
    one = Round(number=1, step=1, threads=2, seconds=1, warm_up_seconds=warm_up_seconds, schemas=8)
    assert Bench(mariadb, tmp_path, workload).run(one).schemas_visited == 2


def test_too_many_connections_are_named(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(mariadb, tmp_path, Workload(Profile.POINT_SELECT, tables=1, table_rows=10))
    found = failure_of(bench, Round(number=1, step=1, threads=50, seconds=5, warm_up_seconds=0))
    assert (found.code, "1040" in found.cause) == ("load_test.connections", True)


def in_background(bench: Bench, one: Round) -> tuple[Thread, list[str]]:
    """Run a round in a thread until its generator runs."""
    texts: list[str] = []
    running = Thread(target=lambda: texts.append(bench.text_of(one)))
    running.start()
    must_measure(bench)
    return running, texts


def must_measure(bench: Bench) -> None:
    """Wait until the generator has measured a second."""
    deadline, log = time.monotonic() + 30, bench.work / "load.out"
    while not (log.exists() and "dbops second" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_generator_that_is_killed_ends_the_round(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(mariadb, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",)))
    mariadb.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
    one = Round(number=3, step=1, threads=2, seconds=60, warm_up_seconds=0, schemas=1)
    running, texts = in_background(bench, one)
    os.kill(int((tmp_path / "pid.generator").read_text()), signal.SIGKILL)
    running.join(20)
    with pytest.raises(RemoteFailure) as caught:
        parse_round(texts[0], one)
    assert (caught.value.code, "137" in caught.value.cause) == ("load_test.generator", True)


def test_a_server_that_ends_ends_the_round(tmp_path: Path) -> None:
    folder = new_folder("load")
    with scratch_server(folder) as server:
        bench = Bench(server, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",)))
        server.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
        one = Round(number=1, step=1, threads=2, seconds=60, warm_up_seconds=0, schemas=1)
        running, texts = in_background(bench, one)
        server.stop(signal.SIGKILL)
        running.join(20)
    with pytest.raises(RemoteFailure) as caught:
        parse_round(texts[0], one)
    assert caught.value.code == "load_test.server_ended"
    remove(folder)


def test_a_server_that_stands_still_ends_the_round(tmp_path: Path) -> None:
    folder = new_folder("load")
    with scratch_server(folder) as server:
        bench = Bench(server, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",)))
        server.ask("CREATE DATABASE IF NOT EXISTS dbops_copy_0001")
        one = Round(number=1, step=1, threads=2, seconds=6, warm_up_seconds=0, schemas=1)
        texts: list[str] = []
        running = Thread(target=lambda: texts.append(bench.text_of(one, patience_seconds=2)))
        running.start()
        must_measure(bench)
        os.kill(server.pid, signal.SIGSTOP)
        running.join(40)
        os.kill(server.pid, signal.SIGCONT)
        running.join(40)
    with pytest.raises(RemoteFailure) as caught:
        parse_round(texts[0], one)
    assert caught.value.code == "load_test.generator"
    assert [line for line in texts[0].splitlines() if line.startswith("status")] == ["status 124"]
    remove(folder)


def test_copies_of_no_schema_are_refused(mariadb: ScratchServer, tmp_path: Path) -> None:
    bench = Bench(mariadb, tmp_path, Workload(Profile.ROTATING, schema="d", statements=("SELECT 1",)))
    for words in (("6e6f", "3", "0"), ("6e6f; id", "3", "0"), ("6e6f", "3; id", "0"), ("6e6f", "3", "0; id")):
        done: subprocess.CompletedProcess[str] = bench.try_script('make_copies "$@"', *words)
        assert (done.returncode, "copies" in done.stdout) in {(65, True), (70, True)}
