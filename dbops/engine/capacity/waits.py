"""What sessions waited for between two readings, as share of the time in statements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.waits import WaitShare
from dbops.engine.flavors.waits import (
    CONSUMERS,
    COUNTERS,
    GAUGES,
    instruments,
    server_options,
    switch_on_statement,
    wait_statement,
)
from dbops.engine.phrases import phrase

__all__ = [
    "WaitComparison",
    "ReadingLimit",
    "WaitTotals",
    "WaitClass",
    "class_of",
    "compare",
    "difference",
    "instruments",
    "is_contention",
    "parse_reading",
    "reading_of",
    "server_options",
    "switch_on_statement",
    "wait_statement",
]

PICOSECONDS = 10**12
#: ``SUM_TIMER_WAIT`` is an unsigned number of 64 bits: 213 days of waiting.
TIMER_WRAP = 2**64
#: Below this average a lock was free: taking it costs 50 to 100 ns, and each is counted.
CONTENTION_SECONDS = 1e-6
#: Waits for row locks, which ``performance_schema`` does not have: a status variable in milliseconds.
ROW_LOCK_TIME, ROW_LOCK_WAITS = "Innodb_row_lock_time", "Innodb_row_lock_waits"
_CANONICAL = {name.lower(): name for name in (*COUNTERS, *GAUGES)}


class WaitClass(StrEnum):
    """What a wait event is about."""

    DATA_DICTIONARY = "data-dictionary"
    TABLE_CACHE = "table-cache"
    TABLESPACES = "tablespaces"
    METADATA_LOCKS = "metadata-locks"
    TABLE_LOCKS = "table-locks"
    ROW_LOCKS = "row-locks"
    REDO = "redo"
    BINARY_LOG = "binary-log"
    BUFFER_POOL = "buffer-pool"
    INDEX_PAGES = "index-pages"
    TRANSACTIONS = "transactions"
    DATA_FILES = "data-files"
    OTHER_FILES = "other-files"
    NETWORK = "network"
    OTHER = "other"


#: Ends of event names. ``parser_mutex`` guards InnoDB's internal SQL, which opening a table runs to read its statistics; it is not the
#: parser of statements (MySQL's source, que0que.cc).
_BY_NAME: Mapping[WaitClass, tuple[str, ...]] = {
    WaitClass.DATA_DICTIONARY: (
        *("dict_sys_mutex", "dict_table_mutex", "dict_operation_lock", "parser_mutex", "dict_table_stats"),
        *("dict_table_stats_compute_mutex", "dict_persist_dirty_tables_mutex"),
    ),
    WaitClass.TABLE_CACHE: (
        *("LOCK_table_cache", "LOCK_open", "THR_LOCK_open", "LOCK_unused_shares", "tdc.LOCK_table_share", "FRM"),
        *("TABLE_SHARE::LOCK_share", "LOCK_table_share"),
    ),
    WaitClass.TABLESPACES: ("fil_system_mutex", "fil_space_latch"),
    WaitClass.METADATA_LOCKS: ("metadata/sql/mdl", "MDL_lock::rwlock", "MDL_wait::LOCK_wait_status"),
    WaitClass.TABLE_LOCKS: ("lock/table/sql/handler",),
    WaitClass.ROW_LOCKS: (
        *(ROW_LOCK_TIME, "lock_mutex", "lock_latch", "lock_wait_mutex", "lock_sys_page_mutex", "lock_sys_table_mutex"),
        "lock_sys_global_rw_lock",
    ),
    WaitClass.REDO: (
        *("innodb_log_file", "log_sys_mutex", "log_sys_write_mutex", "log_writer_mutex", "log_flusher_mutex"),
        *("log_sn_lock", "log_sn_mutex", "log_flush_order_mutex", "log_write_notifier_mutex"),
    ),
    WaitClass.BINARY_LOG: ("sql/binlog", "sql/binlog_index", "BIN_LOG::LOCK_log", "LOG::LOCK_log", "LOCK_commit"),
    WaitClass.BUFFER_POOL: (
        *("buf_pool_mutex", "buf_pool_LRU_list_mutex", "buf_pool_free_list_mutex", "flush_list_mutex"),
        *("hash_table_locks", "hash_table_mutex", "buf_dblwr_mutex"),
    ),
    WaitClass.INDEX_PAGES: ("index_tree_rw_lock", "btr_search_latch", "sync_array_mutex"),
    WaitClass.TRANSACTIONS: (
        *("trx_sys_mutex", "trx_mutex", "trx_rseg_latch", "trx_purge_latch", "redo_rseg_mutex"),
        *("undo_space_rseg_mutex", "trx_sys_serialisation_mutex", "trx_sys_shard_mutex", "trx_undo_mutex"),
    ),
    WaitClass.DATA_FILES: ("innodb_data_file", "innodb_temp_file"),
}
_BY_START: Mapping[str, WaitClass] = {
    "wait/io/file/": WaitClass.OTHER_FILES,
    "wait/io/socket/": WaitClass.NETWORK,
}


class ReadingLimit(StrEnum):
    """Why a reading tells less than it could."""

    #: ``performance_schema`` is OFF: there are only status counters.
    SCHEMA_OFF = "schema-off"
    #: A consumer is off: nothing is counted by session.
    CONSUMERS_OFF = "consumers-off"
    #: Instruments of locks are off, so their waits are unknown.
    INSTRUMENTS_OFF = "instruments-off"
    #: The server has restarted between the readings, or the counters were set back.
    RESTARTED = "restarted"
    COUNTERS_RESET = "counters-reset"
    #: No statement ran between the readings.
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class WaitTotals:
    """Totals since the server's start. Times of ``waits`` and ``active`` are in picoseconds.

    Args:
        at_microseconds: the server's clock, since 1970.
        waits: acquisitions and time of each event.
        active: time in statements of sessions.
        settings: see ``flavors.waits``.
        status: counters and present values, see ``flavors.waits``.
        instruments_off: those of ``flavors.waits.instruments`` that are off or untimed.
    """

    at_microseconds: int
    schema_is_on: bool
    waits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    active: int = 0
    status: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)
    consumers_off: tuple[str, ...] = ()
    instruments_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitComparison:
    """What happened between two readings.

    Args:
        waits: largest first; empty with ``SCHEMA_OFF``, ``CONSUMERS_OFF`` and ``RESTARTED``.
        elapsed_seconds: by the server's clock; ``None`` if it was set back.
        active_seconds: of all sessions together; ``None`` if unknown.
        counters: increases of status counters. values, settings: those at the second reading.
        limits: what is missing, and why.
    """

    waits: tuple[WaitShare, ...] = ()
    elapsed_seconds: float | None = None
    active_seconds: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[ReadingLimit, ...] = ()
    instruments_off: tuple[str, ...] = ()


def class_of(event: str) -> WaitClass:
    """Return what an event is about."""
    for found, ends in _BY_NAME.items():
        if any(event == end or event.endswith((f"/{end}", f"::{end}")) for end in ends):
            return found
    return next((found for start, found in _BY_START.items() if event.startswith(start)), WaitClass.OTHER)


def is_contention(wait: WaitShare) -> bool:
    """Return whether threads waited for each other: a lock that was taken at once is counted too, in less than 1 µs."""
    return wait.count > 0 and wait.seconds / wait.count >= CONTENTION_SECONDS


def parse_reading(text: str) -> WaitTotals:
    """Return the reading in the batch output of a client: ``wait_statement``'s rows, separated by tabs, with or without a header.

    Raises:
        RemoteFailure: ``waits.unreadable``.
    """
    rows = [tuple(line.split("\t")) for line in text.splitlines() if line]
    return reading_of(row for row in rows if row[0] != "kind")


def reading_of(rows: Iterable[tuple[object, ...]]) -> WaitTotals:
    """Return the reading in rows of kind, name, count and value. Raises as ``parse_reading``."""
    try:
        return _reading([(str(kind), str(name), _whole(count), _whole(value)) for kind, name, count, value in rows])
    except (KeyError, ValueError) as error:
        raise RemoteFailure(
            "waits.unreadable",
            phrase("Reading wait events"),
            cause=phrase(
                "the server’s answer is not complete ({name}: {error})",
                name=type(error).__name__,
                error=str(error)[:100],
            ),
        ) from None


def _whole(value: object) -> int:
    """Return a whole number. ``SUM`` of no rows is NULL, which is 0; a sum is a decimal without decimals."""
    text = str(value)
    return 0 if text in ("None", "NULL") else int(float(text)) if not text.isdigit() else int(text)


def _reading(rows: list[tuple[str, str, int, int]]) -> WaitTotals:
    kinds: dict[str, dict[str, tuple[int, int]]] = {}
    for kind, name, count, value in rows:
        kinds.setdefault(kind, {})[name] = (count, value)
    status = {_CANONICAL.get(name.lower(), name): value for name, (_, value) in kinds.get("status", {}).items()}
    consumers = {name: value for name, (_, value) in kinds.get("consumer", {}).items()}
    found = {name: value for name, (_, value) in kinds.get("instrument", {}).items()}
    return WaitTotals(
        at_microseconds=kinds["clock"]["now"][1],
        schema_is_on=bool(kinds["setup"]["performance_schema"][1]),
        waits=kinds.get("wait", {}),
        active=sum(value for _, value in kinds.get("active", {}).values()),
        status=status,
        settings={name.lower(): value for name, (_, value) in kinds.get("setting", {}).items()},
        consumers_off=tuple(name for name in CONSUMERS if not consumers.get(name)),
        instruments_off=tuple(name for name, value in sorted(found.items()) if not value),
    )


def difference(before: WaitTotals, after: WaitTotals) -> tuple[WaitShare, ...]:
    """Return what sessions waited for, largest first; see ``compare``."""
    return compare(before, after).waits


def compare(before: WaitTotals, after: WaitTotals) -> WaitComparison:
    """Return what happened between two readings of one server.

    Shares are of the time in statements; they do not add up to 1: the rest is work, and waits that have no instrument. After a restart
    nothing is known. An event whose counter was set back counts from zero: at least that much was waited.
    """
    elapsed = (after.at_microseconds - before.at_microseconds) / 1e6
    known = WaitComparison(
        elapsed_seconds=elapsed if elapsed > 0 else None,
        values=_only(after.status, GAUGES),
        settings=after.settings,
    )
    if _has_restarted(before, after, elapsed):
        return replace(known, limits=(ReadingLimit.RESTARTED,))
    counters, counters_reset = _increases(_only(before.status, COUNTERS), _only(after.status, COUNTERS))
    known = replace(known, counters=counters)
    if not after.schema_is_on:
        return replace(known, limits=(ReadingLimit.SCHEMA_OFF,))
    if after.consumers_off:
        return replace(known, limits=(ReadingLimit.CONSUMERS_OFF,))
    active = (after.active - before.active) / PICOSECONDS
    waits, waits_reset = _waits(before, after, counters, active)
    limits = {
        ReadingLimit.COUNTERS_RESET: counters_reset or waits_reset or active < 0,
        ReadingLimit.INSTRUMENTS_OFF: bool(after.instruments_off),
        ReadingLimit.IDLE: active == 0,
    }
    return replace(
        known,
        waits=waits,
        active_seconds=active if active >= 0 else None,
        limits=tuple(limit for limit, applies in limits.items() if applies),
        instruments_off=after.instruments_off,
    )


def _has_restarted(before: WaitTotals, after: WaitTotals, elapsed_seconds: float) -> bool:
    up_before, up = before.status.get("Uptime", 0), after.status.get("Uptime", 0)
    return up < up_before or up + 2 < elapsed_seconds


def _waits(
    before: WaitTotals, after: WaitTotals, counters: Mapping[str, int], active_seconds: float
) -> tuple[tuple[WaitShare, ...], bool]:
    """Return the shares, and whether a counter was set back."""
    found, was_reset = [], False
    for event, (count, timer) in after.waits.items():
        count_before, timer_before = before.waits.get(event, (0, 0))
        if count < count_before:
            count_before, timer_before, was_reset = 0, 0, True
        spent = timer - timer_before
        spent += TIMER_WRAP if spent < 0 else 0
        found.append(_share(event, count - count_before, spent / PICOSECONDS, active_seconds))
    if waited := counters.get(ROW_LOCK_TIME):
        found.append(_share(ROW_LOCK_TIME, counters.get(ROW_LOCK_WAITS, 0), waited / 1000, active_seconds))
    found = [one for one in found if one.count]
    return tuple(sorted(found, key=lambda one: (-one.seconds, -one.count, one.event))), was_reset


def _share(event: str, count: int, seconds: float, active_seconds: float) -> WaitShare:
    """Return the share. A wait that ends may have begun before the reading, so it is limited to 1."""
    share = min(1.0, seconds / active_seconds) if active_seconds > 0 else 0.0
    return WaitShare(event, count, seconds, share)


def _only(status: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: status[name] for name in names if name in status}


def _increases(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[dict[str, int], bool]:
    """Return how much each counter rose, and whether one was set back (``FLUSH STATUS``): that one counts from zero."""
    was_reset = any(after.get(name, 0) < value for name, value in before.items())
    return {
        name: value - (before.get(name, 0) if value >= before.get(name, 0) else 0) for name, value in after.items()
    }, was_reset
