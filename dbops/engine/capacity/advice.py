"""Advice for one instance, from its readings, waits, limits and tests, each with evidence, the change, and how to undo it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from math import ceil

from dbops.engine.capacity.advice_inputs import (
    Advice,
    AdviceEvidence,
    AdviceInputs,
    AdviceKind,
    EvidenceSource,
    MeasuredChange,
)
from dbops.engine.capacity.cluster import HOUR_SECONDS
from dbops.engine.capacity.contention import MISSES_PER_SECOND, Contention
from dbops.engine.capacity.limits import LimitKind, LimitState
from dbops.engine.capacity.waits import WaitClass
from dbops.engine.flavors.setting_changes import SettingChange, change_of, redo_setting, together

#: Room above what is needed now.
MARGIN = 1.25
#: Largest values that all versions accept.
MOST_CACHED = 524_288
#: Memory of one more cached table of six columns and two indexes, measured: 27 KiB on MariaDB 10.11, 31 on 11.8, 21 on MySQL 5.7, 43 on
#: 8.0, 30 on 9.7.
TABLE_BYTES = 48 * 1024
#: Undo logs that purge has not removed yet: below, long transactions are ordinary.
LONG_HISTORY = 1_000_000
MOST_PURGE_THREADS = 32
#: Arrays in which threads wait for InnoDB's locks; one is the default, and MySQL's manual names 16 for many waiting threads.
SYNC_ARRAYS = 16
#: Reads of the buffer pool that go to disk, and the share of the time in statements, from which it is too small.
POOL_MISS_SHARE, DISK_WAIT_SHARE = 0.01, 0.20
GIB = 1024**3


def advise(given: AdviceInputs) -> tuple[Advice, ...]:
    """Return the advice for an instance. What an A/B test has shown to do nothing, or harm, is not given."""
    found = (one for rule in _RULES for one in rule(given))
    return tuple(
        _measured(replace(one, flavor=given.flavor), given.tested)
        for one in found
        if not _is_refuted(one.kind, given.tested)
    )


def _is_refuted(kind: AdviceKind, tested: Iterable[MeasuredChange]) -> bool:
    """Whether the newest test of a change says so."""
    newest = max((one for one in tested if one.kind is kind), key=lambda one: one.test, default=None)
    return newest is not None and (newest.shows_nothing or newest.shows_loss)


def _measured(advice: Advice, tested: Iterable[MeasuredChange]) -> Advice:
    gains = [one for one in tested if one.kind is advice.kind and one.low > 1]
    newest = max(gains, key=lambda one: one.test, default=None)
    if newest is None:
        return advice
    return replace(advice, effect=newest)


def _table_caches(given: AdviceInputs) -> Iterator[Advice]:
    """Raise all limits of open tables together: the next one would bind at once."""
    named = given.contention(WaitClass.TABLE_CACHE, WaitClass.DATA_DICTIONARY, WaitClass.TABLESPACES)
    misses = given.values.get("cache_misses_per_second", 0.0)
    tables = given.values.get("tables")
    if tables is None or not (named or misses >= MISSES_PER_SECOND):
        return
    files = tables + given.values.get("partitions", 0.0)
    changes = together(_cache_changes(given, tables, files))
    if not changes:
        return
    new = {change.name: int(change.new) for change in changes}
    evidence = [
        *_from_contentions(given, named),
        *_from_reading(given, "cache_misses_per_second", "tables", "partitions", "open_tables", "open_definitions"),
        *_from_reading(given, "table_open_cache_instances"),
    ]
    yield Advice(
        AdviceKind.TABLE_CACHES,
        given.instance,
        tuple(evidence),
        changes,
        memory_bytes=_memory_of(given, new),
        binds_next=_binds_next(given, new, tables, files),
        by=_dates(given, LimitKind.TABLE_CACHE, LimitKind.DEFINITIONS, LimitKind.OPEN_FILES),
    )


def _cache_changes(given: AdviceInputs, tables: float, files: float) -> Iterator[SettingChange]:
    """Yield what is too small. MariaDB's cache has the size in each of its instances, MySQL divides it among them."""
    wanted = {
        "table_open_cache": _rounded(files * MARGIN),
        "table_definition_cache": _rounded(tables * MARGIN),
        "innodb_open_files": _rounded(files * MARGIN),
    }
    caches = max(wanted["table_open_cache"], given.setting("table_open_cache") or 0)
    files_needed = max(wanted["innodb_open_files"], given.setting("innodb_open_files") or 0)
    parts = given.setting("table_open_cache_instances") or 1 if given.flavor == "mariadb" else 1
    # both servers reserve two files for each cached table, as MyISAM has two, and shrink the caches at start if that is too much
    wanted["open_files_limit"] = files_needed + 2 * caches * parts + (given.setting("max_connections") or 151) + 10
    for name, new in wanted.items():
        old = given.setting(name)
        if old is not None and old < new:
            yield change_of(given.flavor, given.version, name, old=str(old), new=str(new))


