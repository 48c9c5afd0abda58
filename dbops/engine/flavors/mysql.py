"""MySQL and Percona Server 5.7, 8.x and newer with XtraBackup.

Changed statements (run on 5.7.42, 8.0.46, 8.4.10 and 9.7.4): SHOW/START/STOP/RESET REPLICA came with 8.0.22, CHANGE REPLICATION
SOURCE with 8.0.23, SHOW BINARY LOG STATUS and RESET BINARY LOGS AND GTIDS with 8.2; their older forms are syntax errors from 8.4
on.
"""

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
from dbops.engine.flavors.compression import compress_words, xtrabackup_compress_problem
from dbops.engine.flavors.positions import parse_binlog_info
from dbops.engine.flavors.prepare import PrepareBehavior, xtrabackup
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

_TOOL = re.compile(r"xtrabackup version (\d+\.\d+\.\d+(?:-\d+)?)")

_VARIABLES = (
    "version",
    "version_comment",
    "server_id",
    "server_uuid",
    "hostname",
    "port",
    "socket",
    "datadir",
    "read_only",
    "super_read_only",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "gtid_mode",
    "gtid_executed",
    "binlog_format",
    "expire_logs_days",
    "binlog_expire_logs_seconds",
    "innodb_page_size",
    "innodb_doublewrite",
    "innodb_flush_method",
    "lower_case_table_names",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "replica_parallel_workers",
    "slave_parallel_workers",
    "innodb_data_home_dir",
    "innodb_undo_directory",
    "innodb_log_group_home_dir",
    "innodb_data_file_path",
)


