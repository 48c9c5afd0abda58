"""Facts of an instance and its host as frozen values, and their conversion to JSON and back.

Unknown values are ``None``: a missing number is never a zero.
"""

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from dbops.engine.facts.backups import BackupConnection, BackupProcess, FoundSchedule
from dbops.engine.facts.growth import GrowthReading
from dbops.engine.facts.server_kind import MemberGroup, ServerKind
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.facts.stored_data import StoredData, StoredFiles
from dbops.engine.facts.tidb import TidbFacts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProbeProblem:
    """Reason why something could not be read. ``code`` is an entry of the error catalogue."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A program on a host: its path and its printed version (``10.11.19``), if any.

    ``identity`` is the file's ``device:inode:size:changed`` when its version was read: while it is unchanged, so is the version.
    ``said`` is the last line that it printed instead of a version, ``""`` if it printed one or was not asked.
    """

    path: str
    version: str | None = None
    identity: str = ""
    said: str = ""

    @property
    def silence(self) -> str:
        """Return why the version is unknown."""
        return f"{self.path} --version: {self.said or 'no output'}"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine, read over SSH.

    ``local_address`` is the host's end of the SSH connection, certainly one of its addresses. ``open_files_limit`` is the hard
    limit of the SSH session (``ulimit -Hn``).
    """

    hostname: str
    machine_id: str
    local_address: str
    cpu_count: int
    memory_available_bytes: int
    has_aes: bool
    ssh_ciphers: tuple[str, ...]
    open_files_limit: int
    clock_offset_seconds: float
    tools: dict[str, Tool] = field(default_factory=dict)
    has_systemd: bool = False


@dataclass(frozen=True, slots=True)
class DatadirFacts:
    """The data directory as the file system shows it.

    ``identity`` is ``device:inode`` of the directory, ``""`` where it is missing; ``server_pids`` are the processes whose working
    directory it is (a server changes into its data directory); ``data_bytes`` is the size of a backup (table spaces, undo, Aria
    and MyISAM files), without redo, binary and relay logs; ``total_bytes`` is the size of all. Both need a walk through the whole
    tree, so they are read less often than the rest, at ``measured_at``. ``files`` identifies the file that a server creates only
    once (its system table space, else the directory ``mysql``), by inode and time of birth: other files are other data.
    ``made_at`` is that time, if the file system has it. ``disk_bytes`` is the size of the file system, ``kept_bytes`` that of earlier
    data directories that dbops moved aside. ``exchangeable`` is a directory above, in which an account other than
    root and the owner can exchange names; empty if there is none. ``stored`` is ``None`` if it was never read.
    """

    path: str
    exists: bool
    is_empty: bool
    is_mount_point: bool
    identity: str
    owner: str
    filesystem: str
    free_bytes: int
    data_bytes: int | None
    total_bytes: int | None
    server_pids: tuple[int, ...] = ()
    measured_at: datetime | None = None
    files: str = ""
    made_at: datetime | None = None
    exchangeable: str = ""
    storage: StorageFacts | None = None
    stored: StoredFiles | None = None
    disk_bytes: int | None = None
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """Settings in the server's option files (``my_print_defaults``), read also while the server is down."""

    server_id: int | None
    port: int | None
    socket: str | None
    datadir: str | None
    read_only: bool
    skip_replica_start: bool
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicationFacts:
    """One replication connection of this instance, in the terms of the newest servers.

    ``source_server_id`` and ``source_uuid`` are the source's own identity when the connection was made. ``source_user`` is the
    account. ``options`` and ``filters`` are its settings (``flavors.connection_options``), empty in an older record.
    """

    channel: str
    source_host: str
    source_port: int
    io_running: str
    sql_running: str
    lag_seconds: float | None
    uses_gtid: bool
    gtid_position: str
    relay_source_log_file: str
    exec_source_log_pos: int
    last_io_error: str = ""
    last_sql_error: str = ""
    open_temp_tables: int = 0
    source_server_id: int | None = None
    source_uuid: str = ""
    source_user: str = ""
    options: dict[str, str] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """Filters and options that keep data away from this replica."""
        domains = {name: value for name, value in self.options.items() if name.endswith("_DOMAIN_IDS") and value}
        return {**self.filters, **domains}

    @property
    def is_running(self) -> bool:
        return self.io_running == "Yes" and self.sql_running == "Yes"


