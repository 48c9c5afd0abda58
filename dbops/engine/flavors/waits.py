"""Statement, instruments and server options of a reading of wait events, by product and version.

Names were read from ``setup_instruments`` of MySQL 5.7.22, 8.0.15, 9.7.4 and MariaDB 10.11.19, 11.8.9. The waits are those of sessions: in
the summaries by user, background threads have no user. Left out: ``wait/io/table/...`` (a whole call into the storage engine, with all
other waits in it), ``idle``, and conditions, on which threads sleep that have nothing to do.

A lock of a mutex without contention is counted too (50 to 100 ns each, https://bugs.mysql.com/70252).
"""

from typing import Final

from dbops.engine.flavors.base import Version

#: More events than any server has: 320 to 380 wait instruments.
MOST_EVENTS: Final = 1000
#: Counters over a reading, and with them the ends of both.
COUNTERS: Final = (
    *("Questions", "Table_open_cache_hits", "Table_open_cache_misses", "Table_open_cache_overflows"),
    *("Opened_tables", "Opened_table_definitions", "Opened_files"),
    *("Innodb_row_lock_time", "Innodb_row_lock_waits"),
    *("Innodb_buffer_pool_read_requests", "Innodb_buffer_pool_reads", "Innodb_buffer_pool_wait_free"),
    *("Innodb_log_waits", "Innodb_os_log_written", "Innodb_os_log_fsyncs", "Innodb_data_fsyncs"),
)
#: Present values, not counters.
GAUGES: Final = (
    *("Uptime", "Open_tables", "Open_table_definitions", "Threads_running", "Threads_connected"),
    *("Innodb_num_open_files", "Innodb_history_list_length"),
)
STATUS: Final = (*COUNTERS, *GAUGES)
#: Settings that advice is about, as they were at the second reading.
SETTINGS: Final = (
    *(
        "table_open_cache",
        "table_open_cache_instances",
        "table_definition_cache",
        "innodb_open_files",
        "open_files_limit",
    ),
    *("max_connections", "innodb_sync_array_size", "innodb_purge_threads", "innodb_buffer_pool_size"),
    *("innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"),
)
#: Without the index on names, which finds no ``sxlock`` on MySQL 8.0.15 (measured).
_NAME: Final = "CONCAT(NAME, '')"
CONSUMERS: Final = ("global_instrumentation", "thread_instrumentation")

_MUTEX, _RWLOCK, _SXLOCK = "wait/synch/mutex/innodb/", "wait/synch/rwlock/innodb/", "wait/synch/sxlock/innodb/"
_SQL: Final = "wait/synch/mutex/sql/"
_BOTH: Final = (
    *(
        "wait/lock/table/sql/handler",
        "wait/lock/metadata/sql/mdl",
        f"{_SQL}LOCK_table_cache",
        "wait/io/file/sql/binlog",
    ),
    "wait/io/file/innodb/innodb_data_file",
    *(f"{_MUTEX}fil_system_mutex", f"{_MUTEX}flush_list_mutex", f"{_MUTEX}trx_sys_mutex", f"{_MUTEX}lock_wait_mutex"),
    f"{_SXLOCK}index_tree_rw_lock",
)
_MYSQL: Final = (
    "wait/io/file/innodb/innodb_log_file",
    *(f"{_SQL}LOCK_open", f"{_MUTEX}dict_sys_mutex", f"{_MUTEX}sync_array_mutex"),
    *(f"{_SXLOCK}dict_operation_lock", f"{_SXLOCK}hash_table_locks", f"{_SXLOCK}trx_purge_latch"),
    *(f"{_SXLOCK}btr_search_latch", f"{_SXLOCK}fil_space_latch"),
)
_MYSQL_5_7: Final = (
    *(f"{_MUTEX}buf_pool_mutex", f"{_MUTEX}lock_mutex", f"{_MUTEX}log_sys_mutex", f"{_MUTEX}log_sys_write_mutex"),
    *(f"{_MUTEX}redo_rseg_mutex", "wait/io/file/sql/FRM"),
)
_MYSQL_8: Final = (
    *(f"{_MUTEX}dict_table_mutex", f"{_MUTEX}parser_mutex", f"{_MUTEX}log_writer_mutex", f"{_MUTEX}log_flusher_mutex"),
    *(f"{_MUTEX}buf_pool_LRU_list_mutex", f"{_MUTEX}buf_pool_free_list_mutex", f"{_MUTEX}undo_space_rseg_mutex"),
    f"{_SXLOCK}log_sn_lock",
)
#: The latches of the lock system were split in 8.0.21.
_MYSQL_8_0_21: Final = (
    *(f"{_MUTEX}lock_sys_page_mutex", f"{_MUTEX}lock_sys_table_mutex", f"{_SXLOCK}lock_sys_global_rw_lock"),
)
_MARIADB: Final = (
    *(f"{_SQL}TABLE_SHARE::tdc.LOCK_table_share", f"{_SQL}TABLE_SHARE::LOCK_share", f"{_SQL}LOCK_unused_shares"),
    *(f"{_RWLOCK}dict_operation_lock", f"{_RWLOCK}lock_latch", f"{_RWLOCK}trx_rseg_latch"),
    *(f"{_RWLOCK}trx_purge_latch", f"{_RWLOCK}btr_search_latch", f"{_RWLOCK}fil_space_latch"),
    *(f"{_MUTEX}buf_pool_mutex", "wait/io/file/sql/FRM"),
)


