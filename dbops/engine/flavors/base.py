"""What differs between MySQL 5.7, 8.0, 8.4, 9.x and MariaDB, as one interface.

A flavor is pure: words, names and parsers. Where a rule comes from is said at each implementation.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.facts import ReplicationFacts

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """All that a backup command line depends on. Paths are on the source."""

    defaults_file: str
    credentials_file: str
    socket: str
    datadir: str
    target_dir: str
    lsn_dir: str
    parallel: int
    slave_info: bool = True
    open_files_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A position to replicate from: a GTID position, or a binary log file with its offset, or both."""

    log_file: str = ""
    log_pos: int | None = None
    gtid: str = ""


@dataclass(frozen=True, slots=True)
class ReplicationSource:
    """Where a replica is to read from. ``gtid`` says that the position is kept by GTID."""

    host: str
    port: int
    user: str
    password: str
    gtid: bool = True
    start: Coordinates | None = None
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """``*_checkpoints``: the state of a backup directory and its log sequence numbers."""

    backup_type: str
    to_lsn: int
    last_lsn: int


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """``*_info``: the fields that prove which run this is and who made it."""

    uuid: str
    tool_version: str
    server_version: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """What one line of a tool's log means.

    ``kind`` is one of ``milestone``, ``file`` (``path`` begins to be copied), ``redo`` (``lsn`` reached), ``recovery``
    (prepare: ``done`` of ``total`` by LSN, or ``percent``), ``error``, ``completed``, ``other``.
    """

    kind: str
    text: str
    path: str = ""
    lsn: int | None = None
    done: int | None = None
    total: int | None = None
    percent: float | None = None


class Flavor(ABC):
    """One family of servers with its backup tool, for one server version."""

    name: str
    version: Version

    #: names of programs to look for on hosts, best first
    server_programs: tuple[str, ...]
    backup_programs: tuple[str, ...]
    unpack_programs: tuple[str, ...]
    client_programs: tuple[str, ...]

    def __init__(self, version: Version) -> None:
        self.version = version

    # --- programs -------------------------------------------------------------------------------------------------
    @abstractmethod
    def parse_tool_version(self, output: str) -> str | None:
        """Return the version in ``--version`` output of the backup tool (stdout and stderr merged), or ``None``."""

    @abstractmethod
    def tool_problem(self, tool_version: str | None) -> str:
        """Return why a backup tool of this version must not be used with this server, ``""`` if it may."""

    @abstractmethod
    def clone_problem(self, target_version: Version) -> str:
        """Return why data of this server must not be started by a server of ``target_version``, ``""`` if it may."""

    @abstractmethod
    def backup_command(self, program: str, request: BackupRequest) -> list[str]: ...

    @abstractmethod
    def unpack_command(self, program: str, directory: str, *, parallel: int) -> list[str]: ...

    @abstractmethod
    def prepare_command(self, program: str, directory: str, *, memory_bytes: int) -> list[str]: ...

    @abstractmethod
    def statements_of_backup(self, *, replica: bool) -> list[str]:
        """Return harmless statements whose success shows that the backup account may do what the tool does at its end."""

    # --- files and logs -------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def metadata_files(self) -> Mapping[str, tuple[str, ...]]:
        """Keys ``info``, ``binlog``, ``slave``, ``checkpoints``, ``last`` (the last file of a stream) to possible names, best first."""

    @property
    @abstractmethod
    def prepared_type(self) -> str:
        """``backup_type`` in the checkpoints file once a full backup is prepared."""

    @abstractmethod
    def parse_backup_line(self, line: str) -> LogLine: ...

    @abstractmethod
    def parse_prepare_line(self, line: str) -> LogLine: ...

    @abstractmethod
    def parse_binlog_info(self, text: str) -> Coordinates: ...

    @abstractmethod
    def parse_slave_info(self, text: str) -> Coordinates: ...

    def parse_checkpoints(self, text: str) -> Checkpoints:
        pairs = parse_pairs(text)
        return Checkpoints(pairs["backup_type"], int(pairs["to_lsn"]), int(pairs["last_lsn"]))

    def parse_info(self, text: str) -> BackupInfo:
        pairs = parse_pairs(text)
        return BackupInfo(pairs.get("uuid", ""), pairs.get("tool_version", ""), pairs.get("server_version", ""))

    # --- SQL ------------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def show_replication(self) -> str:
        """The statement whose rows ``parse_replication`` reads (all channels)."""

    @abstractmethod
    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationFacts: ...

    @property
    @abstractmethod
    def show_replicas(self) -> str:
        """The statement that lists attached replicas (``SHOW REPLICAS`` or its older words)."""

    @property
    @abstractmethod
    def show_binlog_position(self) -> str: ...

    @abstractmethod
    def stop_replication(self) -> list[str]: ...

    @abstractmethod
    def start_replication(self) -> list[str]: ...

    @abstractmethod
    def pause_applier(self) -> str: ...

    @abstractmethod
    def resume_applier(self) -> str: ...

    @abstractmethod
    def forget_replication(self) -> list[str]:
        """Statements that remove replication settings inherited with the copied data. Replication must be stopped."""

    @abstractmethod
    def set_position(self, start: Coordinates, executed: str) -> list[str]:
        """Statements that make a fresh copy know what it holds; empty where ``executed`` (the server's own) already says so."""

    @abstractmethod
    def replicate_from(self, source: ReplicationSource) -> tuple[str, Sequence[Any]]:
        """Return a statement with ``%s`` placeholders and its parameters (the password is one)."""

    @abstractmethod
    def read_variables(self) -> tuple[str, ...]:
        """Names of the global variables that a probe reads."""

    # --- GTID -----------------------------------------------------------------------------------------------------
    @abstractmethod
    def gtid_missing(self, wanted: str, present: str) -> str:
        """Return what ``wanted`` holds that ``present`` does not; ``""`` when all is there. Errant transactions of a
        replica are ``gtid_missing(replica, primary)``; a replica has caught up with a point when
        ``gtid_missing(point, replica)`` is empty."""


def parse_pairs(text: str) -> dict[str, str]:
    """Return ``key = value`` lines as a dictionary; lines without ``=`` continue nothing and are passed over."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            pairs.setdefault(key.strip(), value.strip())
    return pairs