@dataclass(frozen=True, slots=True)
class RunTimeSetting:
    """A global variable that a statement set on the running server.

    ``ordinary`` is the default of the server's version, ``None`` if the server does not tell it. ``persisted`` is the value that MySQL has
    stored for the next start, ``None`` without one.
    """

    name: str
    value: str
    ordinary: str | None = None
    persisted: str | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """A replica that reads binary logs from this instance now."""

    server_id: int
    host: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """A connection that is not of dbops, a replica or the server itself."""

    user: str
    host: str
    database: str
    command: str


@dataclass(frozen=True, slots=True)
class CloneFacts:
    """Facts of MySQL 8.0 and newer that matter for a clone.

    ``plugin`` is the state of the clone plugin (``ACTIVE``), ``""`` where it is not loaded; ``platform`` the operating system and
    machine that the server was compiled for; ``tls``: it has a certificate of its own; ``blocks_ddl``: ``clone_block_ddl`` is ON.
    """

    plugin: str
    super_read_only: bool
    max_allowed_packet: int
    platform: str
    charset: str
    collation: str
    tls: bool
    blocks_ddl: bool


@dataclass(frozen=True, slots=True)
class PageWrites:
    """How InnoDB writes pages, as the server reports it; ``""`` where it has no such variable.

    ``flush_method`` is ``innodb_flush_method``; ``buffering`` is ``innodb_data_file_buffering`` of MariaDB 11.0 and newer, which
    decides there; ``use_atomic`` is MariaDB's ``innodb_use_atomic_writes``. ``pages`` and ``doublewritten`` count pages since the start
    of the server; ``None``: not reported.
    """

    flush_method: str = ""
    buffering: str = ""
    use_atomic: str = ""
    pages: int | None = None
    doublewritten: int | None = None

    @property
    def is_direct(self) -> bool | None:
        """Whether data files bypass the page cache of the kernel (``O_DIRECT``); ``None`` if unknown."""
        if self.buffering:
            return self.buffering.upper() in ("OFF", "0")
        return "O_DIRECT" in self.flush_method.upper() if self.flush_method else None


