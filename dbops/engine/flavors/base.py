"""What differs between MySQL 5.7, 8.0, 8.4, 9.x and MariaDB, as one interface.

A flavor is pure: words, names and parsers. Where a rule comes from is said at each implementation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors.optionfile import credentials_text
from dbops.engine.flavors.prepare import PrepareBehavior
from dbops.engine.flavors.replication import replication_from

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """Inputs of a backup command line. Paths are on the source.

    ``credentials_file`` is what ``Flavor.credentials_file`` renders; it includes ``defaults_file``. ``datadir``
    overrides what the option file says: mariadb-backup only warns when it is another server's, and then copies that
    one (measured with 10.11.19).
    """

    defaults_file: str
    credentials_file: str
    socket: str
    datadir: str
    target_dir: str
    lsn_dir: str
    parallel: int
    slave_info: bool = True
    open_files_limit: int | None = None
    #: threads of the tool's own compression, 0 for none; only if ``compress_problem`` is empty
    compress_threads: int = 0


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A position to replicate from: a GTID position, or a binary log file with its offset, or both."""

    log_file: str = ""
    log_pos: int | None = None
    gtid: str = ""


@dataclass(frozen=True, slots=True)
class ReplicationSource:
    """The source of a replica. ``gtid``: the position is kept by GTID."""

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
    """``*_info``: the fields that prove which run this is and who made it. See ``Flavor.same_run``."""

    uuid: str
    tool_version: str
    server_version: str
    tool_command: str = ""
    start_time: str = ""
    binlog_pos: str = ""
    to_lsn: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """What one line of a tool's log means. ``text`` is the line without thread and time, and without statements of
    users.

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

    #: groups of an option file that the backup tool and the client read, in which credentials stand
    credential_groups: tuple[str, ...]

    def __init__(self, version: Version) -> None:
        self.version = version

    # --- programs -------------------------------------------------------------------------------------------------
    @abstractmethod
    def parse_tool_version(self, output: str) -> str | None:
        """Return the version in ``--version`` output of the backup tool (stdout and stderr merged), or ``None``."""

    @abstractmethod
    def tool_problem(self, tool_version: str | None) -> str:
        """Return why this tool version must not back up this server, ``""`` if it can."""

    @abstractmethod
    def tool_warning(self, tool_version: str | None) -> str:
        """Return known bugs of this tool version that can affect a rebuild, ``""`` if there are none."""

    @abstractmethod
    def clone_problem(self, target_version: Version) -> str:
        """Return why a server of ``target_version`` must not start this server's data, ``""`` if it can."""

    def credentials_file(self, user: str, password: str, *, socket: str = "", include: str = "") -> str:
        """Return the text of an option file for ``--defaults-file`` of the backup tool and the client.

        ``--defaults-file`` reads that file alone, so for a backup the server's own option file comes in by
        ``include``. Measured with 10.11.19: the password is then in neither argv, environment, log nor
        ``xtrabackup_info``. Write it with mode 0600.

        Raises:
            Refused: ``credentials.unwritable``, see ``optionfile.quoted``.
        """
        return credentials_text(self.credential_groups, user, password, socket=socket, include=include)

    @abstractmethod
    def backup_command(self, program: str, request: BackupRequest) -> list[str]:
        """Return the words of a backup that streams to standard output and logs to standard error."""

    @abstractmethod
    def compress_problem(self, tool_version: str | None, unpacker_version: str | None) -> str:
        """Return why the backup tool must not compress its stream itself, as the end of a sentence, ``""`` if it may.

        Args:
            tool_version: of the backup tool on the source, as it was probed.
            unpacker_version: of the unpacking tool on the target, which would expand on the way.
        """

    @abstractmethod
    def unpack_command(self, program: str, directory: str, *, parallel: int, expand: bool = False) -> list[str]:
        """Return the words that unpack standard input into ``directory``, which must be empty.

        ``expand``: the tool has compressed the stream itself (``compress_problem``), so that its files are expanded too.
        """

    @abstractmethod
    def prepare_habits(self, tool_version: str | None) -> PrepareBehavior:
        """Return the tool's habits that determine memory and options of a prepare."""

    def prepare_command(
        self, program: str, directory: str, *, memory_bytes: int, options: Sequence[str] = ()
    ) -> list[str]:
        """Return the words that apply the redo log in ``directory``. ``options`` are what ``engine.tuning.prepare`` chose.

        No option file: with ``--prepare`` both tools read ``backup-my.cnf`` in the directory and no other (measured
        with 10.11.19 and an unknown option in ``~/.my.cnf``; for XtraBackup its manual, xtrabackup-files).
        ``--no-defaults`` would skip that one too.
        """
        return [program, "--prepare", f"--target-dir={directory}", f"--use-memory={memory_bytes}", *options]

    @abstractmethod
    def statements_of_backup(self, *, replica: bool) -> list[str]:
        """Return harmless statements that test the privileges that the tool needs at its end."""

    # --- files and logs -------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def metadata_files(self) -> Mapping[str, tuple[str, ...]]:
        """Keys ``info``, ``binlog``, ``slave``, ``checkpoints``, ``last`` (the last file of a stream) to possible
        names, best first.
        """

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
        """Raises KeyError or ValueError where the text is not a whole checkpoints file."""
        pairs = parse_pairs(text)
        return Checkpoints(pairs["backup_type"], int(pairs["to_lsn"]), int(pairs["last_lsn"]))

    def parse_info(self, text: str) -> BackupInfo:
        pairs = parse_pairs(text)
        names = ("uuid", "tool_version", "server_version", "tool_command", "start_time", "binlog_pos", "innodb_to_lsn")
        return BackupInfo(*(pairs.get(name, "") for name in names))

    @abstractmethod
    def same_run(self, sent: BackupInfo, arrived: BackupInfo) -> bool:
        """Tell whether the ``*_info`` that the source kept and the one that arrived are of one run."""

    def prepare_percent(self, lines: Iterable[str], checkpoints: Checkpoints | None = None) -> float | None:
        """Return how far the redo log is applied, 0 to 100, from the log so far; ``None`` where it does not say.

        The numbers in the lines are absolute, so the LSN where recovery began is needed. mariadb-backup prints it,
        and it may lie far before ``to_lsn`` (measured with 10.11.19: to_lsn is the checkpoint at the end of the
        backup); XtraBackup begins at ``to_lsn``.
        """
        begin, percent = None, None
        for line in map(self.parse_prepare_line, lines):
            if line.kind == "milestone" and line.lsn is not None:
                begin = line.lsn
            if line.kind != "recovery":
                continue
            total = line.total or (checkpoints.last_lsn if checkpoints else None)
            start = begin if begin is not None else checkpoints.to_lsn if checkpoints else None
            if line.percent is not None:
                percent = line.percent
            elif line.done is not None and total and start is not None and total > start:
                percent = max(0.0, min(100.0, 100.0 * (line.done - start) / (total - start)))
        return percent

    # --- SQL ------------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def show_replication(self) -> str:
        """The statement whose rows ``parse_replication`` reads (all channels)."""

    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationFacts:
        """Return one row of ``show_replication``; ``open_temp_tables`` comes from ``server_facts_from``'s status
        instead.
        """
        return replication_from(row)

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
        """Return statements that remove replication settings of the copied data. Replication must be stopped."""

    @abstractmethod
    def set_position(self, start: Coordinates, executed: str) -> list[str]:
        """Statements that make a fresh copy know what it holds; empty where ``executed`` (the server's own) already
        says so.
        """

    @abstractmethod
    def replicate_from(self, source: ReplicationSource) -> tuple[str, Sequence[Any]]:
        """Return a statement with ``%s`` placeholders and its parameters (the password is one).

        Without GTID and without ``start`` the statement names a log file that does not exist: without any file the
        replica would read the source's logs from the first one on, over data that has them already.
        """

    @abstractmethod
    def read_variables(self) -> tuple[str, ...]:
        """Names of the global variables that a probe reads (``SHOW GLOBAL VARIABLES WHERE Variable_name IN (...)``);
        not all exist.
        """

    @abstractmethod
    def read_status(self) -> tuple[str, ...]:
        """Names of the global status variables that a probe reads; not all exist."""

    @abstractmethod
    def server_facts_from(
        self, variables: Mapping[str, str], status: Mapping[str, str], replication: Sequence[ReplicationFacts] = ()
    ) -> dict[str, Any]:
        """Return the scalar fields of ``ServerFacts``, and ``external_paths``, by name; missing variables read as
        empty, off or 0.
        """

    # --- GTID -----------------------------------------------------------------------------------------------------
    @abstractmethod
    def gtid_missing(self, wanted: str, present: str) -> str:
        """Return what ``wanted`` holds that ``present`` does not; ``""`` when all is there. Errant transactions of a
        replica are ``gtid_missing(replica, primary)``; a replica has caught up with a point when
        ``gtid_missing(point, replica)`` is empty.

        Raises:
            RemoteFailure: ``gtid.unreadable``.
        """

    @abstractmethod
    def oldest_gtid(self, first_log: str) -> str:
        """Return the statement whose column ``gtid`` is what the binary logs do not have any more; ``first_log`` is the oldest."""

    @abstractmethod
    def gtid_count_missing(self, wanted: str, present: str) -> int:
        """Return how many transactions ``gtid_missing`` stands for (MariaDB: sequence numbers). Raises as it does."""


#: For an unknown position: no server has a log of this name, so replication stops with error 1236 without harm.
NOWHERE = Coordinates(log_file="position-unknown", log_pos=4)


def parse_pairs(text: str) -> dict[str, str]:
    """Return ``key = value`` lines as a dictionary; lines without ``=`` continue nothing and are passed over."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            pairs.setdefault(key.strip(), value.strip())
    return pairs
