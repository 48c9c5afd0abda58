"""Differences of two readings of wait events: shares, resets, restarts, wraps, and what is named."""

from dataclasses import replace

import pytest

from dbops.engine.capacity.contention import contentions
from dbops.engine.capacity.waits import (
    PICOSECONDS,
    TIMER_WRAP,
    ReadingLimit,
    WaitClass,
    WaitComparison,
    WaitTotals,
    class_of,
    compare,
    difference,
    instruments,
    is_contention,
    parse_reading,
    server_options,
)
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.facts.waits import WaitShare

DICTIONARY, CACHE = "wait/synch/mutex/innodb/dict_sys_mutex", "wait/synch/mutex/sql/LOCK_table_cache"
VERSIONS = [
    ("mysql", (5, 7, 22)),
    ("mysql", (8, 0, 15)),
    ("mysql", (8, 4, 0)),
    ("mysql", (9, 7, 4)),
    ("mariadb", (10, 11, 19)),
    ("mariadb", (11, 8, 9)),
]


def reading(
    at: float = 0, *, active: float = 0, waits: dict[str, tuple[int, float]] | None = None, **status: int
) -> WaitTotals:
    """Return a reading; times in seconds."""
    found = {event: (count, int(seconds * PICOSECONDS)) for event, (count, seconds) in (waits or {}).items()}
    return WaitTotals(int(at * 1e6), True, found, int(active * PICOSECONDS), {"Uptime": int(1000 + at), **status})


def test_shares_are_of_the_time_in_statements() -> None:
    before = reading(active=100, waits={DICTIONARY: (10, 1), CACHE: (5, 2)})
    after = reading(10, active=120, waits={DICTIONARY: (30, 9), CACHE: (15, 3), "wait/io/file/sql/binlog": (1, 0.5)})
    assert difference(before, after) == (
        WaitShare(DICTIONARY, 20, 8.0, 0.4),
        WaitShare(CACHE, 10, 1.0, 0.05),
        WaitShare("wait/io/file/sql/binlog", 1, 0.5, 0.025),
    )
    found = compare(before, after)
    assert (found.elapsed_seconds, found.active_seconds, found.limits) == (10, 20, ())


def test_event_that_did_not_occur_is_left_out() -> None:
    same = {DICTIONARY: (10, 1.0)}
    assert difference(reading(active=1, waits=same), reading(10, active=2, waits=same)) == ()


def test_share_is_never_above_one() -> None:
    after = reading(10, active=1, waits={DICTIONARY: (1, 30)})
    assert difference(reading(), after)[0].share == 1.0


def test_restart_leaves_nothing() -> None:
    before = replace(reading(active=5, waits={DICTIONARY: (9, 9)}), status={"Uptime": 5000})
    after = replace(reading(10, active=1, waits={DICTIONARY: (1, 1)}), status={"Uptime": 3})
    found = compare(before, after)
    assert (found.waits, found.limits, found.active_seconds) == ((), (ReadingLimit.RESTARTED,), None)


def test_restart_with_a_longer_uptime_is_found() -> None:
    """A server that was up for 2 s has restarted and is up for 5 s: the readings are 30 s apart."""
    before, after = (replace(reading(at), status={"Uptime": up}) for at, up in ((0, 2), (30, 5)))
    assert compare(before, after).limits == (ReadingLimit.RESTARTED,)


def test_reset_event_counts_from_zero() -> None:
    before, after = (
        reading(active=10, waits={DICTIONARY: (100, 50)}),
        reading(10, active=20, waits={DICTIONARY: (4, 2)}),
    )
    found = compare(before, after)
    assert found.waits == (WaitShare(DICTIONARY, 4, 2.0, 0.2),)
    assert found.limits == (ReadingLimit.COUNTERS_RESET,)


def test_wrapped_timer_goes_on() -> None:
    before, after = reading(active=10), reading(10, active=20)
    before = replace(before, waits={DICTIONARY: (10, TIMER_WRAP - PICOSECONDS)})
    after = replace(after, waits={DICTIONARY: (12, 3 * PICOSECONDS)})
    assert difference(before, after) == (WaitShare(DICTIONARY, 2, 4.0, 0.4),)


def test_flushed_counters_are_told() -> None:
    found = compare(reading(Questions=500), reading(10, active=1, Questions=20))
    assert found.counters == {"Questions": 20}
    assert found.limits == (ReadingLimit.COUNTERS_RESET,)


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"schema_is_on": False}, ReadingLimit.SCHEMA_OFF),
        ({"consumers_off": ("global_instrumentation",)}, ReadingLimit.CONSUMERS_OFF),
    ],
)
def test_without_waits_counters_are_told(changes: dict[str, object], limit: ReadingLimit) -> None:
    after = replace(reading(10, active=5, waits={DICTIONARY: (1, 1)}, Questions=70), **changes)  # type: ignore[arg-type]
    found = compare(reading(Questions=20), after)
    assert (found.waits, found.limits, found.active_seconds, found.counters) == ((), (limit,), None, {"Questions": 50})


def test_instruments_that_are_off_are_named() -> None:
    after = replace(reading(10, active=5), instruments_off=(DICTIONARY,))
    found = compare(reading(), after)
    assert (found.limits, found.instruments_off) == ((ReadingLimit.INSTRUMENTS_OFF,), (DICTIONARY,))


def test_idle_server_is_told() -> None:
    found = compare(reading(active=5), reading(10, active=5))
    assert (found.limits, found.active_seconds) == ((ReadingLimit.IDLE,), 0)