def _rounded(value: float) -> int:
    """Return the next hundred, or thousand above ten thousand."""
    step = 1000 if value > 10_000 else 100
    return min(MOST_CACHED, ceil(value / step) * step)


def _memory_of(given: AdviceInputs, new: Mapping[str, int]) -> int | None:
    """Return what the larger caches cost when they are full, and no table is cached twice."""
    more = max(
        (size - (given.setting(name) or 0) for name, size in new.items() if name != "open_files_limit"),
        default=0,
    )
    return more * TABLE_BYTES if more > 0 else None


def _binds_next(given: AdviceInputs, new: Mapping[str, int], tables: float, files: float) -> tuple[str, int] | None:
    limits = {
        name: new.get(name, given.setting(name) or 0)
        for name in ("table_open_cache", "table_definition_cache", "innodb_open_files")
    }
    # a definition is of a table with all its partitions
    by_files = {
        name: limit * files / tables if name == "table_definition_cache" and tables else limit
        for name, limit in limits.items()
        if limit
    }
    name = min(by_files, key=lambda one: by_files[one], default=None)
    return None if name is None else (name, int(by_files[name]))


def _sync_array(given: AdviceInputs) -> Iterator[Advice]:
    """Divide the array in which threads wait. MariaDB has none."""
    old = given.setting("innodb_sync_array_size")
    named = given.contention(WaitClass.INDEX_PAGES, WaitClass.BUFFER_POOL, WaitClass.DATA_DICTIONARY)
    waits = [one for one in named if any("sync_array" in event or "sxlock" in event for event, _ in one.events)]
    if given.flavor == "mysql" and old == 1 and waits:
        change = change_of(given.flavor, given.version, "innodb_sync_array_size", old="1", new=str(SYNC_ARRAYS))
        yield Advice(AdviceKind.SYNC_ARRAY, given.instance, tuple(_from_contentions(given, waits)), (change,))


def _purge(given: AdviceInputs) -> Iterator[Advice]:
    history, threads = given.gauges.get("Innodb_history_list_length", 0), given.setting("innodb_purge_threads")
    if history < LONG_HISTORY or threads is None or threads >= MOST_PURGE_THREADS:
        return
    new = min(MOST_PURGE_THREADS, 2 * threads)
    change = change_of(given.flavor, given.version, "innodb_purge_threads", old=str(threads), new=str(new))
    evidence = AdviceEvidence(EvidenceSource.WAITS, "Innodb_history_list_length", history, given.waits_at)
    yield Advice(AdviceKind.PURGE, given.instance, (evidence,), (change,))


