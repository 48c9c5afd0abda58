"""What a server holds and uses at a moment, read once an hour to see how it grows."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its partitions: the bytes of its data and indexes."""

    schema: str
    table: str
    bytes: int


@dataclass(frozen=True, slots=True)
class AutoIncrement:
    """An auto-increment column: its next value, and the largest value of its type."""

    schema: str
    table: str
    column: str
    value: int
    largest: int

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}.{self.column}"


@dataclass(frozen=True, slots=True)
class GrowthReading:
    """One hourly reading. ``None``: the server does not tell it, or not to this account, or not in time.

    ``tables`` are base tables of users; ``partitions`` those of partitioned tables, which are InnoDB files of their own.
    ``data_bytes`` and ``index_bytes`` come from InnoDB's statistics. ``largest`` and
    ``auto_increment`` have at most ten entries. ``questions``, ``writes``, ``redo_bytes`` and ``cache_misses`` count from the
    server's start, ``uptime_seconds`` ago. ``connections_peak`` is the most since then.
    """

    read_at: datetime
    schemas: int | None = None
    tables: int | None = None
    partitions: int | None = None
    data_bytes: int | None = None
    index_bytes: int | None = None
    largest: tuple[TableSize, ...] | None = None
    auto_increment: tuple[AutoIncrement, ...] | None = None
    open_tables: int | None = None
    open_definitions: int | None = None
    open_files: int | None = None
    table_open_cache: int | None = None
    table_open_cache_instances: int | None = None
    table_definition_cache: int | None = None
    innodb_open_files: int | None = None
    open_files_limit: int | None = None
    connections: int | None = None
    connections_peak: int | None = None
    max_connections: int | None = None
    binlog_bytes: int | None = None
    uptime_seconds: int | None = None
    questions: int | None = None
    writes: int | None = None
    redo_bytes: int | None = None
    cache_misses: int | None = None
