"""Common interface of MySQL 5.7, 8.0, 8.4, 9.x and MariaDB: words, names and parsers, without I/O."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors.connection_options import FILTERS, Option
from dbops.engine.flavors.optionfile import credentials_text
from dbops.engine.flavors.prepare import PrepareBehavior
from dbops.engine.flavors.replication import replication_from

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """Inputs of a backup command line. Paths are on the source.

    ``credentials_file`` has the text that ``Flavor.credentials_file`` returns, and what ``tool_options`` takes from the server's
    option file. ``datadir``: if it belongs to another server, mariadb-backup only warns and then copies that one (measured with
    10.11.19).
    """

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
    """The source of a replica. ``gtid``: replication uses GTID positions. ``options``: see ``flavors.connection_options``."""

    host: str
    port: int
    user: str
    password: str
    gtid: bool = True
    start: Coordinates | None = None
    channel: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """``*_checkpoints``: the state of a backup directory and its log sequence numbers."""

    backup_type: str
    to_lsn: int
    last_lsn: int


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """``*_info``: the fields that identify a run and its tool. See ``Flavor.same_run``."""

    uuid: str
    tool_version: str
    server_version: str
    tool_command: str = ""
    start_time: str = ""
    binlog_pos: str = ""
    to_lsn: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """Meaning of one log line of a tool. ``text`` is the line without thread, time and statements of users.

    ``kind`` is one of ``milestone``, ``file`` (the copy of ``path`` begins), ``redo`` (``lsn`` reached), ``recovery`` (prepare:
    ``done`` of ``total`` by LSN, or ``percent`` of one batch; see ``prepare_progress``), ``error``, ``completed``, ``other``.
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

    #: groups of an option file with credentials that the backup tool and the client read
    credential_groups: tuple[str, ...]

    def __init__(self, version: Version) -> None:
        self.version = version

    # --- programs -------------------------------------------------------------------------------------------------
    @abstractmethod
    def parse_tool_version(self, output: str) -> str | None:
        """Return the version in ``--version`` output of the backup tool (stdout and stderr merged), or ``None``."""

    @abstractmethod
    def tool_problem(self, tool_version: str | None) -> str:
        """Return why this tool version cannot back up this server, or ``""``."""

    @abstractmethod
    def tool_warning(self, tool_version: str | None) -> str:
        """Return known bugs of this tool version that can affect a rebuild, or ``""``."""

    @abstractmethod
    def clone_problem(self, target_version: Version) -> str:
        """Return why a server of ``target_version`` cannot start this server's data, or ``""``."""

    def credentials_file(self, user: str, password: str, *, plugin_dir: str, socket: str = "") -> str:
        """Return the text of an option file for ``--defaults-file`` of the backup tool and the client.

        With ``--defaults-file`` a program reads no other file; a backup's host adds the options of ``tool_options``. Measured
        with 10.11.19: the password does not appear in argv, environment, log or ``xtrabackup_info``. Write the file with mode
        0600.

        Args:
            plugin_dir: the only directory with login plugins for the client.

        Raises:
            Refused: ``credentials.unwritable``, see ``optionfile.quoted``.
        """
        return credentials_text(self.credential_groups, user, password, socket=socket, plugin_dir=plugin_dir)

    @abstractmethod
    def backup_command(self, program: str, request: BackupRequest) -> list[str]:
        """Return the words of a backup that streams to standard output and logs to standard error."""

    @property
    def tool_ignores_unknown_options(self) -> bool:
        """Return whether the backup tool takes an option that it does not know in silence; see ``recognized``."""
        return False

    @abstractmethod
    def compress_problem(self, tool_version: str | None, unpacker_version: str | None) -> str:
        """Return why the backup tool cannot compress its stream, as the end of a sentence, or ``""``.

        Args:
            tool_version: of the backup tool on the source, from the probe.
            unpacker_version: of the unpacking tool on the target, which would decompress.
        """

    @abstractmethod
    def unpack_command(self, program: str, directory: str, *, parallel: int, expand: bool = False) -> list[str]:
        """Return the words that unpack standard input into ``directory``, which must be empty.

        ``expand``: decompress files that the backup tool compressed (``compress_problem``).
        """

    @abstractmethod
    def prepare_habits(self, tool_version: str | None) -> PrepareBehavior:
        """Return the tool's behavior that determines memory and options of a prepare."""

    def prepare_command(
        self, program: str, directory: str, *, memory_bytes: int, options: Sequence[str] = ()
    ) -> list[str]:
        """Return the words that apply the redo log in ``directory``. ``options`` are chosen by ``engine.tuning.prepare``.

        No option file: with ``--prepare`` both tools read only ``backup-my.cnf`` in the directory (measured with 10.11.19 and an
        unknown option in ``~/.my.cnf``; for XtraBackup see its manual, xtrabackup-files). ``--no-defaults`` would skip that file
        too.
        """
        return [program, "--prepare", f"--target-dir={directory}", f"--use-memory={memory_bytes}", *options]

    @abstractmethod
    def statements_of_backup(self, *, replica: bool) -> list[str]:
        """Return harmless statements that test the privileges that the tool needs at its end."""

    # --- files and logs -------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def metadata_files(self) -> Mapping[str, tuple[str, ...]]:
        """Map ``info``, ``binlog``, ``slave``, ``checkpoints`` and ``last`` (the last file of a stream) to possible names, best
        first.
        """

    @property
    @abstractmethod
    def prepared_type(self) -> str:
        """Return ``backup_type`` of the checkpoints file after the prepare of a full backup."""

    @abstractmethod
    def parse_backup_line(self, line: str) -> LogLine: ...

    @abstractmethod
    def parse_prepare_line(self, line: str) -> LogLine: ...

    @abstractmethod
    def parse_binlog_info(self, text: str) -> Coordinates: ...

    def parse_checkpoints(self, text: str) -> Checkpoints:
        """Parse a checkpoints file. Raises ``KeyError`` or ``ValueError`` if it is incomplete."""
        pairs = parse_pairs(text)
        return Checkpoints(pairs["backup_type"], int(pairs["to_lsn"]), int(pairs["last_lsn"]))

    def parse_info(self, text: str) -> BackupInfo:
        pairs = parse_pairs(text)
        names = ("uuid", "tool_version", "server_version", "tool_command", "start_time", "binlog_pos", "innodb_to_lsn")
        return BackupInfo(*(pairs.get(name, "") for name in names))

    @abstractmethod
    def same_run(self, sent: BackupInfo, arrived: BackupInfo) -> bool:
        """Return whether the ``*_info`` kept on the source and the received one are from the same run."""

    # --- SQL ------------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def show_replication(self) -> str:
        """Return the statement for ``parse_replication`` (all channels)."""

    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationFacts:
        """Return the facts of one row of ``show_replication``; ``open_temp_tables`` comes from the status in ``server_facts_from``."""
        return replication_from(row, self.connection_options)

    @property
    @abstractmethod
    def connection_options(self) -> Sequence[Option]:
        """Return the settings of a replication connection that are read and can be written."""

    #: Statement with more settings of each channel, in rows by ``CHANNEL_NAME``; ``""`` if ``show_replication`` has all.
    show_channel_settings: str = ""

    @abstractmethod
    def change_options(self, channel: str, options: Mapping[str, str]) -> str:
        """Return the statement that sets options of a stopped connection and changes nothing else."""

    @property
    def filter_names(self) -> Sequence[str]:
        """Return the filters that a statement can set."""
        return FILTERS

    @abstractmethod
    def set_filters(self, channel: str, filters: Mapping[str, str]) -> list[str]:
        """Return statements that set all ``filter_names`` of a stopped connection."""

    @property
    @abstractmethod
    def show_replicas(self) -> str:
        """Return the statement that lists attached replicas (``SHOW REPLICAS`` or its older form)."""

    @property
    @abstractmethod
    def show_binlog_position(self) -> str: ...

    def variable_name(self, name: str) -> str:
        """Return this server's name of a variable or option that the newest MySQL names ``...replica...``."""
        return name.replace("replica", "slave")

    @abstractmethod
    def stop_replication(self) -> list[str]: ...

    @abstractmethod
    def start_replication(self) -> list[str]: ...

    @abstractmethod
    def pause_applier(self) -> str: ...

    @abstractmethod
    def resume_applier(self) -> str: ...

    @abstractmethod
    def forget_replication(self, channels: Sequence[str] = ()) -> list[str]:
        """Return statements that remove the replication settings of the copied data. Replication must be stopped.

        ``channels``: the names of the connections that exist.
        """

    @abstractmethod
    def set_position(self, start: Coordinates, executed: str) -> list[str]:
        """Return statements that set the GTID position of a fresh copy; empty if ``executed`` (the server's own) already matches."""

    @abstractmethod
    def replicate_from(self, source: ReplicationSource) -> tuple[str, Sequence[Any]]:
        """Return a statement with ``%s`` placeholders and its parameters (one of them is the password).

        Without GTID and ``start`` the statement names a log file that does not exist. Without a file the replica would read the
        source's logs from the first one on and apply transactions that the data already contains.
        """

    @abstractmethod
    def read_variables(self) -> tuple[str, ...]:
        """Return the global variables that a probe reads (``SHOW GLOBAL VARIABLES WHERE Variable_name IN (...)``); some may not
        exist.
        """

    @abstractmethod
    def read_status(self) -> tuple[str, ...]:
        """Return the global status variables that a probe reads; some may not exist."""

    @abstractmethod
    def server_facts_from(
        self, variables: Mapping[str, str], status: Mapping[str, str], replication: Sequence[ReplicationFacts] = ()
    ) -> dict[str, Any]:
        """Return the scalar fields of ``ServerFacts``, and ``external_paths``, by name; missing variables become empty, off or 0."""

    # --- GTID -----------------------------------------------------------------------------------------------------
    @abstractmethod
    def gtid_missing(self, wanted: str, present: str) -> str:
        """Return the transactions of ``wanted`` that ``present`` lacks, or ``""``.

        Errant transactions of a replica are ``gtid_missing(replica, primary)``. A replica has caught up with a point when
        ``gtid_missing(point, replica)`` is empty.

        Raises:
            RemoteFailure: ``gtid.unreadable``.
        """

    @abstractmethod
    def oldest_gtid(self, first_log: str) -> str:
        """Return the statement whose column ``gtid`` is the history that the binary logs no longer contain; ``first_log`` is the
        oldest.
        """

    @abstractmethod
    def gtid_count_missing(self, wanted: str, present: str) -> int:
        """Return the number of transactions in ``gtid_missing`` (MariaDB: sequence numbers). Raises the same errors."""


#: For an unknown position: no server has a log of this name, so replication stops with error 1236 and changes nothing.
NOWHERE = Coordinates(log_file="position-unknown", log_pos=4)


def parse_pairs(text: str) -> dict[str, str]:
    """Return ``key = value`` lines as a dictionary; ignore lines without ``=``."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            pairs.setdefault(key.strip(), value.strip())
    return pairs
