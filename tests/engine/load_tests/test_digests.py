"""Digests become templates whose values have a column, or are left out with a reason; statements keep their proportions."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.engine.load_tests.digest_template import LIST_LENGTH, Template, template_of
from dbops.engine.load_tests.digest_text import is_cut, tokens_of, without_schema
from dbops.engine.load_tests.digests import (
    STATEMENTS,
    chosen_of,
    digest_lines,
    digest_plan,
    names_of_tables,
    proportions,
    sample_sql,
    sampled_tables,
)
from dbops.engine.load_tests.request import LoadTestRequest, Raised, problems
from dbops.engine.load_tests.sql import why_not_sent
from dbops.engine.load_tests.workload import Profile, Workload

INT = 2**31 - 1
TABLES = (
    TableColumns(
        "Orders",
        (
            Column("id", ColumnKind.NUMBER, INT, is_unique=True, is_counter=True),
            Column("code", ColumnKind.BYTES, 8, is_unique=True),
            Column("status", ColumnKind.BYTES, 20),
            Column("at", ColumnKind.TEXT),
            Column("size", ColumnKind.NUMBER, INT, is_generated=True),
            Column("place", ColumnKind.OTHER),
        ),
    ),
    TableColumns(
        "notes",
        (
            Column("id", ColumnKind.NUMBER, INT, is_unique=True),
            Column("order_id", ColumnKind.NUMBER, INT),
            Column("body", ColumnKind.BYTES),
        ),
    ),
)


def template(text: str, *, changed: int = 0) -> Template:
    return template_of(Digest(text, 1, changed), TABLES, digest_bytes=4096)


def shown(found: Template) -> str:
    """Return the statement with ``<table.column row>`` for each value; ``!`` for a new one."""
    first, *others = found.parts
    values = (one.fixed or f"<{one.table}.{one.column} {one.row}{'!' * one.is_fresh}>" for one in found.binds)
    return first + "".join(value + part for value, part in zip(values, others, strict=True))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT STATUS FROM `Orders` WHERE ID = ?", "SELECT STATUS FROM `Orders` WHERE ID = <Orders.id 0>"),
        ("SELECT `code` FROM ORDERS WHERE ? = ID", "SELECT `code` FROM `Orders` WHERE <Orders.id 0> = ID"),
        (
            "SELECT COUNT ( * ) FROM `Orders` WHERE `at` BETWEEN ? AND ? LIMIT ?, ...",
            "SELECT COUNT( * ) FROM `Orders` WHERE `at` BETWEEN <Orders.at 0> AND <Orders.at 0> LIMIT 0, 100",
        ),
        (
            "UPDATE `Orders` SET STATUS = ? , `code` = ? WHERE `id` = ?",
            "UPDATE `Orders` SET STATUS = <Orders.status 1> , `code` = <Orders.code 1!> WHERE `id` = <Orders.id 0>",
        ),
        ("DELETE FROM `notes` WHERE `id` = ? LIMIT ?", "DELETE FROM `notes` WHERE `id` = <notes.id 0> LIMIT 100"),
        (
            "INSERT INTO `notes` VALUES ( ?, ... , CONCAT ( USER ( ) ) )",
            "INSERT INTO `notes` VALUES(<notes.id 0!>, <notes.order_id 0>, CONCAT( USER( ) ))",
        ),
        (
            "INSERT INTO `Orders` ( `id` , `code` ) VALUES ( DEFAULT , ? )",
            "INSERT INTO `Orders`( `id` , `code` ) VALUES(DEFAULT, <Orders.code 0!>)",
        ),
        (
            "INSERT INTO `notes` ( `id` , `body` ) VALUES (...)",
            "INSERT INTO `notes`( `id` , `body` ) VALUES(<notes.id 0!>, <notes.body 0>)",
        ),
        (
            "REPLACE INTO `notes` ( `id` , `body` ) VALUES (...)",
            "REPLACE INTO `notes`( `id` , `body` ) VALUES(<notes.id 0>, <notes.body 0>)",
        ),
        (
            "INSERT INTO `notes` ( `id` ) VALUES (?) ON DUPLICATE KEY UPDATE `body` = ?",
            "INSERT INTO `notes`( `id` ) VALUES(<notes.id 0>) ON DUPLICATE KEY UPDATE `body` = <notes.body 1>",
        ),
        (
            "SELECT * FROM `Orders` `o` LEFT JOIN `notes` AS `n` ON `n` . `order_id` = `o` . `id` WHERE `n` . `id` > - ? AND `code` LIKE ?",
            "SELECT * FROM `Orders` `o` LEFT JOIN `notes` AS `n` ON `n` . `order_id` = `o` . `id` WHERE `n` . `id` > - <notes.id 10000>"
            " AND `code` LIKE <Orders.code 0>",
        ),
        (
            "SELECT ? FROM `Orders` WHERE EXISTS ( SELECT ? FROM `notes` WHERE `id` = ? )",
            "SELECT 1 FROM `Orders` WHERE EXISTS( SELECT 1 FROM `notes` WHERE `id` = <notes.id 10000> )",
        ),
        (
            "SELECT `id` FROM `Orders` WHERE `at` < DATE_ADD ( ? , INTERVAL ? SQL_TSI_DAY ) AND `LOWER` ( `code` ) = ?",
            "SELECT `id` FROM `Orders` WHERE `at` < DATE_ADD( <Orders.at 0> , INTERVAL 1 SQL_TSI_DAY )"
            " AND `LOWER`( `code` ) = <Orders.code 0>",
        ),
        (
            "SELECT STATUS , COUNT ( * ) FROM `Orders` GROUP BY STATUS HAVING COUNT ( * ) > ?",
            "SELECT STATUS , COUNT( * ) FROM `Orders` GROUP BY STATUS HAVING COUNT( * ) > 1",
        ),
    ],
)
def test_each_value_has_its_column(text: str, wanted: str) -> None:
    assert shown(template(text)) == wanted


@pytest.mark.parametrize("sign", ["(...)", "(?)"])
def test_list_has_values_of_several_rows(sign: str) -> None:
    rows = [one.row for one in template(f"SELECT `id` FROM `Orders` WHERE `code` IN {sign}").binds]
    assert rows == (list(range(LIST_LENGTH)) if sign == "(...)" else [0])


def test_rows_of_an_insert_are_as_many_as_it_changed() -> None:
    found = template("INSERT INTO `notes` ( `order_id` , `body` ) VALUES (...) /* , ... */", changed=4)
    assert [one.row for one in found.binds] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("COMMIT", "SELECT"),
        ("CREATE TABLE `x` ( `id` INTEGER )", "SELECT"),
        ("SELECT @@`sql_mode`", "no table"),
        ("SELECT ?", "no table"),
        ("SELECT `id` FROM `other` . `Orders` WHERE `id` = ?", "another schema"),
        ("SELECT `id` FROM `absent` WHERE `id` = ?", "does not have"),
        ("SELECT `id` FROM `Orders` WHERE `absent` = ?", "no column"),
        ("SELECT `id` FROM `Orders` , `notes` WHERE `id` = ?", "several"),
        ("SELECT `MD5` ( ? ) FROM `Orders`", "no column"),
        ("SELECT `id` FROM `Orders` WHERE `place` = ?", "type"),
        ("SELECT `id` FROM `Orders` WHERE ( `id` , `code` ) IN ( (...) /* , ... */ )", "no column"),
        ("SELECT LOAD_FILE ( ? ) FROM `Orders`", "file"),
        ("SELECT `id` FROM `Orders` ; DROP TABLE `Orders`", "one statement"),
        ("INSERT INTO `notes` VALUES ( ?, ... , NOW ( ) , ?, ... )", "several lists"),
        ("SELECT `a\x01` FROM `Orders`", "control"),
    ],
)
def test_digest_that_cannot_be_sent_is_left_out_with_a_reason(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        template(text)


def test_text_near_the_limit_may_be_cut() -> None:
    tokens = tokens_of("SELECT " + " , ".join(f"`column_{number}`" for number in range(80)) + " FROM `Orders`")
    assert is_cut(tokens, 1024)
    assert not is_cut(tokens, 4096)


def test_own_schema_is_taken_away_and_another_one_stays() -> None:
    text = "SELECT `shop` . `Orders` . `id` FROM `shop` . `Orders` , `shop` . `notes` JOIN `other` . `x` WHERE `Orders` . `id` = ?"
    wanted = "SELECT `Orders` . `id` FROM `Orders` , `notes` JOIN `other` . `x` WHERE `Orders` . `id` = ?"
    assert " ".join(without_schema(tokens_of(text), "shop")) == wanted


WORDS = st.sampled_from(
    [
        *(
            "SELECT",
            "INSERT",
            "INTO",
            "UPDATE",
            "DELETE",
            "FROM",
            "WHERE",
            "SET",
            "VALUES",
            "JOIN",
            "ON",
            "AND",
            "AS",
            "IN",
            "NOT",
            "LIKE",
        ),
        *(
            "BETWEEN",
            "LIMIT",
            "OFFSET",
            "HAVING",
            "COUNT",
            "EXISTS",
            "WITH",
            "UNION",
            "DUPLICATE",
            "KEY",
            "REPLACE",
            "IGNORE",
            "FOR",
            "ID",
        ),
        *(
            "`Orders`",
            "`notes`",
            "`id`",
            "`code`",
            "`x`",
            "`place`",
            "(",
            ")",
            ",",
            ".",
            "=",
            "<=",
            "-",
            "*",
            ";",
            "'",
            '"',
            "`",
            "\\",
            "--",
        ),
        *("?", "?, ...", "(?)", "(...)", "(...) /* , ... */", "(?) /* , ... */", "/*!", "#"),
    ]
)


@given(st.lists(WORDS, max_size=25).map(" ".join))
def test_any_text_is_a_statement_that_may_be_sent_or_has_a_reason(text: str) -> None:
    reason = ""
    try:
        found = template(text, changed=3)
    except ValueError as error:
        reason = str(error)
    if reason:
        return
    assert len(found.parts) == len(found.binds) + 1
    assert not why_not_sent(found.example)
    assert "..." not in re.sub(r"`[^`]*`", "", found.example)


STATEMENT = st.sampled_from(
    ["SELECT `id` FROM `Orders` WHERE {}", "UPDATE `Orders` SET STATUS = ? WHERE {}", "DELETE FROM `Orders` WHERE {}"]
)
CONDITION = st.sampled_from(
    [
        "`id` = ?",
        "STATUS LIKE ?",
        "`code` IN (...)",
        "`at` BETWEEN ? AND ?",
        "NOT `id` <= ?",
        "`Orders` . `code` != ?",
        "`id` > - ?",
    ]
)


@given(STATEMENT, st.lists(CONDITION, min_size=1, max_size=6))
def test_conditions_of_any_number_are_bound(statement: str, conditions: list[str]) -> None:
    found = template(statement.format(" AND ".join(conditions)))
    assert {one.table for one in found.binds} == {"Orders"}
    assert "?" not in "".join(found.parts)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200))
def test_proportions_are_kept(counts: list[int]) -> None:
    found = proportions(counts, STATEMENTS)
    assert sum(found) == STATEMENTS
    assert min(found) >= 1
    total = sum(counts)
    for count, number in zip(counts, found, strict=True):
        assert abs(number - STATEMENTS * count / total) <= max(1.0, 0.03 * STATEMENTS * count / total)


def source() -> SourceDigests:
    texts = ("SELECT STATUS FROM `Orders` WHERE ID = ?", "COMMIT", "INSERT INTO `notes` ( `id` , `body` ) VALUES (...)")
    digests = tuple(Digest(text, count) for text, count in zip(texts, (600, 300, 50), strict=True))
    return SourceDigests("shop", 2, "", 1000, 0, 4096, digests, TABLES)


def test_plan_tells_shares_and_reasons() -> None:
    plan = digest_plan(source())
    assert [(one.count, one.statements) for one in plan.used] == [(600, 9231), (50, 769)]
    assert [one.text for one in plan.left_out] == ["COMMIT"]
    assert plan.share == pytest.approx(0.65)
    assert plan.beyond == 50
    assert digest_plan(None).sha256 == ""


def test_host_gets_the_needed_columns_only() -> None:
    assert [(one.name, [column.name for column in columns]) for one, columns in sampled_tables(source())] == [
        ("Orders", ["id"]),
        ("notes", ["id", "body"]),
    ]
    assert names_of_tables(source(), "2,9,x") == ("notes",)
    lines = list(digest_lines(source()))
    assert [line[1] for line in lines] == ["9231", "769"]
    assert lines[1][3::2] == (f"fresh 2 1 0 n {INT}", "stored 2 2 0 b 32")


def test_names_are_quoted_on_the_host() -> None:
    odd = TableColumns("a`; DROP", (Column("b`", ColumnKind.BYTES),))
    reading = SourceDigests(
        "s`x", total=1, digests=(Digest("SELECT * FROM `a``; DROP` WHERE `b``` = ?", 1),), tables=(odd,)
    )
    assert [one.reason for one in chosen_of(reading)] == [""]
    text = sample_sql(reading, "mysql", of_copy="s`x")
    assert "USE `s``x`;" in text
    assert "FROM `a``; DROP` LIMIT" in text


def test_values_of_digests_do_not_leave_the_host_of_the_scratch_server() -> None:
    digests = SourceDigests(
        schema="shop", digests=(Digest("SELECT * FROM `notes` WHERE `id` = ?", 1, 0),), tables=TABLES
    )
    workload = Workload(Profile.ROTATING, schema="shop", digests=digests)
    same = LoadTestRequest(source="s", host="db-1", workload=workload, raised=Raised.SCHEMAS, steps=(1, 2))
    assert problems(same) == []
    assert len(problems(replace(same, generator_host="db-2"))) == 1
