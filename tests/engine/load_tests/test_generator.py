"""The generator's command lines and its input."""

from dataclasses import replace

import pytest

from dbops.engine.errors import Refused
from dbops.engine.load_tests.generator import (
    Place,
    cleanup_arguments,
    input_text,
    prepare_arguments,
    run_arguments,
    table_name,
)
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload

PLACE = Place("/tmp/x/load", "/tmp/x/run/s")  # noqa: S108 - no file is made
ONE = Round(number=1, step=1, threads=8, seconds=30, warm_up_seconds=5, rate=100, schemas=12)
ROTATING = Workload(Profile.ROTATING, schema="shop", statements=("SELECT 1",), seconds_on_schema=0.05)


@pytest.mark.parametrize("profile", Profile)
def test_a_round_is_one_run_of_sysbench(profile: Profile) -> None:
    words = run_arguments(replace(ROTATING, profile=profile), ONE, PLACE)
    assert (words[0], words[-2:]) == ("sysbench", ("/tmp/x/load/load.lua", "run"))
    assert {"--threads=8", "--time=35", "--warm-up=5", "--wanted-rate=100", f"--profile={profile}"} <= set(words)
    assert not any("password" in word for word in words)
    takes_input = profile in (Profile.ROTATING, Profile.INSERT)
    assert ("--input=-" in words) == takes_input
    assert any(word.startswith("--table-rows=") for word in words) != takes_input


def test_tables_are_made_by_no_more_threads_than_tables() -> None:
    workload = Workload(Profile.READ_ONLY, tables=2, table_rows=10)
    assert {"--threads=2", "--tables=2", "--table-rows=10"} <= set(prepare_arguments(workload, PLACE))
    assert cleanup_arguments(workload, PLACE)[-1] == "cleanup"


@pytest.mark.parametrize(
    "wrong", [{"schemas": 10_000}, {"threads": 0}, {"threads": 5000}, {"seconds": 0}, {"warm_up_seconds": -1}]
)
def test_rounds_beyond_the_script_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Refused) as caught:
        run_arguments(ROTATING, replace(ONE, **wrong), PLACE)
    assert caught.value.code == "load_test.limits"


def test_statements_are_one_a_line_whatever_they_contain() -> None:
    statements = (
        "SELECT 'a\\b\n\tc\0'",
        "/* x */ select 2;",
        "-- no\n(SELECT 3)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
    )
    lines = input_text(replace(ROTATING, statements=statements)).splitlines()
    assert lines[0] == r"statement" "\t" r"SELECT 'a\\b\n\tc\0'"
    assert [line.split("\t")[0] for line in lines] == ["statement"] * 4
    assert lines[1].endswith("select 2")


@pytest.mark.parametrize(
    "statement",
    [
        "LOAD DATA LOCAL INFILE '/etc/shadow' INTO TABLE t",
        "/* hidden */ LOAD DATA LOCAL INFILE '/etc/shadow' INTO TABLE t",
        "/*!50000 LOAD DATA LOCAL INFILE '/etc/shadow' INTO TABLE t */",
        "/*M! LOAD DATA LOCAL INFILE '/etc/shadow' INTO TABLE t */",
        "-- x\nDROP DATABASE mysql",
        "SELECT 1 INTO\nOUTFILE '/tmp/x'",
        "SELECT LOAD_FILE ('/etc/passwd')",
        "SET GLOBAL max_connections = 1",
        "",
    ],
)
def test_other_statements_are_refused(statement: str) -> None:
    with pytest.raises(Refused) as caught:
        input_text(replace(ROTATING, statements=("SELECT 1", statement)))
    assert caught.value.code == "load_test.statement"


def test_no_or_too_many_statements_are_refused() -> None:
    for statements in ((), ("SELECT 1",) * 100_001):
        with pytest.raises(Refused):
            input_text(replace(ROTATING, statements=statements))


@pytest.mark.parametrize(
    ("ddl", "name"),
    [
        ("CREATE TABLE t (id INT)", "t"),
        ("create table if not exists `a``b` (id INT)", "a`b"),
        ("CREATE TABLE `shop`.`order``s` (id INT)", "order`s"),
        ("\nCREATE TABLE shop.t$1 (id INT)", "t$1"),
    ],
)
def test_names_of_tables_are_read_from_their_ddl(ddl: str, name: str) -> None:
    assert table_name(ddl) == name


@pytest.mark.parametrize("ddl", ["", "DROP TABLE t", "CREATE DATABASE t", "CREATE TEMPORARY TABLE t (i INT)"])
def test_other_ddl_is_refused(ddl: str) -> None:
    with pytest.raises(Refused) as caught:
        table_name(ddl)
    assert caught.value.code == "load_test.table"


@pytest.mark.parametrize("key", [("k", 5, 4), ("k", -1, 2**63), ("k", 0, 2**64), ("k", -(2**63) - 1, 0)])
def test_ranges_that_no_column_has_are_refused(key: tuple[str, int, int]) -> None:
    with pytest.raises(Refused) as caught:
        input_text(Workload(Profile.INSERT, table_ddl="CREATE TABLE t (k INT)", key_ranges=(key,)))
    assert caught.value.code == "load_test.table"


def test_the_table_and_its_keys_are_lines() -> None:
    text = input_text(Workload(Profile.INSERT, table_ddl="CREATE TABLE `a\tb` (k INT)", key_ranges=(("k", -5, 10),)))
    assert text == "table\ta\\tb\nkey\tk\t-5\t10\n"
