"""Advice: when it is given, what it changes on which product, what it costs, and what an A/B test takes back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dbops.engine.capacity.advice import GIB, LONG_HISTORY, TABLE_BYTES, advise
from dbops.engine.capacity.advice_inputs import (
    Advice,
    AdviceInputs,
    AdviceKind,
    EvidenceSource,
    MeasuredChange,
    kind_of,
)
from dbops.engine.capacity.contention import Contention
from dbops.engine.capacity.limits import THRESHOLD, CapacityLimit, LimitKind, limit_of
from dbops.engine.capacity.trend import Trend, TrendState
from dbops.engine.capacity.waits import WaitClass

NOW = datetime(2027, 1, 1, tzinfo=UTC)
VALUES = {
    "tables": 24_000.0,
    "partitions": 0.0,
    "schemas": 600.0,
    "cache_misses_per_second": 900.0,
    "open_tables": 4000.0,
    "table_open_cache": 4000.0,
    "table_open_cache_instances": 8.0,
    "table_definition_cache": 2000.0,
    "innodb_open_files": 4000.0,
    "open_files_limit": 10_000.0,
    "max_connections": 500.0,
}
MYSQL = AdviceInputs("db-1", "mysql", (8, 0, 35), VALUES, NOW)
MARIADB = replace(MYSQL, flavor="mariadb", version=(10, 11, 19))
DISK = Contention(WaitClass.DATA_FILES, 0.4, (("wait/io/file/innodb/innodb_data_file", 0.4),))
LATCH = Contention(WaitClass.INDEX_PAGES, 0.3, (("wait/synch/sxlock/innodb/index_tree_rw_lock", 0.3),))
POOL = {"Innodb_buffer_pool_reads": 100, "Innodb_buffer_pool_read_requests": 1000}


def growing(kind: LimitKind, current: float, value: float, per_day: float) -> CapacityLimit:
    trend = Trend(
        TrendState.GROWING,
        90,
        current,
        NOW,
        per_day,
        per_day,
        per_day,
        low_per_day=per_day / 2,
        high_per_day=per_day * 2,
    )
    return limit_of(kind, "db-1", current=current, value=value, set_by=THRESHOLD, trend=trend)


def only(given: AdviceInputs, kind: AdviceKind) -> Advice:
    [found] = [one for one in advise(given) if one.kind is kind]
    return found


def kinds(given: AdviceInputs) -> set[AdviceKind]:
    return {one.kind for one in advise(given)}


def values(one: Advice) -> dict[str, str]:
    return {change.name: change.new for change in one.changes}


def test_all_limits_of_open_tables_rise_together() -> None:
    found = only(MYSQL, AdviceKind.TABLE_CACHES)
    assert values(found) == {
        "table_open_cache": "30000",
        "table_definition_cache": "30000",
        "innodb_open_files": "30000",
        "open_files_limit": str(30_000 + 2 * 30_000 + 500 + 10),
    }
    assert found.memory_bytes == 28_000 * TABLE_BYTES
    assert found.binds_next == ("table_open_cache", 30_000)
    assert found.needs_restart
    assert {one.name: one.value for one in found.evidence}["cache_misses_per_second"] == 900


def test_mariadb_needs_files_for_each_instance_of_the_cache() -> None:
    assert values(only(MARIADB, AdviceKind.TABLE_CACHES))["open_files_limit"] == str(30_000 + 2 * 8 * 30_000 + 510)


def test_limit_that_is_large_enough_is_left() -> None:
    given = replace(MYSQL, values=VALUES | {"open_files_limit": 1_048_576.0, "innodb_open_files": 60_000.0})
    assert set(values(only(given, AdviceKind.TABLE_CACHES))) == {"table_open_cache", "table_definition_cache"}


def test_definition_of_a_partitioned_table_counts_once() -> None:
    given = replace(MYSQL, values=VALUES | {"tables": 1000.0, "partitions": 9000.0})
    found = only(given, AdviceKind.TABLE_CACHES)
    assert values(found)["table_open_cache"] == "13000"
    assert "table_definition_cache" not in values(found)
    assert found.binds_next == ("table_open_cache", 13_000)


@pytest.mark.parametrize(("hours", "is_enough"), [(1, True), (0, True), (-1, False), (None, False)])
def test_newer_reading_of_a_setting_counts(hours: int | None, *, is_enough: bool) -> None:
    waits_at = None if hours is None else NOW + timedelta(hours=hours)
    given = replace(MYSQL, settings={"table_open_cache": 40_000}, waits_at=waits_at)
    assert ("table_open_cache" not in values(only(given, AdviceKind.TABLE_CACHES))) is is_enough


@pytest.mark.parametrize(
    ("flavor", "version", "statement", "undo"),
    [
        ("mysql", (5, 7, 22), "SET GLOBAL table_open_cache = 30000", "SET GLOBAL table_open_cache = 4000"),
        ("mysql", (8, 0, 15), "SET PERSIST table_open_cache = 30000", "SET PERSIST table_open_cache = 4000"),
        ("mariadb", (11, 8, 9), "SET GLOBAL table_open_cache = 30000", "SET GLOBAL table_open_cache = 4000"),
    ],
)
def test_statement_is_of_the_product(flavor: str, version: tuple[int, int, int], statement: str, undo: str) -> None:
    roomy = VALUES | {"open_files_limit": 1_048_576.0, "innodb_open_files": 60_000.0}
    change = only(replace(MYSQL, flavor=flavor, version=version, values=roomy), AdviceKind.TABLE_CACHES).changes[0]
    assert (change.statement, change.undo) == (statement, undo)
    assert (change.line, change.undo_line) == ("table_open_cache = 30000", "table_open_cache = 4000")


def test_no_cache_grows_before_the_restart_that_allows_its_files() -> None:
    changes = only(MYSQL, AdviceKind.TABLE_CACHES).changes
    assert {(one.statement, one.undo) for one in changes} == {("", "")}
    assert {one.line for one in changes} >= {"table_open_cache = 30000", "innodb_open_files = 30000"}


def test_full_cache_without_misses_is_no_reason() -> None:
    assert advise(replace(MYSQL, values=VALUES | {"cache_misses_per_second": 0.2})) == ()


def test_contention_is_a_reason_without_an_hourly_rate() -> None:
    named = Contention(WaitClass.DATA_DICTIONARY, 0.2, (("wait/synch/mutex/innodb/dict_sys_mutex", 0.2),))
    given = replace(MYSQL, values=VALUES | {"cache_misses_per_second": 0.0}, contentions=[named], waits_at=NOW)
    evidence = only(given, AdviceKind.TABLE_CACHES).evidence[0]
    assert (evidence.source, evidence.value, evidence.at) == (EvidenceSource.WAITS, 0.2, NOW)


def test_unknown_tables_are_no_reason() -> None:
    assert advise(AdviceInputs("db-1", "mysql", (8, 0, 35), {"cache_misses_per_second": 900.0})) == ()


@pytest.mark.parametrize(
    ("tested", "is_given"),
    [
        (MeasuredChange(AdviceKind.TABLE_CACHES, 4, 1.01, 0.97, 1.04), False),
        (MeasuredChange(AdviceKind.TABLE_CACHES, 4, 0.80, 0.70, 0.90), False),
        (MeasuredChange(AdviceKind.TABLE_CACHES, 4, 1.01, 0.72, 1.30), True),
        (MeasuredChange(AdviceKind.DOUBLEWRITE, 4, 1.01, 0.97, 1.04), True),
    ],
)
def test_refuted_advice_is_not_given(tested: MeasuredChange, is_given: bool) -> None:
    assert (AdviceKind.TABLE_CACHES in kinds(replace(MYSQL, tested=[tested]))) is is_given


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (["table-open-cache", "innodb_open_files"], AdviceKind.TABLE_CACHES),
        (["innodb_doublewrite"], AdviceKind.DOUBLEWRITE),
        (["innodb_doublewrite", "innodb_flush_method"], None),
        ([], None),
    ],
)
def test_ab_test_belongs_to_the_advice_of_its_settings(settings: list[str], kind: AdviceKind | None) -> None:
    assert kind_of(settings) is kind


def test_newest_test_decides() -> None:
    old, new = (MeasuredChange(AdviceKind.TABLE_CACHES, number, 1.0, 0.97, 1.04) for number in (3, 8))
    gain = MeasuredChange(AdviceKind.TABLE_CACHES, 9, 1.5, 1.4, 1.6)
    assert only(replace(MYSQL, tested=[old, gain, new]), AdviceKind.TABLE_CACHES).effect == gain
    assert AdviceKind.TABLE_CACHES not in kinds(replace(MYSQL, tested=[replace(gain, test=1), new]))


def test_schemas_have_a_date_and_a_number_to_move() -> None:
    limit = growing(LimitKind.SCHEMAS, 570, 600, 0.5)
    found = only(replace(MYSQL, values={"schemas": 570.0}, limits=[limit]), AdviceKind.FEWER_SCHEMAS)
    assert found.by == (NOW + timedelta(days=30), NOW + timedelta(days=120))
    assert found.move == 153
    assert found.changes == ()


def test_schemas_without_growth_are_no_reason() -> None:
    still = limit_of(
        LimitKind.SCHEMAS,
        "db-1",
        current=100,
        value=600,
        set_by=THRESHOLD,
        trend=Trend(TrendState.NOT_GROWING, 90, 100, NOW),
    )
    assert advise(replace(MYSQL, values={"schemas": 100.0}, limits=[still])) == ()


def test_knee_of_a_load_test_is_a_limit() -> None:
    given = replace(MYSQL, values={"schemas": 700.0}, knee=(600, 12))
    found = only(given, AdviceKind.FEWER_SCHEMAS)
    assert (found.move, found.evidence[0].test) == (101, 12)
    assert advise(replace(given, values={"schemas": 500.0})) == ()


@pytest.mark.parametrize(
    ("flavor", "version", "name", "new"),
    [
        ("mysql", (8, 0, 35), "innodb_redo_log_capacity", 25 * GIB),
        ("mysql", (8, 0, 15), "innodb_log_file_size", 25 * GIB // 2),
        ("mariadb", (10, 11, 19), "innodb_log_file_size", 25 * GIB),
    ],
)
def test_redo_of_an_hour_fits(flavor: str, version: tuple[int, int, int], name: str, new: int) -> None:
    limit = growing(LimitKind.REDO, 20 * GIB, 16 * GIB, 1)
    given = replace(
        MYSQL,
        flavor=flavor,
        version=version,
        values={"redo_bytes_per_second": 20 * GIB / 3600, "redo_capacity_bytes": 16 * GIB},
        limits=[limit],
    )
    assert values(only(given, AdviceKind.REDO_CAPACITY)) == {name: str(new)}


def test_disk_waits_with_misses_ask_for_a_larger_pool() -> None:
    given = replace(MYSQL, values={}, contentions=[DISK], counters=POOL, settings={"innodb_buffer_pool_size": 8 * GIB})
    found = only(given, AdviceKind.BUFFER_POOL)
    assert values(found) == {"innodb_buffer_pool_size": str(16 * GIB)}
    assert not found.needs_restart
    assert (
        advise(replace(given, counters={"Innodb_buffer_pool_reads": 1, "Innodb_buffer_pool_read_requests": 1000})) == ()
    )
    assert advise(replace(given, contentions=[replace(DISK, share=0.1)])) == ()


def test_sync_array_is_of_mysql() -> None:
    given = replace(MYSQL, values={}, contentions=[LATCH], settings={"innodb_sync_array_size": 1})
    found = only(given, AdviceKind.SYNC_ARRAY)
    assert values(found) == {"innodb_sync_array_size": "16"}
    assert found.needs_restart
    assert advise(replace(given, settings={"innodb_sync_array_size": 16})) == ()
    assert advise(replace(given, flavor="mariadb", settings={})) == ()


@pytest.mark.parametrize(("flavor", "needs_restart"), [("mysql", True), ("mariadb", False)])
def test_long_history_asks_for_purge_threads(flavor: str, needs_restart: bool) -> None:
    given = replace(MARIADB, flavor=flavor, values={}, settings={"innodb_purge_threads": 4})
    given = replace(given, gauges={"Innodb_history_list_length": LONG_HISTORY})
    found = only(given, AdviceKind.PURGE)
    assert values(found) == {"innodb_purge_threads": "8"}
    assert found.needs_restart is needs_restart
    assert advise(replace(given, gauges={"Innodb_history_list_length": LONG_HISTORY - 1})) == ()
    assert advise(replace(given, settings={"innodb_purge_threads": 32})) == ()


@pytest.mark.parametrize("changes", [{"is_doublewrite_safe": False}, {"is_doublewrite_safe": True}])
def test_doublewrite_is_turned_off_only_where_that_is_safe(changes: dict[str, Any]) -> None:
    given = replace(MYSQL, values={}, doublewrite="ON", **changes)
    found = [one for one in advise(given) if one.kind is AdviceKind.DOUBLEWRITE]
    assert [values(one) for one in found] == ([{"innodb_doublewrite": "OFF"}] if given.is_doublewrite_safe else [])
