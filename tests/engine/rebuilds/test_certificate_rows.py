"""The checksums of rows: what the statements say."""

from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.certificate import rows, sizes
from dbops.engine.rebuilds.certificate.openable import Table
from tests.engine.rebuilds.test_certificate import Answers


@pytest.mark.parametrize(
    ("kind", "compared"), [("int", True), ("varchar", True), ("json", True), ("double", False), ("geometry", False)]
)
def test_column_without_an_exact_text_is_left_out(kind: str, compared: bool) -> None:
    columns = [
        {"n": "t", "name": "id", "type": "int", "extra": "", "col_key": "PRI"},
        {"n": "t", "name": "c", "type": kind, "extra": "", "col_key": ""},
    ]
    found = rows.describe(Answers({"COLUMNS": columns, "STATISTICS": [{"n": "t", "name": "id"}]}), "a")["t"]  # type: ignore[arg-type]
    assert ("`c`" in found.checksum) is compared
    assert bool(found.left_out) is not compared
    assert found.key == "id"


def test_percent_in_a_name_survives_parameters() -> None:
    one = rows.Compared(Table("a", "per%cent"), "COUNT(*) AS n", "k%", ())
    statement, parameters = rows.ranged(one, rows.Range(after=3, until=9))
    assert statement % parameters == "SELECT COUNT(*) AS n FROM `a`.`per%cent` WHERE `k%` > 3 AND `k%` <= 9"


MIB = 1024**2


def test_size_is_the_one_that_innodb_keeps_and_that_of_all_partitions() -> None:
    tables = [Table("a", "big"), Table("a", "parts"), Table("a", "small")]
    kept = {"big": 17 * MIB, "parts#P#p0": 9 * MIB, "parts#p#p1#sp#s": 9 * MIB, "small": MIB}
    server = Answers({"innodb_table_stats": [{"s": "a", "n": name, "bytes": size} for name, size in kept.items()]})
    assert sizes.large_of(server, tables) == [Table("a", "big"), Table("a", "parts")]  # type: ignore[arg-type]
    assert not any("DATA_LENGTH" in sql for sql in server.asked)


@pytest.mark.parametrize("kept", [[], RemoteFailure("mysql.error", "Reading", cause="1142: denied")])
def test_table_without_a_kept_size_is_opened_for_it(kept: Any) -> None:
    opened = [{"s": "a", "n": "big", "bytes": 17 * MIB}, {"s": "a", "n": "empty", "bytes": None}]
    server = Answers({"innodb_table_stats": kept, "DATA_LENGTH": opened})
    tables = [Table("a", "big"), Table("a", "empty")]
    assert sizes.large_of(server, tables) == [Table("a", "big")]  # type: ignore[arg-type]