class MySQL(Flavor):
    """MySQL and Percona Server. The statements were not tested under ``super_read_only``: start a copy with ``read_only`` only, and
    set the other at the end.
    """

    name = "mysql"
    server_programs = ("mysqld",)
    backup_programs = ("xtrabackup",)
    unpack_programs = ("xbstream",)
    client_programs = ("mysql",)
    credential_groups = ("client", "xtrabackup")

    @property
    def _speaks_replica(self) -> bool:
        return self.version >= (8, 0, 22)

    @property
    def _speaks_source(self) -> bool:
        return self.version >= (8, 0, 23)

    @property
    def _speaks_binary_log(self) -> bool:
        return self.version >= (8, 2, 0)

    # --- programs -------------------------------------------------------------------------------------------------
    def parse_tool_version(self, output: str) -> str | None:
        """Parse ``xtrabackup version 8.0.35-30 based on MySQL server 8.0.35 Linux ...`` on standard error, not always in its first
        line.
        """
        found = _TOOL.search(output)
        return found[1] if found else None

    def tool_problem(self, tool_version: str | None) -> str:
        """Apply XtraBackup's rules (server-backup-version-comparison, supported-versions).

        2.4 for 5.7; for 8.0 a tool not older than the server, but from 8.0.34 on any tool from 8.0.34 on; the same series for all
        others. ``--no-server-version-check`` is not used: it does not cross series, and within one it removes the only check.
        """
        if not tool_version:
            return phrase("The version of XtraBackup could not be read.")
        of = {"tool": tool_version, "server": dotted(self.version)}
        tool, here = parse_version(tool_version), phrase("XtraBackup {tool} does not fit MySQL {server}", **of)
        wanted = (2, 4) if series(self.version) == (5, 7) else series(self.version)
        if series(tool) != wanted:
            return phrase("{here}: it takes XtraBackup {dotted}.", here=here, dotted=dotted(wanted))
        if wanted == (8, 0) and tool < min(self.version, (8, 0, 34)):
            return phrase("{here}: it is older than {dotted}.", here=here, dotted=dotted(min(self.version, (8, 0, 34))))
        return ""

    def tool_warning(self, tool_version: str | None) -> str:
        """Report bugs from the release notes of XtraBackup and MySQL."""
        if not tool_version:
            return ""
        tool, notes = parse_version(tool_version), list[str]()
        if (5, 7, 32) <= self.version < (5, 8, 0) and tool < (2, 4, 21):
            notes.append(phrase("Tables with COMPRESSION= of 5.7.32 and newer need XtraBackup 2.4.21."))
        if (8, 0, 29) <= self.version <= (8, 0, 31):
            notes.append(
                phrase(
                    "8.0.29 to 8.0.31: tables with INSTANT ADD or DROP COLUMN end the backup; run OPTIMIZE TABLE on them "
                    "first."
                )
            )
        if (8, 0, 0) <= tool < (8, 0, 33):
            notes.append(phrase("Before 8.0.33-28 preparing many tables is slow and each table takes an open file."))
        return joined(notes)

    def clone_problem(self, target_version: Version) -> str:
        """Require the same series, and a target not older: a newer patch level upgrades the dictionary for good, an older one does
        not start.
        """
        of = {"target": dotted(target_version), "source": dotted(self.version)}
        if series(target_version) != series(self.version):
            return phrase("MySQL {target} is of another series than the source, {source}.", **of)
        if target_version < self.version:
            return phrase("MySQL {target} is older than the source, {source}.", **of)
        return ""

    def backup_command(self, program: str, request: BackupRequest) -> list[str]:
        """Return the command line. Without ``--no-version-check`` the tool calls home.

        ``--ftwrl-wait-timeout`` bounds the wait for statements longer than 60 s (the tool's own threshold) before a global read
        lock: see ``write_lock.when_writes_wait``. 2.4 keeps every file open, 8.x few.
        """
        return [
            program,
            f"--defaults-file={request.credentials_file}",
            "--backup",
            "--stream=xbstream",
            "--no-version-check",
            *([f"--socket={request.socket}"] if request.socket else []),
            f"--datadir={request.datadir}",
            f"--target-dir={request.target_dir}",
            f"--extra-lsndir={request.lsn_dir}",
            f"--parallel={request.parallel}",
            *compress_words(request.compress_threads),
            "--ftwrl-wait-timeout=600",
            *(["--slave-info"] if request.slave_info else []),
            f"--open-files-limit={request.open_files_limit or 1_000_000}",
        ]

    @property
    def tool_ignores_unknown_options(self) -> bool:
        """Return whether it is XtraBackup 2.4 (measured with 2.4.9 and 2.4.20); 8.x ends at an unknown option."""
        return self.version < (8, 0, 0)

    def compress_problem(self, tool_version: str | None, unpacker_version: str | None) -> str:
        return xtrabackup_compress_problem(tool_version, unpacker_version)

    def unpack_command(self, program: str, directory: str, *, parallel: int, expand: bool = False) -> list[str]:
        """Return the words. ``--parallel``: 8.x has no short ``-p``. These threads also decompress zstd: ``--decompress-threads`` is
        only for lz4 and quicklz (its source).
        """
        return [program, "-x", "-C", directory, f"--parallel={parallel}", *(["--decompress"] if expand else [])]

    def prepare_habits(self, tool_version: str | None) -> PrepareBehavior:
        return xtrabackup(parse_version(tool_version) if tool_version else None)

    def statements_of_backup(self, *, replica: bool) -> list[str]:
        """Test PROCESS, RELOAD, REPLICATION CLIENT; from 8.0 on BACKUP_ADMIN (``log_status``) and SELECT on the two tables.

        The number of MyISAM tables is not queried: the account may not see all of them.
        """
        statements = ["SHOW ENGINE INNODB STATUS", "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS", self.show_binlog_position]
        if self.version >= (8, 0, 0):
            statements.append("SELECT server_uuid FROM performance_schema.log_status")
        if self.version >= (8, 0, 24):
            statements.append("SELECT COUNT(*) FROM performance_schema.keyring_component_status")
        return [*statements, self.show_replication] if replica else statements

    # --- files and logs -------------------------------------------------------------------------------------------
    @property
    def metadata_files(self) -> Mapping[str, tuple[str, ...]]:
        last = "xtrabackup_tablespaces" if self.version >= (8, 0, 0) else "xtrabackup_info"
        return {
            "info": ("xtrabackup_info",),
            "binlog": ("xtrabackup_binlog_info",),
            "slave": ("xtrabackup_slave_info",),
            "checkpoints": ("xtrabackup_checkpoints",),
            "last": (last,),
        }

    @property
    def prepared_type(self) -> str:
        return "full-prepared"

    def same_run(self, sent: BackupInfo, arrived: BackupInfo) -> bool:
        return bool(sent.uuid) and (sent.uuid, sent.to_lsn) == (arrived.uuid, arrived.to_lsn)

    def parse_backup_line(self, line: str) -> LogLine:
        return logs.backup_line(line)

    def parse_prepare_line(self, line: str) -> LogLine:
        return logs.prepare_line(line)

    def parse_binlog_info(self, text: str) -> Coordinates:
        return parse_binlog_info(text)

    # --- SQL ------------------------------------------------------------------------------------------------------
    @property
    def _replica(self) -> str:
        return "REPLICA" if self._speaks_replica else "SLAVE"

    @property
    def show_replication(self) -> str:
        return f"SHOW {self._replica} STATUS"

    @property
    def show_replicas(self) -> str:
        return "SHOW REPLICAS" if self._speaks_replica else "SHOW SLAVE HOSTS"

    @property
    def show_binlog_position(self) -> str:
        return "SHOW BINARY LOG STATUS" if self._speaks_binary_log else "SHOW MASTER STATUS"

    def variable_name(self, name: str) -> str:
        return name if self.version >= (8, 0, 26) else super().variable_name(name)

    def stop_replication(self) -> list[str]:
        return [f"STOP {self._replica}"]

    def start_replication(self) -> list[str]:
        return [f"START {self._replica}"]

    def pause_applier(self) -> str:
        return f"STOP {self._replica} SQL_THREAD"

    def resume_applier(self) -> str:
        return f"START {self._replica} SQL_THREAD"

    @property
    def connection_options(self) -> Sequence[connection_options.Option]:
        return connection_options.mysql_options("SOURCE" if self._speaks_source else "MASTER")

    show_channel_settings = (
        "SELECT * FROM performance_schema.replication_connection_configuration"
        " JOIN performance_schema.replication_applier_configuration USING (CHANNEL_NAME)"
    )

    def change_options(self, channel: str, options: Mapping[str, str]) -> str:
        head = "CHANGE REPLICATION SOURCE TO" if self._speaks_source else "CHANGE MASTER TO"
        end = f" FOR CHANNEL {sql_text(channel)}" if channel else ""
        return f"{head} {', '.join(connection_options.change_of(options, self.connection_options))}{end}"

    def set_filters(self, channel: str, filters: Mapping[str, str]) -> list[str]:
        return connection_options.mysql_filters(channel if self.version >= (8, 0, 0) else "", filters)

    def forget_replication(self, channels: Sequence[str] = ()) -> list[str]:
        """Return statements that remove the source's settings, which come with the data (``mysql.slave_master_info``, including
        the password).

        Otherwise replication to the old upstream starts automatically, or CHANGE fails with error 1872.
        """
        return [f"RESET {self._replica} ALL"]

    def set_position(self, start: Coordinates, executed: str) -> list[str]:
        """Return statements for the purged set on 5.7, where it is empty or stale (measured); 8.x and newer have it after XtraBackup.

        Purged can be set only on an empty server (error 1840), hence the reset. A server with the backup's set and more is left
        unchanged: a reset would hide its own transactions.
        """
        if not start.gtid:
            return []
        try:
            if not self.gtid_missing(start.gtid, executed):
                return []
        except RemoteFailure:
            pass  # shown in a plan with words in place of a set; a server refuses them
        reset = "RESET BINARY LOGS AND GTIDS" if self._speaks_binary_log else "RESET MASTER"
        return [reset, f"SET GLOBAL gtid_purged = {sql_text(start.gtid)}"]

    def replicate_from(self, source: ReplicationSource) -> tuple[str, Sequence[Any]]:
        """Return the statement. ``GET_SOURCE_PUBLIC_KEY``: caching_sha2_password without TLS needs it from 8.0 on (error 2061)."""
        word = "SOURCE" if self._speaks_source else "MASTER"
        head = "CHANGE REPLICATION SOURCE TO" if self._speaks_source else "CHANGE MASTER TO"
        parameters: list[Any] = [source.host, source.port, source.user, source.password]
        words = [f"{word}_{name} = %s" for name in ("HOST", "PORT", "USER", "PASSWORD")]
        if self.version >= (8, 0, 0):
            words.append(f"GET_{word}_PUBLIC_KEY = 1")
        if source.gtid:
            words.append(f"{word}_AUTO_POSITION = 1")
        else:
            start = source.start if source.start and source.start.log_file else NOWHERE
            words += [f"{word}_AUTO_POSITION = 0", f"{word}_LOG_FILE = %s", f"{word}_LOG_POS = %s"]
            parameters += [start.log_file, start.log_pos]
        words += connection_options.words_of(source.options, self.connection_options)
        channel = ""
        if source.channel:
            channel, parameters = " FOR CHANNEL %s", [*parameters, source.channel]
        return f"{head} {', '.join(words)}{channel}", parameters

    # --- facts ----------------------------------------------------------------------------------------------------
    def read_variables(self) -> tuple[str, ...]:
        return _VARIABLES

    def read_status(self) -> tuple[str, ...]:
        return (
            *("Uptime", PAGES, DOUBLEWRITTEN),
            "Innodb_redo_log_current_lsn",
            "Innodb_redo_log_capacity_resized",
            "Replica_open_temp_tables",
            "Slave_open_temp_tables",
        )

    def server_facts_from(
        self, variables: Mapping[str, str], status: Mapping[str, str], replication: Sequence[ReplicationFacts] = ()
    ) -> dict[str, Any]:
        """Return the facts. ``redo_lsn`` exists from 8.0.30 on; before, it is 0 and the probe reads another statement. The bytes
        written to the log are no substitute: each flush writes its last block again (5.7.22 under small transactions: 1.8 times).

        ``redo_capacity_bytes``: from 8.0.30 on the status variable counts, because the two older variables still apply if only
        they are set. ``gtid_enabled`` does not check whether connections use auto-position: a copy can where ``gtid_mode`` is ON.
        """
        executed = gtid.without_space(text_of(variables, "gtid_executed"))
        capacity = number_of(status, "Innodb_redo_log_capacity_resized") or number_of(
            variables, "innodb_redo_log_capacity"
        )
        files = number_of(variables, "innodb_log_file_size") * (number_of(variables, "innodb_log_files_in_group") or 1)
        return {
            "flavor": self.name,
            "version": dotted(self.version),
            "version_comment": text_of(variables, "version_comment"),
            "server_id": number_of(variables, "server_id"),
            "server_uuid": text_of(variables, "server_uuid"),
            "hostname": text_of(variables, "hostname"),
            "port": number_of(variables, "port"),
            "socket": text_of(variables, "socket"),
            "datadir": text_of(variables, "datadir"),
            "read_only": truth_of(variables, "read_only"),
            "log_bin": truth_of(variables, "log_bin"),
            "log_replica_updates": truth_of(variables, "log_replica_updates", "log_slave_updates"),
            "gtid_enabled": text_of(variables, "gtid_mode").upper() == "ON",
            "gtid_executed": executed,
            "gtid_binlog": "",
            "binlog_format": text_of(variables, "binlog_format"),
            "binlog_expire_seconds": binlog_expire_seconds(variables),
            "page_size": number_of(variables, "innodb_page_size"),
            "doublewrite": text_of(variables, "innodb_doublewrite"),
            "page_writes": page_writes(variables, status),
            "lower_case_table_names": number_of(variables, "lower_case_table_names"),
            "redo_capacity_bytes": capacity or files,
            "redo_lsn": number_of(status, "Innodb_redo_log_current_lsn"),
            "uptime_seconds": number_of(status, "Uptime"),
            "parallel_workers": number_of(variables, "replica_parallel_workers", "slave_parallel_workers"),
            "external_paths": external_paths(
                variables, ("innodb_data_home_dir", "innodb_undo_directory", "innodb_log_group_home_dir")
            ),
        }

    # --- GTID -----------------------------------------------------------------------------------------------------
    def gtid_missing(self, wanted: str, present: str) -> str:
        return gtid.format_set(gtid.subtract(gtid.parse_set(wanted), gtid.parse_set(present)))

    def oldest_gtid(self, first_log: str) -> str:
        return "SELECT @@GLOBAL.gtid_purged AS gtid"

    def gtid_count_missing(self, wanted: str, present: str) -> int:
        return gtid.count(gtid.subtract(gtid.parse_set(wanted), gtid.parse_set(present)))
