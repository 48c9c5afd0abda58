"""The certificate's comparisons: what counts as a difference, and what a statement asks for."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.rebuilds.certificate import columns, inventory, openable
from dbops.engine.rebuilds.certificate.inventory import Inventory, Scope, differences, read_inventory
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.steps.certify.looks import LOOKS, settle
from dbops.engine.rebuilds.steps.run import StepOutcome

MARIADB = flavor_for("10.11.6-MariaDB", "mariadb")
TABLE = {
    "s": "shop",
    "n": "orders",
    "kind": "BASE TABLE",
    "engine": "InnoDB",
    "row_format": "Dynamic",
    "collation": "x",
}


class Answers:
    """A server that answers by the first known text in a statement, and knows nothing else."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        self.asked.append(sql)
        for text, answer in self.answers.items():
            if text in sql:
                if isinstance(answer, Exception):
                    raise answer
                return list(answer)
        return []

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self.query(sql, parameters)

    def close(self) -> None:
        pass


def server(**more: Any) -> Answers:
    known = {"information_schema.TABLES": [{**TABLE, "options": ""}], **more}
    return Answers(known)


def test_each_kind_of_difference_is_named() -> None:
    left = Inventory({"table a.b": "1", "view a.c": "2", "event a.e": "3"})
    right = Inventory({"view a.c": "9", "event a.e": "3", "table a.d": "4"})
    assert differences(left, right) == {"table a.b": "missing", "view a.c": "changed", "table a.d": "extra"}


def shaped(digest: int, **more: Any) -> Inventory:
    rows = [{"s": "shop", "n": "orders", "c": 2, "r": 2, "x": digest}]
    return read_inventory(server(**{"information_schema.COLUMNS": rows, **more}), MARIADB, Scope())


def test_columns_and_indexes_are_part_of_their_table() -> None:
    assert differences(shaped(1), shaped(2)) == {"table shop.orders": "changed"}
    assert shaped(1).parts == {"column": 2, "index": 0}


def test_columns_that_one_server_is_too_slow_for_are_not_compared_and_hide_nothing_else() -> None:
    slow = RemoteFailure("mysql.error", "Reading", cause="1969: interrupted (max_statement_time exceeded)")
    late = shaped(0, **{"information_schema.STATISTICS": slow})
    assert differences(shaped(1), late) == {}
    assert set(late.objects) == {"table shop.orders"}
    assert late.hidden.keys() - shaped(1).hidden.keys() == {"columns and indexes"}


def test_versions_that_write_definitions_in_other_words_do_not_differ() -> None:
    def written(collation: str, view: str) -> Inventory:
        tables = [{**TABLE, "options": "", "collation": collation}]
        views = [{"s": "shop", "n": "v", "VIEW_DEFINITION": view, "DEFINER": "a@b", "SECURITY_TYPE": "DEFINER"}]
        answers = {"information_schema.TABLES": tables, "information_schema.VIEWS": views}
        return read_inventory(server(**answers), MARIADB, scope)

    for same_version, expected in ((False, {}), (True, {"table shop.orders": "changed", "view shop.v": "changed"})):
        scope = Scope(same_version=same_version)
        assert differences(written("utf8_bin", "x"), written("utf8mb3_bin", "(x)")) == expected
    assert inventory.IN_OTHER_WORDS in written("x", "y").hidden or scope.same_version


def test_type_that_series_name_differently_is_the_same() -> None:
    def type_of(name: str) -> Any:
        with closing(sqlite3.connect(":memory:")) as views:
            views.execute("ATTACH ':memory:' AS information_schema")
            names = "TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE"
            views.execute(f"CREATE TABLE information_schema.COLUMNS ({names})")
            views.execute("INSERT INTO COLUMNS VALUES ('shop', 'orders', 'place', 1, 'YES', ?)", (name,))
            statement = columns.COLUMN.details(flavor_for("8.0.46", "mysql"), exact=False).replace("%s", "?")
            return views.execute(statement, ("shop", "orders")).fetchone()

    assert type_of("geomcollection") == type_of("geometrycollection")
    assert len({type_of(name) for name in ("geometry", "point", "geometrycollection", "multipoint")}) == 4


def test_account_differs_by_its_password_and_not_by_times_or_versions() -> None:
    def accounts(priv: str) -> Inventory:
        row = {"Host": "%", "User": "app", "Priv": priv}
        return read_inventory(server(**{"mysql.global_priv": [row]}), MARIADB, Scope())

    first = accounts('{"access":1,"authentication_string":"*AA","version_id":101106,"password_last_changed":1}')
    later = accounts('{"access":1,"authentication_string":"*AA","version_id":101119,"password_last_changed":2}')
    other = accounts('{"access":1,"authentication_string":"*BB","version_id":101106,"password_last_changed":1}')
    assert differences(first, later) == {}
    assert differences(first, other) == {"account app@%": "changed"}


