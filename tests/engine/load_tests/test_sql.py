"""Statements of a load: one that changes rows, in each reading of quotes and comments."""

import pytest

from dbops.engine.flavors.engines import ELSEWHERE
from dbops.engine.hosts.scripts import load
from dbops.engine.load_tests.sql import why_no_tables, why_not_sent, without_end

SET = "SET GLOBAL general_log_file='/var/lib/mysql/ibdata1'"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        " ( SELECT 1 ) ;",
        "-- a; b\nSELECT 1; # and 'more",
        "SELECT ';', \"it's; \", `a;b` FROM t /* ; 'x */",
        "SELECT 'it''s; ok', 'C:\\\\', 'a\\tb'",
        "SELECT 5--1, 6 - -1, x'41', _utf8mb4'a', 1e1, @a",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ outfiles FROM `into` WHERE note = 'INTO OUTFILE x'",
        "insert INTO t VALUES (1, 'LOAD_FILE(''x'')')",
        "SELECT /*Made by hand*/ '🙂', größe FROM t",
        "SELECT /**/ 1",
    ],
)
def test_one_statement_about_rows_is_sent(text: str) -> None:
    assert why_not_sent(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1; {SET}",
        f"SELECT 1;;{SET}",
        f"SELECT 1 /* ' */; {SET} -- '",
        f"SELECT 'a\\'; {SET} -- '",  # ends at the second quote with NO_BACKSLASH_ESCAPES
        f"SELECT 'a\\\\\\'; {SET} -- '",
        f'SELECT "a\\"; {SET} -- "',
        f'SELECT "a\\" \' "; {SET} -- \'',  # with ANSI_QUOTES, a name has no escapes
        f"SELECT 1--1; {SET}",
        f"SELECT 1 --\x01 '\n; {SET} -- '",
        f"SELECT /*+ QB_NAME(`*/'`) */; {SET} -- '",
        f"SELECT 1 /*!50000 ; {SET} */",
        "SELECT 1 /*!INTO*/ OUTFILE 'x'",
        "SELECT 1 /*M!100100 INTO*/ OUTFILE 'x'",
        "SELECT 1 INTO/**/OUTFILE 'x'",
        "SELECT 1 INTO -- x\nDUMPFILE 'x'",
        "SELECT 1e1into outfile 'x'",
        "SELECT load_file/**/('/etc/passwd')",
        "SELECT `load_file`('/etc/passwd')",
        "SELECT 'open",
        "SELECT /* open",
        "SELECT 1 \\! id",
        f"/**/{SET}",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "(((",
        "",
    ],
)
def test_anything_else_is_not_sent(text: str) -> None:
    assert why_not_sent(text)


def test_the_end_of_a_statement_is_left_out() -> None:
    assert without_end(" SELECT ';' ; -- x;y") == "SELECT ';'"
    assert without_end("SELECT 1 ") == "SELECT 1"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (id INT)",
        "create/**/table `data` (`directory` INT COMMENT 'DATA DIRECTORY=; x') ENGINE=InnoDB;",
        "CREATE TABLE t (engine VARCHAR(9), index_ INT, directory INT, INDEX (directory))",
    ],
)
def test_tables_with_files_in_the_data_directory_are_made(text: str) -> None:
    assert why_no_tables(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (id INT) DATA/**/DIRECTORY='/x'",
        "CREATE TABLE t (id INT) INDEX -- x\n DIRECTORY '/x'",
        "CREATE TABLE t (id INT) AUTO_INCREMENT=1e1DATA DIRECTORY='/x'",
        "CREATE TABLE t (id INT) /*!50000 DATA DIRECTORY='/x' */",
        "CREATE TABLE t (id INT) ENGINE=FEDERATED CONNECTION='mysql://u@h/d/t'",
        "CREATE TABLE t (id INT) ENGINE `Connect` FILE_NAME='/x'",
        "CREATE TABLE t SELECT LOAD_FILE('/etc/passwd')",
        f"CREATE TABLE t (id INT); {SET}",
        f"CREATE TABLE t (id INT\ndelimiter x\n) x {SET} x",
        "CREATE TABLE t (id INT) \\! id",
        "CREATE TABLESPACE t ADD DATAFILE '/x'",
        "DROP TABLE t",
        ";",
    ],
)
def test_other_tables_are_not_made(text: str) -> None:
    assert why_no_tables(text, most=5)


def test_inserts_have_one_table() -> None:
    two = "CREATE TABLE a (id INT); CREATE TABLE b (id INT);"
    rows = "CREATE TABLE a (id INT); INSERT INTO a VALUES (1)"
    for text in (two, rows):
        assert why_no_tables(text, most=2) == ""
        assert why_no_tables(text)
    assert why_no_tables(f"{two} INSERT INTO a VALUES (1)", most=2)


def test_hosts_know_the_same_engines() -> None:
    line = next(line for line in load("common").splitlines() if line.startswith("engines_elsewhere="))
    assert {*ELSEWHERE} - {"BLACKHOLE"} <= set(line.replace('"', "").partition("=")[2].replace("'", "").split(", "))
