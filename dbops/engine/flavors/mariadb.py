"""MariaDB 10.3 and newer with mariadb-backup. Measurements are with 10.11.19, and where noted with 11.8.6."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors import connection_options, gtid, logs
from dbops.engine.flavors.base import (
    NOWHERE,
    BackupInfo,
    BackupRequest,
    Coordinates,
    Flavor,
    LogLine,
    ReplicationSource,
    Version,
)
from dbops.engine.flavors.positions import parse_binlog_info
from dbops.engine.flavors.prepare import PrepareBehavior, mariadb_backup
from dbops.engine.flavors.sql_text import sql_text
from dbops.engine.flavors.variables import (
    DOUBLEWRITTEN,
    PAGES,
    binlog_expire_seconds,
    external_paths,
    number_of,
    page_writes,
    text_of,
    truth_of,
)
from dbops.engine.flavors.versions import dotted, parse_version, series
from dbops.engine.phrases import joined, phrase

_TOOL = re.compile(r"(?:mariadb-backup|mariabackup) based on MariaDB server (\d+\.\d+\.\d+)")

#: First release of each series with the fix, from the release notes; MDEV-36159 came with 10.11.10.
_COPIER_GIVES_UP = {(10, 11): (10, 11, 19), (11, 4): (11, 4, 13), (11, 8): (11, 8, 9), (12, 3): (12, 3, 3)}
_PATHS_UNCHECKED = {(10, 6): (10, 6, 26), (10, 11): (10, 11, 17), (11, 4): (11, 4, 11), (11, 8): (11, 8, 7)}

_VARIABLES = (
    "version",
    "version_comment",
    "server_id",
    "hostname",
    "port",
    "socket",
    "datadir",
    "read_only",
    "log_bin",
    "log_slave_updates",
    "gtid_current_pos",
    "gtid_binlog_pos",
    "gtid_slave_pos",
    "binlog_format",
    "expire_logs_days",
    "binlog_expire_logs_seconds",
    "innodb_page_size",
    "innodb_doublewrite",
    "innodb_flush_method",
    "innodb_data_file_buffering",
    "innodb_use_atomic_writes",
    "lower_case_table_names",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "slave_parallel_threads",
    "innodb_data_home_dir",
    "innodb_undo_directory",
    "innodb_log_group_home_dir",
    "innodb_data_file_path",
    "aria_log_dir_path",
)


class MariaDB(Flavor):
    """MariaDB. GTIDs are always written; each connection says whether replication uses them (``Using_Gtid``)."""

    name = "mariadb"
    server_programs = ("mariadbd", "mysqld")
    backup_programs = ("mariadb-backup", "mariabackup")
    unpack_programs = ("mbstream",)
    client_programs = ("mariadb", "mysql")
    # mariadb-backup also reads the older group names: ours must come last in each, or a server's own option file wins
    credential_groups = ("client", "xtrabackup", "mariabackup", "mariadb-backup")

    # --- programs -------------------------------------------------------------------------------------------------
    def parse_tool_version(self, output: str) -> str | None:
        """Parse ``mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)`` on standard error."""
        found = _TOOL.search(output)
        return found[1] if found else None

    def tool_problem(self, tool_version: str | None) -> str:
        """Require the same series, and a tool not older than the server. The tool itself checks nothing: 10.11 backs up 11.8 with
        "completed OK!".
        """
        if not tool_version:
            return phrase("The version of mariadb-backup could not be read.")
        tool = parse_version(tool_version)
        if series(tool) != series(self.version):
            return phrase(
                "mariadb-backup {tool_version} is of another series than the server {dotted}.",
                tool_version=tool_version,
                dotted=dotted(self.version),
            )
        if tool < self.version:
            return phrase(
                "mariadb-backup {tool_version} is older than the server {dotted}.",
                tool_version=tool_version,
                dotted=dotted(self.version),
            )
        return ""

    def tool_warning(self, tool_version: str | None) -> str:
        """Report MDEV-36159, MDEV-37453, MDEV-39468 and MDEV-39408, fixed in the releases that MariaDB's release notes name."""
        if not tool_version:
            return ""
        tool = parse_version(tool_version)
        notes: list[str] = []
        if (10, 11, 10) <= tool < (10, 11, 15):
            notes.append(
                phrase(
                    "The reader of the redo log may stall, and parallel copying may crash (MDEV-36159, MDEV-37453; fixed "
                    "in 10.11.15)."
                )
            )
        if fixed := _fixed_later(tool, _COPIER_GIVES_UP):
            notes.append(
                phrase(
                    'A backup may fail falsely with "Was only able to copy log" (MDEV-39468; fixed in {fixed}).',
                    fixed=dotted(fixed),
                )
            )
        if fixed := _fixed_later(tool, _PATHS_UNCHECKED):
            notes.append(
                phrase(
                    "mbstream does not check paths well: use trusted sources alone (MDEV-39408; fixed in {dotted}).",
                    dotted=dotted(fixed),
                )
            )
        return joined(notes)

    def clone_problem(self, target_version: Version) -> str:
        """Require the same series, and a target not older: a newer series upgrades the data for good, an older server refuses or
        damages it.
        """
        if series(target_version) != series(self.version):
            return phrase(
                "MariaDB {dotted} is of another series than the source, {self_version}.",
                dotted=dotted(target_version),
                self_version=dotted(self.version),
            )
        if target_version < self.version:
            return phrase(
                "MariaDB {dotted} is older than the source, {self_version}.",
                dotted=dotted(target_version),
                self_version=dotted(self.version),
            )
        return ""

    def backup_command(self, program: str, request: BackupRequest) -> list[str]:
        """Return the command line; unknown options end the tool since 10.4.14, so there are few.

        ``--verbose`` logs the redo position, at most about two lines a second, and at the end one for each checkpoint in the log.
        No ``--ftwrl-wait-timeout`` from 10.5 on: with it the tool first polls once a second for a moment in which no statement
        runs ("longer than 0 seconds"), and fails at the timeout. With 6 writing clients it always failed (measured with
        10.11.19); without the option BACKUP STAGE START is taken at once.
        """
        command = [
            program,
            f"--defaults-file={request.credentials_file}",
            "--backup",
            "--stream=xbstream",
            *([f"--socket={request.socket}"] if request.socket else []),
            f"--datadir={request.datadir}",
            f"--target-dir={request.target_dir}",
            f"--extra-lsndir={request.lsn_dir}",
            f"--parallel={request.parallel}",
            "--verbose",
        ]
        if self.version < (10, 5, 0):
            command.append("--ftwrl-wait-timeout=600")
        if request.slave_info:
            command.append("--slave-info")
        if request.open_files_limit:
            command.append(f"--open-files-limit={request.open_files_limit}")
        return command

    def compress_problem(self, tool_version: str | None, unpacker_version: str | None) -> str:
        """Return a reason in every case: the tool has only quicklz, which is deprecated, and mbstream cannot decompress
        (``--help`` of 10.11.19 and
        11.8.6).
        """
        return phrase("mariadb-backup has no zstd, and mbstream expands nothing")

    def unpack_command(self, program: str, directory: str, *, parallel: int, expand: bool = False) -> list[str]:
        """Return the words. ``expand`` is never set: see ``compress_problem``."""
        return [program, "-x", "-C", directory, "-p", str(parallel)]

    def prepare_habits(self, tool_version: str | None) -> PrepareBehavior:
        return mariadb_backup(parse_version(tool_version) if tool_version else None)

    def statements_of_backup(self, *, replica: bool) -> list[str]:
        """Return statements in this order: RELOAD (an unlock alone suffices), PROCESS, BINLOG MONITOR, SLAVE MONITOR (measured with
        10.11.19).

        The tool checks the first two at its start, the others only at its end, after hours. Before 10.5 the last two are
        REPLICATION CLIENT. BACKUP UNLOCK came with 10.4.2; for older versions the statement is the tool's own.
        """
        reload = "BACKUP UNLOCK" if self.version >= (10, 5, 0) else "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS"
        statements = [reload, "SHOW ENGINE INNODB STATUS", "SHOW MASTER STATUS"]
        return [*statements, "SHOW ALL SLAVES STATUS"] if replica else statements

    # --- files and logs -------------------------------------------------------------------------------------------
    @property
    def metadata_files(self) -> Mapping[str, tuple[str, ...]]:
        """Return both names of each file: ``mariadb_backup_*`` from 11.1 on (MDEV-18931), ``xtrabackup_*`` before."""
        prefixes = ("xtrabackup_", "mariadb_backup_")
        if self.version >= (11, 1, 0):
            prefixes = ("mariadb_backup_", "xtrabackup_")
        ends = {
            "info": "info",
            "binlog": "binlog_info",
            "slave": "slave_info",
            "checkpoints": "checkpoints",
            "last": "info",
        }
        return {kind: tuple(prefix + end for prefix in prefixes) for kind, end in ends.items()}

    @property
    def prepared_type(self) -> str:
        return "log-applied"

    def same_run(self, sent: BackupInfo, arrived: BackupInfo) -> bool:
        """Compare command line (with the run's directory), start and both positions, which are equal only within one run.

        Each of the two files gets its own uuid, so that always differs, as do lock_time and sometimes end_time (measured with
        10.11.19).
        """

        def identity(info: BackupInfo) -> tuple[str, ...]:
            return (
                info.tool_command,
                info.start_time,
                info.tool_version,
                info.server_version,
                info.binlog_pos,
                info.to_lsn,
            )

        return bool(sent.tool_command and sent.start_time) and identity(sent) == identity(arrived)

    def parse_backup_line(self, line: str) -> LogLine:
        return logs.backup_line(line)

    def parse_prepare_line(self, line: str) -> LogLine:
        return logs.prepare_line(line)

    def parse_binlog_info(self, text: str) -> Coordinates:
        return parse_binlog_info(text)

    # --- SQL ------------------------------------------------------------------------------------------------------
    show_replication = "SHOW ALL SLAVES STATUS"
    show_replicas = "SHOW SLAVE HOSTS"
    show_binlog_position = "SHOW MASTER STATUS"

    def stop_replication(self) -> list[str]:
        return ["STOP ALL SLAVES"]

    def start_replication(self) -> list[str]:
        return ["START ALL SLAVES"]

    def pause_applier(self) -> str:
        return "STOP ALL SLAVES SQL_THREAD"

    def resume_applier(self) -> str:
        return "START ALL SLAVES SQL_THREAD"

    connection_options = connection_options.MARIADB

    def change_options(self, channel: str, options: Mapping[str, str]) -> str:
        name = f" {sql_text(channel)}" if channel else ""
        return f"CHANGE MASTER{name} TO {', '.join(connection_options.change_of(options, self.connection_options))}"

    @property
    def filter_names(self) -> Sequence[str]:
        """Return those that a statement can set: ``replicate_rewrite_db`` is a variable from 10.11 on."""
        return connection_options.FILTERS if self.version >= (10, 11, 0) else connection_options.FILTERS[:-1]

    def set_filters(self, channel: str, filters: Mapping[str, str]) -> list[str]:
        return connection_options.mariadb_filters(channel, filters, self.filter_names)

    def forget_replication(self, channels: Sequence[str] = ()) -> list[str]:
        """Return statements that clear an earlier attempt; the data has no settings (``master.info`` is not copied). ``gtid_slave_pos`` is
        unchanged (measured with 10.11.19). A named connection has to be named.
        """
        named = [f"RESET SLAVE {sql_text(channel)} ALL" for channel in channels if channel]
        return named if channels and "" not in channels else ["RESET SLAVE ALL", *named]

    def set_position(self, start: Coordinates, executed: str) -> list[str]:
        """Return ``SET GLOBAL gtid_slave_pos`` if the copy does not have the backup's position already.

        ``executed`` is the copy's own ``gtid_current_pos``: correct for the copy of a replica (``mysql.gtid_slave_pos`` is
        copied), empty or old for the copy of a primary. Domains that the binary log's position lacks are kept: their logs may be
        purged on the source. Domains in which the copy is further are kept as well: it was attached before, and an older position
        would apply transactions twice.
        """
        if not start.gtid:
            return []
        try:
            own, wanted = gtid.parse_position(executed), gtid.parse_position(start.gtid)
        except RemoteFailure:
            return [f"SET GLOBAL gtid_slave_pos = {sql_text(start.gtid)}"]
        merged = gtid.furthest(own, wanted)
        return [] if merged == own else [f"SET GLOBAL gtid_slave_pos = '{gtid.format_position(merged)}'"]

    def replicate_from(self, source: ReplicationSource) -> tuple[str, Sequence[Any]]:
        head = "CHANGE MASTER TO"
        parameters: list[Any] = []
        if source.channel:
            head, parameters = "CHANGE MASTER %s TO", [source.channel]
        words = f"{head} MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s"
        parameters += [source.host, source.port, source.user, source.password]
        words = ", ".join([words, *connection_options.words_of(source.options, self.connection_options)])
        if source.gtid:
            return f"{words}, MASTER_USE_GTID = slave_pos", parameters
        start = source.start if source.start and source.start.log_file else NOWHERE
        return f"{words}, MASTER_USE_GTID = no, MASTER_LOG_FILE = %s, MASTER_LOG_POS = %s", [
            *parameters,
            start.log_file,
            start.log_pos,
        ]

    # --- facts ----------------------------------------------------------------------------------------------------
    def read_variables(self) -> tuple[str, ...]:
        return _VARIABLES

    def read_status(self) -> tuple[str, ...]:
        return ("Uptime", "Innodb_lsn_current", "Slave_open_temp_tables", PAGES, DOUBLEWRITTEN)

    def server_facts_from(
        self, variables: Mapping[str, str], status: Mapping[str, str], replication: Sequence[ReplicationFacts] = ()
    ) -> dict[str, Any]:
        """Return the facts. ``gtid_enabled``: the server has a GTID position, and each of its connections uses GTID.

        ``redo_lsn`` is ``Innodb_lsn_current``, 0 before 10.5: the probe reads it elsewhere.
        """
        current, binlog = text_of(variables, "gtid_current_pos"), text_of(variables, "gtid_binlog_pos")
        log_files = number_of(variables, "innodb_log_files_in_group") or 1
        return {
            "flavor": self.name,
            "version": dotted(self.version),
            "version_comment": text_of(variables, "version_comment"),
            "server_id": number_of(variables, "server_id"),
            "server_uuid": "",
            "hostname": text_of(variables, "hostname"),
            "port": number_of(variables, "port"),
            "socket": text_of(variables, "socket"),
            "datadir": text_of(variables, "datadir"),
            "read_only": text_of(variables, "read_only").upper() not in ("", "OFF", "0"),
            "log_bin": truth_of(variables, "log_bin"),
            "log_replica_updates": truth_of(variables, "log_slave_updates"),
            "gtid_enabled": bool(current or binlog) and all(link.uses_gtid for link in replication),
            "gtid_executed": gtid.without_space(current),
            "gtid_binlog": gtid.without_space(binlog),
            "binlog_format": text_of(variables, "binlog_format"),
            "binlog_expire_seconds": binlog_expire_seconds(variables),
            "page_size": number_of(variables, "innodb_page_size"),
            "doublewrite": text_of(variables, "innodb_doublewrite"),
            "page_writes": page_writes(variables, status),
            "lower_case_table_names": number_of(variables, "lower_case_table_names"),
            "redo_capacity_bytes": number_of(variables, "innodb_log_file_size") * log_files,
            "redo_lsn": number_of(status, "Innodb_lsn_current"),
            "uptime_seconds": number_of(status, "Uptime"),
            "parallel_workers": number_of(variables, "slave_parallel_threads"),
            "external_paths": external_paths(
                variables,
                ("innodb_data_home_dir", "innodb_undo_directory", "innodb_log_group_home_dir", "aria_log_dir_path"),
            ),
        }

    # --- GTID -----------------------------------------------------------------------------------------------------
    def gtid_missing(self, wanted: str, present: str) -> str:
        return gtid.format_position(
            gtid.missing_from_position(gtid.parse_position(wanted), gtid.parse_position(present))
        )

    def oldest_gtid(self, first_log: str) -> str:
        """Return the statement. The position after a log's header is where the log begins; ``""`` in the very first log."""
        return f"SELECT BINLOG_GTID_POS({sql_text(first_log)}, 4) AS gtid"

    def gtid_count_missing(self, wanted: str, present: str) -> int:
        return gtid.count_missing_from_position(gtid.parse_position(wanted), gtid.parse_position(present))


def _fixed_later(tool: Version, fixes: Mapping[tuple[int, int], Version]) -> Version | None:
    fixed = fixes.get(series(tool))
    return fixed if fixed and tool < fixed else None
