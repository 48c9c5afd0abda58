"""The options of a scratch server: those of its source that matter for speed, scaled to a stated buffer pool, and no network."""

import re
from dataclasses import dataclass

from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.flavors import Flavor, waits
from dbops.engine.flavors.optionfile import NOT_PERSISTED
from dbops.engine.flavors.prepare import MIB
from dbops.engine.phrases import phrase

#: No network, accounts, replication, events, or files elsewhere. Without grant tables the server loads no plugins or functions of the
#: restored data. A pool that is loaded after a restart would make rounds unequal.
_ALONE = (
    *(
        "--skip-networking",
        "--skip-grant-tables",
        "--init-file=/dev/null",
        "--loose-event-scheduler=OFF",
        "--loose-mysqlx=OFF",
    ),
    *("--loose-innodb-buffer-pool-load-at-startup=OFF", "--loose-innodb-buffer-pool-dump-at-shutdown=OFF"),
    "--local-infile=OFF",
)
#: Settings that are taken from the source if its option file or a statement sets them. None is a path.
COPIED = (
    *(
        "innodb_flush_log_at_trx_commit",
        "sync_binlog",
        "innodb_flush_method",
        "innodb_data_file_buffering",
        "innodb_use_atomic_writes",
    ),
    *(
        "innodb_doublewrite",
        "innodb_io_capacity",
        "innodb_io_capacity_max",
        "innodb_flush_neighbors",
        "innodb_lru_scan_depth",
    ),
    *(
        "innodb_read_io_threads",
        "innodb_write_io_threads",
        "innodb_purge_threads",
        "innodb_page_cleaners",
        "innodb_sync_array_size",
    ),
    *("innodb_thread_concurrency", "innodb_adaptive_hash_index", "innodb_change_buffering", "innodb_stats_persistent"),
    *("innodb_log_buffer_size", "innodb_autoinc_lock_mode", "innodb_default_row_format", "innodb_spin_wait_delay"),
    *(
        "innodb_buffer_pool_instances",
        "innodb_max_dirty_pages_pct",
        "innodb_adaptive_flushing",
        "innodb_log_write_ahead_size",
    ),
    *(
        "table_open_cache",
        "table_open_cache_instances",
        "table_definition_cache",
        "innodb_open_files",
        "open_files_limit",
    ),
    *(
        "thread_cache_size",
        "transaction_isolation",
        "sql_mode",
        "character_set_server",
        "collation_server",
        "binlog_format",
    ),
    *(
        "query_cache_type",
        "query_cache_size",
        "join_buffer_size",
        "sort_buffer_size",
        "tmp_table_size",
        "max_heap_table_size",
    ),
    *("max_allowed_packet", "explicit_defaults_for_timestamp", "innodb_strict_mode", "innodb_file_per_table"),
)
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;+ -]{1,200}")
_SIZE = re.compile(r"(\d+)([KMGT]?)", re.IGNORECASE)
#: Least redo log: servers refuse or stumble over less.
LEAST_REDO_BYTES = 96 * MIB
#: Connections beside those of the generator.
BESIDE_CONNECTIONS = 20
#: MySQL's one size for all of its redo log files.
_ONE_CAPACITY = (8, 0, 30)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The words of a scratch server, without paths, its caches by name, and why it has them."""

    words: tuple[str, ...]
    caches: tuple[tuple[str, int], ...]
    reasons: tuple[str, ...]

    def cache(self, name: str) -> int:
        return dict(self.caches).get(name, 0)


def server_options(
    flavor: Flavor,
    facts: InstanceFacts | None,
    *,
    pool_bytes: int,
    connections: int,
    extra: tuple[tuple[str, str], ...] = (),
) -> ServerOptions:
    """Return the options of a scratch server.

    Args:
        flavor: of the scratch server.
        facts: of the source; ``None``: the server's own defaults.
        pool_bytes: its buffer pool.
        connections: of the generator.
        extra: options of the person, which win.
    """
    server = facts.server if facts else None
    settings = {**_settings_of(facts), **_caches_of(facts), **dict(extra)}
    redo = _redo_bytes(server, settings_pool(facts), pool_bytes)
    words = [
        *(f"--loose-{name.replace('_', '-')}={value}" for name, value in settings.items() if name not in dict(extra)),
        f"--innodb-buffer-pool-size={pool_bytes}",
        *_redo_words(flavor, redo),
        *_binlog_words(server),
        *_skip_replica(flavor),
        f"--max-connections={connections + BESIDE_CONNECTIONS}",
        *(f"--{line.replace(chr(39), '')}" for line in waits.server_options(flavor.name, flavor.version)),
        *(f"--{name.replace('_', '-')}={value}" for name, value in extra),
        *((f"--lower-case-table-names={server.lower_case_table_names}",) if server else ()),
        *_ALONE,  # last: no option before it opens the server to anybody
    ]
    numbers = tuple(
        (name, int(value)) for name, value in settings.items() if name in _caches_named() and value.isdigit()
    )
    return ServerOptions(tuple(words), numbers, tuple(_reasons(server, settings, redo, pool_bytes)))


def layout_words(server: ServerFacts | None) -> tuple[str, ...]:
    """Return the options of an empty data directory that cannot change later; a restored one has them in its own file."""
    if server is None:
        return ()
    page = (f"--innodb-page-size={server.page_size}",) if server.page_size else ()
    return (*page, f"--lower-case-table-names={server.lower_case_table_names}")


def _settings_of(facts: InstanceFacts | None) -> dict[str, str]:
    """Return the copied settings of the source. What a statement set wins over the option file, what runs over both."""
    if facts is None:
        return {}
    found = {name: value for name, value in (facts.config.options if facts.config else {}).items() if name in COPIED}
    server = facts.server
    if server:
        found |= {one.name: one.value for one in server.set_at_run_time or () if one.name in COPIED}
        if server.doublewrite:
            found["innodb_doublewrite"] = server.doublewrite
        if server.page_writes and server.page_writes.flush_method:
            found["innodb_flush_method"] = server.page_writes.flush_method
    return {name: value for name, value in sorted(found.items()) if _PLAIN.fullmatch(value)}


def _caches_named() -> tuple[str, ...]:
    return (
        "table_open_cache",
        "table_open_cache_instances",
        "table_definition_cache",
        "innodb_open_files",
        "open_files_limit",
    )


def _caches_of(facts: InstanceFacts | None) -> dict[str, str]:
    """Return the caches as they run, which can be smaller than wanted by the option file."""
    growth = facts.growth if facts else None
    if growth is None:
        return {}
    found = {name: getattr(growth, name) for name in _caches_named()}
    return {name: str(value) for name, value in found.items() if value}


def settings_pool(facts: InstanceFacts | None) -> int | None:
    """Return the source's buffer pool in bytes by its settings, ``None`` if they do not set it."""
    if facts is None:
        return None
    options = facts.config.options if facts.config else {}
    run_time = {one.name: one.value for one in (facts.server.set_at_run_time if facts.server else None) or ()}
    text = run_time.get("innodb_buffer_pool_size") or options.get("innodb_buffer_pool_size", "")
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ") if found else None