def test_accounts_that_dbops_makes_for_a_clone_are_no_difference() -> None:
    row = {"Host": "%", "User": f"{inventory.OWN_ACCOUNTS}1a2b", "Priv": "{}"}
    found = read_inventory(server(**{"mysql.global_priv": [row]}), MARIADB, Scope())
    assert not any(inventory.is_account(name) for name in found.objects)


def test_row_format_does_not_count_after_a_dump() -> None:
    def of(row_format: str, scope: Scope) -> Inventory:
        tables = [{**TABLE, "options": "", "row_format": row_format}]
        return read_inventory(Answers({"information_schema.TABLES": tables}), MARIADB, scope)

    dumped = Scope(row_format=False)
    assert differences(of("Compact", Scope()), of("Dynamic", Scope()))
    assert not differences(of("Compact", dumped), of("Dynamic", dumped))


def test_what_the_account_may_not_see_is_said() -> None:
    found = read_inventory(
        server(**{"mysql.proxies_priv": RemoteFailure("mysql.error", "x", cause="1142: denied")}), MARIADB, Scope()
    )
    assert {*inventory.NEEDED, "mysql.proxies_priv"} == set(found.hidden)


@pytest.mark.parametrize("missing", ["", *inventory.NEEDED.values()])
def test_each_privilege_that_is_missing_hides_its_objects(missing: str) -> None:
    held = [{"name": name} for name in inventory.NEEDED.values() if name != missing]
    found = read_inventory(server(USER_PRIVILEGES=held), MARIADB, Scope())
    assert [inventory.NEEDED[what] for what in found.hidden] == ([missing] if missing else [])


def test_inventory_needs_no_statement_for_each_table() -> None:
    many = server(
        **{"information_schema.TABLES": [{**TABLE, "options": "", "n": f"t{number}"} for number in range(5000)]}
    )
    assert len(read_inventory(many, MARIADB, Scope()).objects) == 5000
    assert len(many.asked) < 20


def test_failed_batch_is_read_one_by_one_and_names_the_broken_table() -> None:
    good, bad = Table("a", "good"), Table("a", "ba`d")

    class Broken(Answers):
        def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
            if bad.sql in sql:
                raise RemoteFailure("mysql.error", "reading", cause="1932: missing")
            return [{"i": 0}]

    found = openable.open_tables(lambda: Broken({}), [bad, good])
    assert found.errors == {bad: "1932: missing"}
    assert found.with_rows == {good}
    assert bad.sql == "`a`.`ba``d`"


def looking(uses_gtid: bool = True) -> Any:
    journal = SimpleNamespace(progress=lambda **known: None, say=lambda *words, **more: None)
    return SimpleNamespace(
        checkpoint={}, clock=SimpleNamespace(now=lambda: 0.0), journal=journal, flavor=MARIADB,
        plan=SimpleNamespace(uses_gtid=uses_gtid),
    )  # fmt: skip


def at(position: str) -> Answers:
    return Answers({"gtid_current_pos": [{"executed": position, "logged": position}]})


def test_only_what_differs_in_every_look_counts() -> None:
    run, reference = looking(), SimpleNamespace(database=at("0-1-5"), flavor=MARIADB, is_primary=False)
    seen = iter([{"table a.real": "missing", f"table a.t{number}": "extra"} for number in range(LOOKS)])
    answers: list[Any] = []
    while not answers or isinstance(answers[-1], StepOutcome):
        answers.append(settle(run, "x", at("0-1-5"), reference, lambda: next(seen), {}))  # type: ignore[arg-type]
    assert answers[-1] == {"table a.real": "missing"}
    assert len(answers) == LOOKS
    assert run.checkpoint == {}


def test_next_look_waits_until_the_target_has_what_the_other_server_had() -> None:
    run, reference = looking(), SimpleNamespace(database=at("0-1-9"), flavor=MARIADB, is_primary=False)
    looks: list[int] = []

    def look() -> dict[str, str]:
        looks.append(1)
        return {"table a.new": "missing"} if len(looks) == 1 else {}

    for position in ("0-1-5", "0-1-8"):
        assert isinstance(settle(run, "x", at(position), reference, look, {}), StepOutcome)  # type: ignore[arg-type]
    assert len(looks) == 1
    assert settle(run, "x", at("0-1-9"), reference, look, {}) == {}  # type: ignore[arg-type]
