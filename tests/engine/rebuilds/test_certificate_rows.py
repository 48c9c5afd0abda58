"""The checksums of rows: what the statements say."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.certificate import key_values, ranges, rows, sizes
from dbops.engine.rebuilds.certificate.openable import Table
from tests.engine.rebuilds.test_certificate import Answers


def column(name: str, kind: str = "int", charset: str = "", nullable: str = "NO", follows: int = 0) -> str:
    return f"{name.encode().hex()}:{kind}:{charset}:{nullable}:{follows}"


def index(name: str, *columns: str | None, prefix: int | None = None) -> list[dict[str, Any]]:
    return [{"n": "t", "i": name, "name": one, "prefix": prefix} for one in columns]


def described(columns: list[str], indexes: list[dict[str, Any]]) -> rows.Compared:
    known = [{"n": "T", "c": column("other")}, {"n": "t", "c": ",".join(columns)}]
    found = rows.describe_one(Answers({"COLUMNS": known, "STATISTICS": indexes}), Table("a", "t"))  # type: ignore[arg-type]
    assert found
    return found


@pytest.mark.parametrize(
    ("kind", "compared"), [("int", True), ("varchar", True), ("json", True), ("double", False), ("geometry", False)]
)
def test_column_without_an_exact_text_is_left_out(kind: str, compared: bool) -> None:
    found = described([column("id"), column("c", kind)], index("PRIMARY", "id"))
    assert ("`c`" in found.checksum) is compared
    assert bool(found.left_out) is not compared
    assert found.key == ("id",)


@pytest.mark.parametrize(
    ("indexes", "key", "by_primary"),
    [
        (index("PRIMARY", "id", "name") + index("u", "id"), ("id", "name"), True),
        (index("PRIMARY", "kind", "id") + index("u", "name", "id") + index("v", "id"), ("id",), False),
        (index("PRIMARY", "id", prefix=10), (), False),
        (index("u", "maybe"), (), False),
        (index("u", "other"), (), False),
        (index("u", "value"), (), False),
        (index("u", None), (), False),  # an expression
    ],
)
def test_rows_are_divided_by_a_unique_key_that_sorts_as_it_compares(
    indexes: list[dict[str, Any]], key: tuple[str, ...], by_primary: bool
) -> None:
    columns = [column("id"), column("name", "varchar", "utf8mb4"), column("kind", "enum", "utf8mb4")]
    columns += [column("maybe", nullable="YES"), column("other", "varchar", "sjis"), column("value", "double")]
    found = described(columns, indexes)
    assert (found.key, found.by_primary) == (key, by_primary)


@pytest.mark.parametrize(("length", "count"), [(None, 20_000), (1000, 20_000), (64 * 1024, 1024), (2**30, 100)])
def test_ranges_of_long_rows_have_fewer_of_them(length: int | None, count: int) -> None:
    known = [{"n": "t", "c": column("id")}]
    server = Answers({"COLUMNS": known, "STATISTICS": [], "AVG_ROW_LENGTH": [{"bytes": length}]})
    found = rows.describe_one(server, Table("a", "t"))  # type: ignore[arg-type]
    assert found
    assert found.range_rows == count


def test_percent_in_a_name_survives_parameters() -> None:
    one = rows.Compared(Table("a", "per%cent"), "COUNT(*) AS n", ("k%",))
    statement, parameters = ranges.ranged(one, ranges.Range(after=(3,), until=(9,)))
    assert statement % parameters == "SELECT COUNT(*) AS n FROM `a`.`per%cent` WHERE `k%` > 3 AND `k%` <= 9"
    statement, parameters = ranges.ranged(one, ranges.Range())
    assert (statement, parameters) == ("SELECT COUNT(*) AS n FROM `a`.`per%cent`", ())


def test_bounds_of_a_composite_key_are_those_of_all_its_columns() -> None:
    one = rows.Compared(Table("a", "t"), "COUNT(*) AS n", ("a", "b"), by_primary=True)
    statement, parameters = ranges.ranged(one, ranges.Range(after=(3, 7), until=(4, 1)))
    where = (statement % parameters).partition(" FORCE INDEX (PRIMARY) WHERE ")[2]
    assert where == "(`a` > 3 OR (`a` = 3 AND `b` > 7)) AND (`a` < 4 OR (`a` = 4 AND `b` <= 1))"


def test_key_values_survive_a_checkpoint() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6000)  # noqa: DTZ001 - as a server's
    part = ranges.Range(after=(3, "x", b"\x00", Decimal("12345678901234567890.10")), until=(4, moment))
    kept = key_values.range_of(json.loads(json.dumps(key_values.bounds_of(part))))
    assert kept.after == part.after
    assert kept.until == (4, "2026-01-02 03:04:05.006000")
    assert kept.from_ is None
    assert key_values.decoded(7) == (7,)  # of an earlier release


MIB = 1024**2


def test_size_is_the_one_that_innodb_keeps_and_that_of_all_partitions() -> None:
    tables = [Table("a", "big"), Table("a", "parts"), Table("a", "small")]
    kept = {"big": 17 * MIB, "parts#P#p0": 9 * MIB, "parts#p#p1#sp#s": 9 * MIB, "small": MIB}
    server = Answers({"innodb_table_stats": [{"s": "a", "n": name, "size": size} for name, size in kept.items()]})
    assert sizes.large_of(server, tables) == [Table("a", "big"), Table("a", "parts")]  # type: ignore[arg-type]
    assert not any("DATA_LENGTH" in sql for sql in server.asked)


@pytest.mark.parametrize("kept", [[], RemoteFailure("mysql.error", "Reading", cause="1142: denied")])
def test_table_without_a_kept_size_is_opened_for_it(kept: Any) -> None:
    opened = [{"s": "a", "n": "big", "bytes": 17 * MIB}, {"s": "a", "n": "empty", "bytes": None}]
    server = Answers({"innodb_table_stats": kept, "DATA_LENGTH": opened})
    tables = [Table("a", "big"), Table("a", "empty")]
    assert sizes.large_of(server, tables) == [Table("a", "big")]  # type: ignore[arg-type]