def _redo_bytes(server: ServerFacts | None, source_pool: int | None, pool_bytes: int) -> int | None:
    """Return the redo capacity: in the source's proportion to its pool, at most the source's."""
    if server is None or not server.redo_capacity_bytes:
        return None
    share = pool_bytes / source_pool if source_pool else 1.0
    return max(
        min(LEAST_REDO_BYTES, server.redo_capacity_bytes),
        int(server.redo_capacity_bytes * min(1.0, share)) // MIB * MIB,
    )


def _redo_words(flavor: Flavor, redo: int | None) -> tuple[str, ...]:
    if redo is None:
        return ()
    if flavor.name == "mysql" and flavor.version >= _ONE_CAPACITY:
        return (f"--innodb-redo-log-capacity={redo}",)
    if flavor.name == "mariadb" and flavor.version >= (10, 5, 0):
        return (f"--innodb-log-file-size={redo}",)
    return (f"--innodb-log-file-size={redo // 2}", "--loose-innodb-log-files-in-group=2")


def _binlog_words(server: ServerFacts | None) -> tuple[str, ...]:
    """Return the words of the binary log: part of the cost of a write where the source has one."""
    if server is None or not server.log_bin:
        return ("--skip-log-bin",)
    return ("--log-bin=dbops-binlog", "--server-id=4294967295")


def _skip_replica(flavor: Flavor) -> tuple[str, ...]:
    return (
        ("--skip-slave-start",)
        if flavor.name == "mariadb"
        else (NOT_PERSISTED, flavor.variable_name("--skip-replica-start"))
    )


def _reasons(server: ServerFacts | None, settings: dict[str, str], redo: int | None, pool_bytes: int) -> list[str]:
    reasons: list[str] = [phrase("Buffer pool of {pool_bytes} MiB, as requested.", pool_bytes=pool_bytes // MIB)]
    if redo is not None and server:
        reasons.append(
            phrase(
                "Redo log of {redo} MiB; the source has {redo_capacity_bytes} MiB (same share of the pool).",
                redo=redo // MIB,
                redo_capacity_bytes=server.redo_capacity_bytes // MIB,
            )
        )
    if settings:
        reasons.append(
            phrase(
                "{number} settings as on the source: {settings}.", number=len(settings), settings=", ".join(settings)
            )
        )
    else:
        reasons.append(phrase("The source’s settings are unknown: the server’s own defaults."))
    if server:
        reasons.append(
            phrase("Binary log on, as on the source.") if server.log_bin else phrase("No binary log, as on the source.")
        )
    return reasons
