"""Generate readings of wait events: a table cache that is too small, a server that tells none, and one with row locks."""

from datetime import datetime, timedelta

from dbops.engine.capacity.waits import ReadingLimit, WaitComparison
from dbops.engine.facts.instance import to_record
from dbops.engine.facts.waits import WaitShare
from dbops.models import Instance, WaitReading

_SECONDS = 30
_SETTINGS = {
    "table_open_cache": 8000,
    "table_open_cache_instances": 8,
    "table_definition_cache": 2000,
    "innodb_open_files": 8000,
    "open_files_limit": 1_048_576,
    "max_connections": 500,
    "innodb_purge_threads": 4,
    "innodb_buffer_pool_size": 96 * 1024**3,
    "innodb_log_file_size": 16 * 1024**3,
}
_CACHE = WaitComparison(
    waits=(
        WaitShare("wait/synch/rwlock/innodb/dict_operation_lock", 61_840, 41.9, 0.148),
        WaitShare("wait/io/file/sql/FRM", 184_211, 25.2, 0.089),
        WaitShare("wait/io/file/innodb/innodb_data_file", 9_320, 11.6, 0.041),
        WaitShare("wait/synch/mutex/sql/LOCK_table_cache", 1_204_331, 8.8, 0.031),
        WaitShare("wait/io/file/sql/binlog", 44_102, 6.2, 0.022),
        WaitShare("wait/synch/mutex/sql/LOCK_unused_shares", 402_118, 2.3, 0.008),
        WaitShare("wait/synch/sxlock/innodb/index_tree_rw_lock", 381_502, 0.3, 0.001),
    ),
    elapsed_seconds=30.02,
    active_seconds=283.0,
    counters={
        "Questions": 118_420,
        "Table_open_cache_hits": 402_377,
        "Table_open_cache_misses": 61_840,
        "Opened_table_definitions": 27_544,
        "Innodb_row_lock_time": 410,
        "Innodb_row_lock_waits": 12,
    },
    values={
        "Open_tables": 8000,
        "Open_table_definitions": 2000,
        "Threads_running": 11,
        "Innodb_history_list_length": 4211,
    },
    settings=_SETTINGS,
)
_SCHEMA_OFF = WaitComparison(
    elapsed_seconds=10.01,
    counters={
        "Questions": 8_911,
        "Table_open_cache_hits": 31_004,
        "Table_open_cache_misses": 4_870,
        "Innodb_row_lock_time": 0,
    },
    values={"Open_tables": 8000, "Open_table_definitions": 2000},
    settings=_SETTINGS,
    limits=(ReadingLimit.SCHEMA_OFF,),
)
_ROW_LOCKS = WaitComparison(
    waits=(
        WaitShare("Innodb_row_lock_time", 388, 19.4, 0.131),
        WaitShare("wait/io/file/innodb/innodb_log_file", 20_177, 8.7, 0.059),
        WaitShare("wait/io/file/sql/binlog", 19_644, 5.0, 0.034),
        WaitShare("wait/io/file/innodb/innodb_data_file", 7_118, 3.1, 0.021),
    ),
    elapsed_seconds=30.01,
    active_seconds=148.0,
    counters={
        "Questions": 261_904,
        "Table_open_cache_hits": 240_118,
        "Table_open_cache_misses": 0,
        "Innodb_row_lock_time": 19_400,
        "Innodb_row_lock_waits": 388,
    },
    values={"Open_tables": 412, "Threads_running": 6, "Innodb_history_list_length": 901},
    settings={"table_open_cache": 2000, "innodb_sync_array_size": 1, "innodb_purge_threads": 4},
    limits=(ReadingLimit.INSTRUMENTS_OFF,),
    instruments_off=("wait/synch/mutex/innodb/dict_sys_mutex", "wait/synch/mutex/sql/LOCK_table_cache"),
)
#: Instance, minutes ago, who, seconds, and the result.
_READINGS = (
    ("shop-r1", 26 * 60 + 7, "priya.nair", _SECONDS, _CACHE),
    ("shop-b1", 95, "jonas.meyer", 10, _SCHEMA_OFF),
    ("search-p1", 47, "anna.keller", _SECONDS, _ROW_LOCKS),
    ("shop-r1", 33, "jonas.meyer", _SECONDS, _CACHE),
)


def write_wait_readings(instances: dict[str, Instance], now: datetime) -> None:
    """Store the readings; their requests are no part of the story."""
    for name, minutes, by, seconds, result in _READINGS:
        at = now - timedelta(minutes=minutes)
        WaitReading.objects.create(
            instance=instances[name],
            seconds=seconds,
            requested_by=by,
            requested_at=at,
            claimed_at=at,
            due_at=at + timedelta(seconds=seconds),
            finished_at=at + timedelta(seconds=seconds + 1),
            status=WaitReading.Statuses.SUCCEEDED,
            result=to_record(result),
        )