#: MariaDB has it as a status variable. It needs PROCESS.
_HISTORY: Final = (
    "SELECT 'status', 'Innodb_history_list_length', 0, COUNT FROM information_schema.INNODB_METRICS"
    " WHERE NAME = 'trx_rseg_history_len'"
)
_ENDED: Final = (
    "SELECT 'active', 'ended', SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT)"
    " FROM performance_schema.events_statements_summary_by_user_by_event_name WHERE USER IS NOT NULL AND COUNT_STAR > 0"
    " AND EVENT_NAME NOT LIKE 'statement/sp/%' AND EVENT_NAME NOT LIKE 'statement/com/Binlog Dump%'"
)
_RUNNING: Final = (
    "SELECT 'active', 'running', COUNT(*), SUM(s.TIMER_WAIT) FROM performance_schema.events_statements_current AS s"
    " JOIN performance_schema.threads AS t ON t.THREAD_ID = s.THREAD_ID WHERE s.END_EVENT_ID IS NULL"
    " AND s.NESTING_EVENT_LEVEL = 0 AND t.PROCESSLIST_USER IS NOT NULL AND t.PROCESSLIST_ID <> CONNECTION_ID()"
    " AND s.EVENT_NAME NOT LIKE 'statement/com/Binlog Dump%'"
)
_WAITS: Final = (
    "(SELECT 'wait', EVENT_NAME, SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT)"  # noqa: S608 - constants
    " FROM performance_schema.events_waits_summary_by_user_by_event_name WHERE USER IS NOT NULL AND COUNT_STAR > 0"
    " AND EVENT_NAME LIKE 'wait/%' AND EVENT_NAME NOT LIKE 'wait/io/table/%' AND EVENT_NAME NOT LIKE 'wait/synch/cond/%'"
    f" GROUP BY EVENT_NAME LIMIT {MOST_EVENTS})"
)


def instruments(flavor: str, version: Version) -> tuple[str, ...]:
    """Return the instruments that tell the waits that dbops names, by ``mysql`` or ``mariadb`` and version."""
    if flavor == "mariadb":
        return (*_BOTH, *_MARIADB)
    if version < (8, 0, 0):
        return (*_BOTH, *_MYSQL, *_MYSQL_5_7)
    latches = _MYSQL_8_0_21 if version >= (8, 0, 21) else (f"{_MUTEX}lock_mutex",)
    return (*_BOTH, *_MYSQL, *_MYSQL_8, *latches)


def server_options(flavor: str, version: Version) -> list[str]:
    """Return the lines of an option file, without dashes, that let a scratch server tell its waits.

    They can only be set at start: ``performance_schema`` is OFF by default on MariaDB, and an instrument of a mutex that is switched on
    later misses the mutexes that exist already.
    """
    consumers = (*CONSUMERS, "events_statements_current")
    return [
        "performance-schema=ON",
        *(f"performance-schema-consumer-{name.replace('_', '-')}=ON" for name in consumers),
        *(f"performance-schema-instrument='{name}=ON'" for name in instruments(flavor, version)),
    ]


def switch_on_statement(flavor: str, version: Version) -> str:
    """Return the statement with which an operator switches the instruments on until the next start. dbops never runs it."""
    return (
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"  # noqa: S608 - constants
        f" WHERE {_NAME} IN ({_list(instruments(flavor, version))})"
    )


def wait_statement(flavor: str, version: Version) -> str:
    """Return the statement that reads everything at once: rows of ``kind``, ``name``, ``count`` and ``value``.

    ``wait``: acquisitions and picoseconds of a wait event; ``active``: statements and picoseconds in them, of those that ended and of
    those that run; ``status``: a status variable; ``setting``: a variable; ``clock``: microseconds since 1970;
    ``setup``, ``consumer``, ``instrument``: whether it
    is on. Statements of replica connections (``Binlog Dump``) last for days and are left out.
    """
    place = "information_schema.GLOBAL_" if flavor == "mariadb" else "performance_schema.global_"
    status, variables = (
        f"{place}{name}" for name in (("STATUS", "VARIABLES") if flavor == "mariadb" else ("status", "variables"))
    )
    parts = (
        "SELECT 'clock' AS kind, 'now' AS name, 0 AS count, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS value",
        "SELECT 'setup', 'performance_schema', 0, @@GLOBAL.performance_schema",
        f"SELECT 'status', VARIABLE_NAME, 0, VARIABLE_VALUE FROM {status} WHERE VARIABLE_NAME IN ({_list(STATUS)})",  # noqa: S608 - constants
        f"SELECT 'setting', VARIABLE_NAME, 0, VARIABLE_VALUE FROM {variables} WHERE VARIABLE_NAME IN ({_list(SETTINGS)})",  # noqa: S608
        *([] if flavor == "mariadb" else [_HISTORY]),
        "SELECT 'consumer', NAME, 0, ENABLED = 'YES' FROM performance_schema.setup_consumers"  # noqa: S608 - constants
        f" WHERE NAME IN ({_list(CONSUMERS)})",
        "SELECT 'instrument', NAME, 0, ENABLED = 'YES' AND TIMED = 'YES' FROM performance_schema.setup_instruments"  # noqa: S608
        f" WHERE {_NAME} IN ({_list(instruments(flavor, version))})",
        _ENDED,
        _RUNNING,
        _WAITS,
    )
    return " UNION ALL ".join(parts)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)