def test_clock_that_was_set_back_leaves_no_rates() -> None:
    found = compare(replace(reading(50), status={"Uptime": 10}), replace(reading(20), status={"Uptime": 20}))
    assert found.elapsed_seconds is None


def test_row_lock_time_is_a_wait() -> None:
    after = reading(10, active=10, Innodb_row_lock_time=4000, Innodb_row_lock_waits=8)
    before = reading(Innodb_row_lock_time=0, Innodb_row_lock_waits=0)
    assert difference(before, after) == (WaitShare("Innodb_row_lock_time", 8, 4.0, 0.4),)


@pytest.mark.parametrize("header", ["kind\tname\tcount\tvalue\n", ""])
def test_batch_output_is_read(header: str) -> None:
    lines = [
        "clock\tnow\t0\t1795709797902869",
        "setup\tperformance_schema\t0\t1",
        "status\tUPTIME\t0\t196",
        "status\tINNODB_ROW_LOCK_TIME\t0\t7",
        "setting\tTABLE_OPEN_CACHE\t0\t400",
        "consumer\tglobal_instrumentation\t0\t1",
        "consumer\tthread_instrumentation\t0\t0",
        f"instrument\t{DICTIONARY}\t0\t0",
        f"instrument\t{CACHE}\t0\t1",
        "active\tended\t14\t5354645000",
        "active\trunning\t0\tNULL",
        f"wait\t{CACHE}\t6\t18446744073709551000",
    ]
    found = parse_reading(header + "\n".join(lines) + "\n")
    assert found == WaitTotals(
        1795709797902869,
        True,
        {CACHE: (6, 18446744073709551000)},
        5354645000,
        {"Uptime": 196, "Innodb_row_lock_time": 7},
        {"table_open_cache": 400},
        ("thread_instrumentation",),
        (DICTIONARY,),
    )


@pytest.mark.parametrize("text", ["", "ERROR 1142 (42000)", "clock\tnow\t0\tsoon\n", "clock\tnow\t0\t1\n", "a\tb\n"])
def test_incomplete_output_is_refused(text: str) -> None:
    with pytest.raises(RemoteFailure) as caught:
        parse_reading(text)
    assert caught.value.code == "waits.unreadable"


def test_reading_and_comparison_survive_their_records() -> None:
    before, after = reading(waits={DICTIONARY: (1, 1)}), reading(10, active=10, waits={DICTIONARY: (3, 4)}, Questions=9)
    kept = from_record(WaitTotals, to_record(before))
    found = compare(kept, after)
    assert found == compare(before, after)
    assert from_record(WaitComparison, to_record(found)) == found


@pytest.mark.parametrize(("flavor", "version"), VERSIONS)
def test_every_instrument_has_a_class_and_an_option(flavor: str, version: tuple[int, int, int]) -> None:
    names = instruments(flavor, version)
    assert len(set(names)) == len(names)
    assert {class_of(name) for name in names} >= {
        WaitClass.DATA_DICTIONARY,
        WaitClass.TABLE_CACHE,
        WaitClass.TABLESPACES,
        WaitClass.ROW_LOCKS,
        WaitClass.BUFFER_POOL,
        WaitClass.METADATA_LOCKS,
    }
    assert WaitClass.OTHER not in {class_of(name) for name in names}
    options = server_options(flavor, version)
    assert options[0] == "performance-schema=ON"
    assert all(f"performance-schema-instrument='{name}=ON'" in options for name in names)


def test_lock_that_was_free_is_no_contention() -> None:
    assert not is_contention(WaitShare(CACHE, 10_000_000, 0.8, 0.4))
    assert is_contention(WaitShare(CACHE, 100_000, 0.8, 0.4))


def named(found: WaitComparison) -> list[tuple[WaitClass, float | None]]:
    return [(one.kind, one.share) for one in contentions(found)]


def test_classes_are_named_by_their_sum() -> None:
    waits = (
        WaitShare(DICTIONARY, 100, 0.3, 0.03),
        WaitShare("wait/synch/mutex/innodb/parser_mutex", 100, 0.4, 0.04),
        WaitShare(CACHE, 100, 0.4, 0.04),
        WaitShare("wait/synch/mutex/innodb/trx_mutex", 10**9, 5, 0.5),
    )
    assert named(WaitComparison(waits, elapsed_seconds=10, active_seconds=10)) == [
        (WaitClass.DATA_DICTIONARY, pytest.approx(0.07))
    ]


def test_counters_name_the_caches_without_waits() -> None:
    counters = {"Table_open_cache_misses": 5000, "Table_open_cache_hits": 5000, "Opened_table_definitions": 3000}
    found = contentions(WaitComparison(elapsed_seconds=10, counters=counters))
    assert {one.kind: one.evidence for one in found} == {
        WaitClass.TABLE_CACHE: {"misses_per_second": 500, "miss_share": 0.5},
        WaitClass.DATA_DICTIONARY: {"opened_definitions_per_second": 300},
    }


@pytest.mark.parametrize(
    "counters",
    [
        {"Table_open_cache_misses": 50, "Table_open_cache_hits": 0},
        {"Table_open_cache_misses": 5000, "Table_open_cache_hits": 10**6, "Opened_table_definitions": 20},
        {"Innodb_row_lock_time": 100},
        {},
    ],
)
def test_few_misses_are_not_named(counters: dict[str, int]) -> None:
    assert contentions(WaitComparison(elapsed_seconds=10, counters=counters)) == ()