#: Facts of a server's data, which are read rarely: together, at ``InstanceFacts.stored_at``.
STORED = ("stored", "innodb_bytes", "foreign_engines", "gtid_purged")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server process, read over SQL.

    ``flavor`` is ``mariadb`` or ``mysql``; ``version`` three numbers; ``server_uuid`` is ``""`` on MariaDB. ``gtid_executed`` is
    MySQL's set, or MariaDB's ``gtid_current_pos``; ``gtid_binlog`` MariaDB's ``gtid_binlog_pos``. ``binlog_expire_seconds`` 0
    means no expiry. ``redo_lsn`` is the current log sequence number; two probes give ``redo_bytes_per_second``.
    ``external_paths`` are directories or files outside the data directory. ``gtid_purged`` is the history that the binary logs no
    longer contain: MySQL's set, or MariaDB's position at the beginning of its oldest log; ``None`` if not read. ``doublewrite``
    is ``innodb_doublewrite`` as reported, ``""`` in an older record. ``page_writes`` is ``None`` in one. ``backup_connections`` are
    those with statements of a backup tool; ``None``: not read (an older record). ``clone`` is ``None`` if the server cannot clone:
    MariaDB, and MySQL before 8.0.18. ``stored`` and ``kind`` are ``None`` in an older record. ``set_at_run_time`` is ``None`` if the
    server does not tell it.
    ``missing_privileges`` are those that the dashboard's account lacks for a rebuild, ``None`` if they were not read.
    ``tidb`` is set for a TiDB node alone: its ``flavor`` is ``tidb``, and it tells little of the rest.
    """

    flavor: str
    version: str
    version_comment: str
    server_id: int
    server_uuid: str
    hostname: str
    port: int
    socket: str
    datadir: str
    read_only: bool
    log_bin: bool
    log_replica_updates: bool
    gtid_enabled: bool
    gtid_executed: str
    gtid_binlog: str
    binlog_format: str
    binlog_expire_seconds: int
    page_size: int
    lower_case_table_names: int
    redo_capacity_bytes: int
    redo_lsn: int
    uptime_seconds: int
    parallel_workers: int
    innodb_bytes: int | None = None
    redo_bytes_per_second: float | None = None
    external_paths: tuple[str, ...] = ()
    foreign_engines: dict[str, int] = field(default_factory=dict)
    replication: tuple[ReplicationFacts, ...] = ()
    replicas: tuple[Attached, ...] = ()
    clients: tuple[Client, ...] = ()
    backup_connections: tuple[BackupConnection, ...] | None = None
    gtid_purged: str | None = None
    doublewrite: str = ""
    page_writes: PageWrites | None = None
    clone: CloneFacts | None = None
    stored: StoredData | None = None
    set_at_run_time: tuple[RunTimeSetting, ...] | None = None
    kind: ServerKind | None = None
    missing_privileges: tuple[str, ...] | None = None
    tidb: TidbFacts | None = None

    @property
    def group(self) -> MemberGroup | None:
        return self.kind.group if self.kind else None


@dataclass(frozen=True, slots=True)
class StatementCheck:
    """A statement that the backup account needs at the end, tested at the beginning."""

    statement: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """All facts of one probe. A part that could not be read is ``None``, and its problem has the reason.

    ``admin_login`` is the dashboard's login over the local socket, with the client program of the host; ``None`` if it was not tried.
    ``local_privileges`` are that account's on all schemas, ``None`` if they are unknown.
    ``backup_processes`` are the backup tools that run on the host now, whichever instance they read. ``replication_seen`` are the
    connections of the last probe that the server answered, at ``replication_seen_at``; ``None`` if it never did. ``group_seen`` is
    the group of which it was a member then. ``stored_at``: when the facts of the data (``stored``) were last read. ``growth`` is the
    last hourly reading, ``None`` before the first.
    """

    observed_at: datetime
    host: HostFacts | None = None
    datadir: DatadirFacts | None = None
    config: ConfigFacts | None = None
    server: ServerFacts | None = None
    backup_account: tuple[StatementCheck, ...] = ()
    admin_login: StatementCheck | None = None
    local_privileges: tuple[str, ...] | None = None
    backup_processes: tuple[BackupProcess, ...] | None = None
    found_schedules: tuple[FoundSchedule, ...] | None = None
    host_problem: ProbeProblem | None = None
    server_problem: ProbeProblem | None = None
    replication_seen: tuple[ReplicationFacts, ...] | None = None
    replication_seen_at: datetime | None = None
    group_seen: MemberGroup | None = None
    stored_at: datetime | None = None
    growth: GrowthReading | None = None

    @property
    def is_reachable(self) -> bool:
        return self.host is not None and self.server is not None


def to_record(value: Any) -> Any:
    """Return dataclasses as plain JSON-ready data; times as ISO 8601 text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_record(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [to_record(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_record(item) for key, item in value.items()}
    return value


def from_record(kind: type[T], record: Any) -> T:
    """Build a dataclass from a record of ``to_record``.

    Unknown keys are ignored and missing ones get their defaults, so rows of an older version remain readable.

    Raises:
        TypeError: a field without a default is missing.
    """
    return typing.cast(T, _revive(kind, record))


def _revive(kind: Any, record: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if record is None:
        return None
    if origin in (types.UnionType, typing.Union):
        return _revive(next(item for item in arguments if item is not type(None)), record)
    if origin is tuple:
        return tuple(_revive(arguments[0], item) for item in record)
    if origin is list:
        return [_revive(arguments[0], item) for item in record]
    if origin is dict:
        return {key: _revive(arguments[1], item) for key, item in record.items()}
    if kind is datetime:
        return datetime.fromisoformat(record)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(record)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _revive(hint, record[name]) for name, hint in _fields(kind).items() if name in record})
    return record


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields. Cached: resolving them took most of the time of reading a record (measured)."""
    hints = typing.get_type_hints(kind)
    return {item.name: hints[item.name] for item in dataclasses.fields(kind)}
