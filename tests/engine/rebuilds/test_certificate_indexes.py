"""A copy has the indexes of its source: where the primary is compared, those that the source alone has are accepted."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.rebuilds.steps.certify import looks
from dbops.engine.rebuilds.steps.certify.objects import inventory
from dbops.engine.rebuilds.steps.run import StepOutcome
from tests.engine.rebuilds.test_certificate import TABLE, Answers
from tests.engine.rebuilds.test_certificate_bounded import compared, running

COLUMNS = (
    *("ORDINAL_POSITION", "IS_NULLABLE", "DATA_TYPE", "COLUMN_TYPE", "COLUMN_DEFAULT", "CHARACTER_SET_NAME"),
    *("COLLATION_NAME", "EXTRA", "GENERATION_EXPRESSION"),
)
STATISTICS = ("SEQ_IN_INDEX", "COLUMN_NAME", "NON_UNIQUE", "SUB_PART", "INDEX_TYPE", "COLLATION", "IGNORED")


class Server(Answers):
    """A server with one table of one column, and its indexes. SQLite answers what is asked of its columns and indexes."""

    def __init__(self, *indexes: str, of_type: str = "int", **of_table: Any) -> None:
        self.of_type, self.indexes = of_type, ("PRIMARY", *indexes)
        summary = {"s": "shop", "n": "orders", "c": 1, "r": 1}
        super().__init__(
            {
                "information_schema.TABLES": [{**TABLE, "options": "", **of_table}],
                "COLUMNS WHERE TABLE_SCHEMA NOT": [{**summary, "x": of_type}],
                "STATISTICS WHERE TABLE_SCHEMA NOT": [{**summary, "x": str(indexes)}],
                "@@version": [{"version": "10.11.6-MariaDB"}],
                "gtid_current_pos": [{"executed": "0-1-5", "logged": "0-1-5"}],
            }
        )

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        if "TABLE_SCHEMA = %s" not in sql:
            return super().query(sql, parameters)
        with closing(sqlite3.connect(":memory:")) as views:
            views.row_factory = sqlite3.Row
            views.execute("ATTACH ':memory:' AS information_schema")
            for view, more in (("COLUMNS", ("COLUMN_NAME", *COLUMNS)), ("STATISTICS", ("INDEX_NAME", *STATISTICS))):
                views.execute(f"CREATE TABLE information_schema.{view} (TABLE_SCHEMA, TABLE_NAME, {', '.join(more)})")
            views.execute(
                "INSERT INTO COLUMNS (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE)"
                " VALUES ('shop', 'orders', 'id', 1, ?)",
                (self.of_type,),
            )
            views.executemany(
                "INSERT INTO STATISTICS (TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE)"
                " VALUES ('shop', 'orders', ?, 1, 'id', 1)",
                [(name,) for name in self.indexes],
            )
            return [dict(row) for row in views.execute(sql.replace("%s", "?"), parameters)]


def accepted(target: Server, primary: Server, source: Server | Exception) -> list[str]:
    """Compare target and primary, whose source is behind; return what is accepted. Raises as ``inventory``."""

    def connect(_: float) -> Any:
        if isinstance(source, Exception):
            raise source
        return source

    run, record = running(lambda: target), {"parts": [], "unchecked": {}}
    run.source = SimpleNamespace(connect=connect)
    run.plan.loads_sql = False
    for _ in range(looks.LOOKS + 1):
        if not isinstance(inventory(run, target, compared(primary), record), StepOutcome):
            return [one["name"] for one in record["accepted"]]
    raise AssertionError("the comparison does not end")


def test_index_that_only_the_source_has_is_accepted_and_listed() -> None:
    assert accepted(Server("by_day"), Server(), Server("by_day")) == ["table shop.orders"]
    assert accepted(Server(), Server("by_day"), Server()) == ["table shop.orders"]
    assert accepted(Server("by_day"), Server("by_day"), Server()) == []


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (Server("by_day"), Server()),
        (Server("by_day"), Server("by_day", "by_month")),
        (Server("by_day", of_type="bigint"), Server("by_day", of_type="bigint")),
        (Server("by_day", engine="Aria"), Server("by_day", engine="Aria")),
        (Server("by_day"), Unreachable("mysql.unreachable", "Connecting", cause="2003: refused")),
    ],
    ids=["not the source's", "not all of the source's", "another type", "another engine", "no answer"],
)
def test_any_other_difference_from_the_primary_ends_the_rebuild(target: Server, source: Any) -> None:
    with pytest.raises(RemoteFailure) as error:
        accepted(target, Server(), source)
    assert error.value.code == "certificate.differs"
