"""Server options that a person may set for a load test: those of performance, by their whole names, up to a bound.

Names are listed because a server takes each unique beginning of a name for the name: ``plugin_load_a`` is ``plugin_load_add``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dbops.engine.flavors import Flavor
from dbops.engine.phrases import phrase

Options = tuple[tuple[str, str], ...]
KIB, MIB, GIB = 1024, 1024**2, 1024**3

#: Options with a number, and the most that they may have. Sizes in bytes.
_NUMBERS: Mapping[str, int] = {
    # caches
    "table_open_cache": 1_000_000,
    "table_open_cache_instances": 64,
    "table_definition_cache": 1_000_000,
    "innodb_open_files": 1_000_000,
    "open_files_limit": 4_000_000,
    "thread_cache_size": 16_384,
    "innodb_buffer_pool_instances": 64,
    "innodb_old_blocks_pct": 95,
    "innodb_old_blocks_time": 2**32 - 1,
    "key_buffer_size": GIB,
    "query_cache_size": GIB,
    "aria_pagecache_buffer_size": GIB,
    # redo, flush and io
    "innodb_flush_log_at_trx_commit": 3,
    "innodb_flush_log_at_timeout": 2700,
    "innodb_log_buffer_size": GIB,
    "innodb_log_file_size": 64 * GIB,
    "innodb_log_files_in_group": 16,
    "innodb_redo_log_capacity": 128 * GIB,
    "innodb_log_write_ahead_size": 16 * KIB,
    "innodb_io_capacity": 1_000_000,
    "innodb_io_capacity_max": 2_000_000,
    "innodb_flush_neighbors": 2,
    "innodb_flushing_avg_loops": 1000,
    "innodb_lru_scan_depth": 65_536,
    "innodb_max_dirty_pages_pct": 99,
    "innodb_max_dirty_pages_pct_lwm": 99,
    "innodb_adaptive_flushing_lwm": 70,
    "innodb_page_cleaners": 64,
    "innodb_read_io_threads": 64,
    "innodb_write_io_threads": 64,
    "innodb_doublewrite_files": 256,
    "innodb_doublewrite_pages": 512,
    "innodb_doublewrite_batch_size": 256,
    "innodb_read_ahead_threshold": 64,
    "sync_binlog": 1_000_000,
    "binlog_cache_size": 64 * MIB,
    "binlog_group_commit_sync_delay": 1_000_000,
    "binlog_group_commit_sync_no_delay_count": 100_000,
    "binlog_commit_wait_count": 100_000,
    "binlog_commit_wait_usec": 1_000_000,
    # purge, latches and threads
    "innodb_purge_threads": 32,
    "innodb_purge_batch_size": 5000,
    "innodb_max_purge_lag": 2**32 - 1,
    "innodb_max_purge_lag_delay": 10_000_000,
    "innodb_sync_array_size": 1024,
    "innodb_sync_spin_loops": 2**32 - 1,
    "innodb_spin_wait_delay": 6000,
    "innodb_spin_wait_pause_multiplier": 100,
    "innodb_thread_concurrency": 1000,
    "innodb_concurrency_tickets": 2**32 - 1,
    "innodb_commit_concurrency": 1000,
    "innodb_adaptive_hash_index_parts": 512,
    "innodb_change_buffer_max_size": 50,
    "innodb_lock_wait_timeout": 3600,
    "innodb_autoinc_lock_mode": 2,
    "metadata_locks_hash_instances": 1024,
    "back_log": 65_535,
    "max_connections": 10_000,
    "thread_pool_size": 128,
    "thread_pool_max_threads": 65_536,
    "thread_pool_stall_limit": 10_000,
    "thread_pool_oversubscribe": 1000,
    # statistics
    "innodb_stats_persistent_sample_pages": 100_000,
    "innodb_stats_transient_sample_pages": 100_000,
    "max_digest_length": 16 * KIB,
    # for each connection
    "sort_buffer_size": 256 * MIB,
    "join_buffer_size": 256 * MIB,
    "read_buffer_size": 256 * MIB,
    "read_rnd_buffer_size": 256 * MIB,
    "tmp_table_size": GIB,
    "max_heap_table_size": GIB,
    "bulk_insert_buffer_size": 256 * MIB,
    "max_allowed_packet": GIB,
    "net_buffer_length": MIB,
    "thread_stack": 16 * MIB,
    "eq_range_index_dive_limit": 2**32 - 1,
    "optimizer_search_depth": 62,
}
#: Options with one of these words.
_SWITCH = "ON|OFF|0|1|TRUE|FALSE"
_WORDS: Mapping[str, str] = {
    "innodb_doublewrite": f"{_SWITCH}|FAST|DETECT_AND_RECOVER|DETECT_ONLY",
    "innodb_flush_method": "FSYNC|O_DSYNC|O_DIRECT|O_DIRECT_NO_FSYNC|LITTLESYNC|NOSYNC",
    "innodb_change_buffering": "NONE|INSERTS|DELETES|CHANGES|PURGES|ALL",
    "innodb_checksum_algorithm": "CRC32|STRICT_CRC32|FULL_CRC32|STRICT_FULL_CRC32|INNODB|STRICT_INNODB|NONE|STRICT_NONE",
    "innodb_default_row_format": "REDUNDANT|COMPACT|DYNAMIC",
    "transaction_isolation": "READ-UNCOMMITTED|READ-COMMITTED|REPEATABLE-READ|SERIALIZABLE",
    "binlog_format": "ROW|STATEMENT|MIXED",
    "binlog_row_image": "FULL|MINIMAL|NOBLOB",
    "thread_handling": "ONE-THREAD-PER-CONNECTION|POOL-OF-THREADS",
    "query_cache_type": "ON|OFF|DEMAND|0|1|2",
    "internal_tmp_mem_storage_engine": "MEMORY|TEMPTABLE",
    "binlog_transaction_dependency_tracking": "COMMIT_ORDER|WRITESET|WRITESET_SESSION",
    "skip_log_bin": "1",
    **dict.fromkeys(
        (
            *("innodb_adaptive_flushing", "innodb_flush_sync", "innodb_use_atomic_writes", "innodb_use_native_aio"),
            *("innodb_log_writer_threads", "innodb_log_compressed_pages", "innodb_log_checksums"),
            *("innodb_data_file_buffering", "innodb_data_file_write_through", "innodb_log_file_buffering"),
            *(
                "innodb_log_file_mmap",
                "innodb_random_read_ahead",
                "innodb_adaptive_hash_index",
                "innodb_file_per_table",
            ),
            *("innodb_stats_persistent", "innodb_stats_auto_recalc", "innodb_stats_on_metadata", "innodb_strict_mode"),
            *(
                "innodb_deadlock_detect",
                "innodb_snapshot_isolation",
                "innodb_numa_interleave",
                "innodb_undo_log_truncate",
            ),
            *("binlog_order_commits", "performance_schema", "userstat"),
        ),
        _SWITCH,
    ),
}
NUMBERS = MappingProxyType(_NUMBERS)
WORDS = MappingProxyType(_WORDS)
TABLE_CACHES = ("table_open_cache", "table_definition_cache")
_GLOBAL = ("key_buffer_size", "query_cache_size", "aria_pagecache_buffer_size", "innodb_log_buffer_size")
_OF_CONNECTION = (
    *("sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size", "tmp_table_size"),
    *("bulk_insert_buffer_size", "binlog_cache_size", "thread_stack"),
)
#: A server rounds its pool up to whole chunks in each instance. MySQL's default.
POOL_CHUNK_BYTES = 128 * MIB
_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)", re.IGNORECASE)


def number_of(value: str) -> int | None:
    """Return the number of an option's value such as ``512M``; ``None`` if it is none."""
    found = _SIZE.fullmatch(value)
    return int(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ") if found else None


def why_not_set(name: str, value: str) -> str:
    """Say why a person may not set this option of a scratch server; empty if they may."""
    if most := NUMBERS.get(name):
        number = number_of(value)
        return (
            ""
            if number is not None and number <= most
            else phrase("{name} must be a number up to {most}, not {value}", name=name, most=most, value=f"{value!r}")
        )
    if words := WORDS.get(name):
        return (
            ""
            if re.fullmatch(words, value, re.IGNORECASE)
            else phrase(
                "{name} must be {replace}, not {value}", name=name, replace=words.replace("|", ", "), value=f"{value!r}"
            )
        )
    return phrase("{name} is not an option of performance that a load test sets", name=f"{name!r}")


def most_of(sets: Iterable[Options], amount: Callable[[dict[str, int]], int]) -> int:
    """Return the largest amount that one of several sets of options needs. ``amount`` is given the numbers of a set by name."""
    return max(
        amount({name: number for name, value in one if (number := number_of(value)) is not None}) for one in sets
    )


def memory_bytes(options: Mapping[str, int], *, pool_bytes: int, connections: int) -> int:
    """Return the memory that these options need beside the buffer pool and the caches of tables, with all connections at work."""
    rounded_up = min(pool_bytes, options.get("innodb_buffer_pool_instances", 0) * POOL_CHUNK_BYTES)
    of_connection = sum(options.get(name, 0) for name in _OF_CONNECTION)
    return rounded_up + sum(options.get(name, 0) for name in _GLOBAL) + connections * of_connection


def redo_bytes(options: Mapping[str, int], flavor: Flavor) -> int:
    """Return the redo log that these options make, 0 without one."""
    has_one_file = flavor.name == "mariadb" and flavor.version >= (10, 5, 0)
    files = 1 if has_one_file else options.get("innodb_log_files_in_group", 2)
    return max(options.get("innodb_redo_log_capacity", 0), options.get("innodb_log_file_size", 0) * files)