def _redo(given: AdviceInputs) -> Iterator[Advice]:
    """Give the redo log room for an hour of writes."""
    limit, waits = given.limit(LimitKind.REDO), given.counters.get("Innodb_log_waits", 0)
    rate, capacity = given.values.get("redo_bytes_per_second"), given.values.get("redo_capacity_bytes")
    if rate is None or not capacity or limit is None or limit.state not in (LimitState.REACHED, LimitState.AHEAD):
        return
    wanted = ceil(max(rate * HOUR_SECONDS, limit.current) * MARGIN / GIB) * GIB
    if wanted <= capacity:
        return
    name = redo_setting(given.flavor, given.version)
    files = given.setting("innodb_log_files_in_group") or (2 if given.flavor == "mysql" else 1)
    parts = files if name == "innodb_log_file_size" else 1
    change = change_of(
        given.flavor, given.version, name, old=str(int(capacity) // parts), new=str(ceil(wanted / parts))
    )
    evidence = [AdviceEvidence(EvidenceSource.FORECAST, "redo_bytes_per_hour", limit.current)]
    evidence += [AdviceEvidence(EvidenceSource.WAITS, "Innodb_log_waits", waits, given.waits_at)] if waits else []
    evidence += _from_reading(given, "redo_capacity_bytes")
    yield Advice(AdviceKind.REDO_CAPACITY, given.instance, tuple(evidence), (change,), by=(limit.first, limit.last))


def _buffer_pool(given: AdviceInputs) -> Iterator[Advice]:
    """Double the buffer pool if statements wait for pages from disk."""
    reads = given.counters.get("Innodb_buffer_pool_reads", 0)
    requests = given.counters.get("Innodb_buffer_pool_read_requests", 0)
    named = [one for one in given.contention(WaitClass.DATA_FILES) if (one.share or 0.0) >= DISK_WAIT_SHARE]
    old = given.setting("innodb_buffer_pool_size")
    if not named or not old or reads < POOL_MISS_SHARE * requests:
        return
    change = change_of(given.flavor, given.version, "innodb_buffer_pool_size", old=str(old), new=str(2 * old))
    miss_share = AdviceEvidence(
        EvidenceSource.WAITS, "buffer_pool_miss_share", reads / max(1, requests), given.waits_at
    )
    yield Advice(
        AdviceKind.BUFFER_POOL,
        given.instance,
        (*_from_contentions(given, named), miss_share),
        (change,),
        memory_bytes=old,
    )


def _doublewrite(given: AdviceInputs) -> Iterator[Advice]:
    if not given.is_doublewrite_safe:
        return
    change = change_of(given.flavor, given.version, "innodb_doublewrite", old=given.doublewrite, new="OFF")
    evidence = AdviceEvidence(EvidenceSource.STORAGE, "doublewrite_needless", 1)
    yield Advice(AdviceKind.DOUBLEWRITE, given.instance, (evidence,), (change,))


def _fewer_schemas(given: AdviceInputs) -> Iterator[Advice]:
    """Move schemas before the threshold, or the knee of a load test, is reached."""
    limit, schemas = given.limit(LimitKind.SCHEMAS), given.values.get("schemas")
    if given.knee and schemas is not None:
        within_budget, test = given.knee
        if schemas >= within_budget and limit is None:
            knee = AdviceEvidence(EvidenceSource.LOAD_TEST, "knee_schemas", within_budget, test=test)
            evidence = (knee, *_from_reading(given, "schemas"))
            yield Advice(AdviceKind.FEWER_SCHEMAS, given.instance, evidence, move=int(schemas - within_budget) + 1)
    if limit is None or limit.state not in (LimitState.REACHED, LimitState.AHEAD):
        return
    evidence = (
        AdviceEvidence(EvidenceSource.FORECAST, "schemas", limit.current),
        AdviceEvidence(EvidenceSource.FORECAST, "schemas_threshold", limit.value),
        *(
            [AdviceEvidence(EvidenceSource.LOAD_TEST, "knee_schemas", given.knee[0], test=given.knee[1])]
            if given.knee
            else []
        ),
    )
    yearly = max(0.0, limit.trend.rate_per_day or 0.0) * 365
    move = ceil(limit.current + yearly - limit.value)
    yield Advice(
        AdviceKind.FEWER_SCHEMAS,
        given.instance,
        evidence,
        by=(limit.first, limit.last),
        move=move if move > 0 else None,
    )


def _from_contentions(given: AdviceInputs, named: Iterable[Contention]) -> Iterator[AdviceEvidence]:
    for one in named:
        for event, share in one.events:
            yield AdviceEvidence(EvidenceSource.WAITS, event, share, given.waits_at)
        for name, value in one.evidence.items():
            yield AdviceEvidence(EvidenceSource.WAITS, name, value, given.waits_at)


def _from_reading(given: AdviceInputs, *names: str) -> Iterator[AdviceEvidence]:
    for name in names:
        if value := given.values.get(name):
            yield AdviceEvidence(EvidenceSource.READING, name, value, given.read_at)


def _dates(given: AdviceInputs, *kinds: LimitKind) -> tuple[datetime | None, datetime | None]:
    """Return the dates of the first of these limits that has one."""
    limits = [limit for limit in given.limits if limit.kind in kinds and limit.first]
    first = min(limits, key=lambda limit: limit.first.timestamp() if limit.first else 0.0, default=None)
    return (first.first, first.last) if first else (None, None)


_RULES: tuple[Callable[[AdviceInputs], Iterator[Advice]], ...] = (
    *(_fewer_schemas, _table_caches, _redo, _buffer_pool, _sync_array, _purge, _doublewrite),
)
