"""The checksums of rows: what the statements say."""

import pytest

from dbops.engine.rebuilds.certificate import rows
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
