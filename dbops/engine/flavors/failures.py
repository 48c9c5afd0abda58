"""Known failures of backup, stream and prepare, by the texts that the tools print.

The texts were seen with XtraBackup 2.4.9, 8.0.35-30, 8.4.0 and with mariadb-backup and mbstream 10.11.19 and 11.8.6.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """``code`` is an entry of ``docs/reference/errors.md``; ``sentence`` says what happened, ``next_step`` what the reader
    should do.
    """

    code: str
    sentence: str
    next_step: str


def _known(pattern: str, code: str, sentence: str, next_step: str) -> tuple[re.Pattern[str], KnownFailure]:
    return re.compile(pattern), KnownFailure(code, sentence, next_step)


#: The more telling entry stands before the more general one: the first that matches a line wins.
CATALOGUE: tuple[tuple[re.Pattern[str], KnownFailure], ...] = (
    _known(
        r"Was only able to copy log|log has wrapped around|expected log block no\.|could not find redo log file with LSN"
        r"|consider increasing innodb_redo_log_capacity",
        "backup.redo_overrun",
        "The source overwrote its redo log before the backup had read it.",
        "Enlarge the source's redo log (innodb_redo_log_capacity, on MariaDB innodb_log_file_size) or rebuild at a time "
        "of fewer writes; look also for a slow network or a slow disk on the target, which hold the reader up.",
    ),
    _known(
        r"Redo logging is disabled",
        "backup.redo_disabled",
        "Redo logging is switched off on the source, so no consistent backup can be made.",
        "Run ALTER INSTANCE ENABLE INNODB REDO_LOG on the source, then rebuild again.",
    ),
    _known(
        r"An optimized \(without redo logging\) DDL ?operation|INSTANT ADD/DROP columns",
        "backup.schema_change",
        "A schema change on the source made the backup inconsistent.",
        "Wait for schema changes to end (after INSTANT column changes on 8.0.29 to 8.0.31, run "
        "OPTIMIZE TABLE), then rebuild again.",
    ),
    _known(
        r"no undo tablespace truncation redo record|undo tablespace.*truncat",
        "backup.undo_truncated",
        "An undo tablespace was truncated on the source during the backup.",
        "Switch innodb_undo_log_truncate off on the source until the rebuild has ended.",
    ),
    _known(
        r"Too many open files|OS error 124|Errcode: 24\b|errno: 24\b",
        "backup.open_files",
        "The backup tool may not open enough files.",
        "Raise the open files limit of SSH sessions on the source above its number of tables.",
    ),
    _known(
        r"option 'datadir' has different values",
        "backup.other_datadir",
        "The backup tool read another data directory than the running server's.",
        "Correct the data directory of the source in the inventory and in its option file. "
        "The copy is of another server: do not use it.",
    ),
    _known(
        r"missing required privilege|Access denied; you need|command denied to user|lack of permission",
        "backup.privilege",
        "The backup account lacks a privilege.",
        "Grant it what the log names, then rebuild again.",
    ),
    _known(
        r"Access denied for user|Authentication plugin .* cannot be loaded",
        "backup.access_denied",
        "The source does not let the backup account in.",
        "Correct the backup account's name and password in the inventory, or its host part on the source.",
    ),
    _known(
        r"SSL is required, but the server does not support it",
        "backup.tls",
        "The backup tool wants TLS and the source's server offers none.",
        "Use the backup tool of the server's own version, or switch TLS on at the source.",
    ),
    _known(
        r"Unsupported server version|can only perform backups and restores against"
        r"|Unknown system variable 'max_statement_time'"
        r"|Unsupported redo log format|failed to read metadata from|Failed to parse xtrabackup_info",
        "backup.version",
        "The backup tool does not fit the version of the server or of the copy.",
        "Install on source and target the backup tool of the source's version.",
    ),
    _known(
        r"option requires GTID enabled",
        "backup.parallel_without_gtid",
        "The source applies in parallel without GTID, so it has no single position.",
        "Set replica_parallel_workers to 0 on the source for the time of the rebuild, or use GTID.",
    ),
    _known(
        r"Unable to obtain lock|Lock wait timeout exceeded|Error on BACKUP STAGE",
        "backup.lock_wait",
        "The backup could not get its lock on the source in time.",
        "Find the long statement or lock on the source (the log names its number), let it end, then rebuild again.",
    ),
    _known(
        r"unknown (?:option|variable) '|must be specified first on the command line",
        "backup.option",
        "The backup tool does not know one of its options.",
        "Look in the source's option file for a line that the tool does not know, and report the tool's version.",
    ),
    _known(
        r"No space left on device|Errcode: 28\b|errno: 28\b|Disk quota exceeded",
        "stream.disk_full",
        "The disk is full.",
        "Free space in the file system that the log names, then rebuild again.",
    ),
    _known(
        r"Can't connect to (?:local |MySQL |local MySQL )?server|Failed to connect to M"
        r"|Lost connection to (?:MySQL |MariaDB )?server|[Ss]erver has gone away",
        "backup.connect",
        "The backup tool could not connect to the source's server, or lost it.",
        "Check that the source runs, and that its socket is the one that the plan shows.",
    ),
    _known(
        r"Broken pipe|Errcode: 32\b|errno: 32\b",
        "stream.broken_pipe",
        "The other end of the stream was gone.",
        "Look at the target's log and at the network: the source only saw that nobody read any more.",
    ),
    _known(
        r"failed to create file|\"File exists\"|Errcode: 17\b",
        "stream.create_failed",
        "A file could not be created in the new data directory.",
        "Make sure that nothing else writes into the target's data directory, then rebuild again.",
    ),
    _known(
        r"wrong chunk magic",
        "stream.garbage",
        "Something other than a backup came through the stream.",
        "Make sure that shell start-up files and banners of the source's SSH user print nothing.",
    ),
    _known(
        r"my_read\(\) failed|unexpected end of (?:file|stream)",
        "stream.truncated",
        "The stream ended in the middle.",
        "Look at the source's log and at the network for what ended it, then rebuild again.",
    ),
    _known(
        r"[Cc]an't open backup-my\.cnf|cannot open \./xtrabackup_checkpoints",
        "prepare.no_backup",
        "There is no whole backup in the directory that was to be prepared.",
        "Rebuild again; the stream has left nothing that can be used.",
    ),
    _known(
        r"Can't change dir to|Can't open dir|Operating system error number 13|Errcode: 13\b|OS errno 13",
        "backup.permission",
        "A directory that is needed is missing, or may not be read or written.",
        "Run as root or as the server's user (sudo in the inventory), and check the path that the log names.",
    ),
    _known(
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "transport.host_key",
        "The source's SSH host key is not the pinned one.",
        "Find out why it changed before you accept the new one.",
    ),
    _known(
        r"Permission denied \((?:publickey|password|keyboard)",
        "transport.key_refused",
        "The source's SSH did not accept the rebuild's temporary key.",
        "Check authorized_keys_file and the stream address in the inventory, and AllowUsers in the source's sshd.",
    ),
    _known(
        r"ssh: connect to host|Connection timed out|No route to host|Could not resolve hostname",
        "transport.connect",
        "The target could not reach the source by SSH.",
        "Check the stream address of the source's host, and the firewall between the two hosts.",
    ),
    _known(
        r"Connection (?:closed|reset) by|closed by remote host|Timeout, server .* not responding|no matching cipher",
        "transport.lost",
        "The SSH connection between target and source was lost or refused.",
        "Look at the network and at the source's sshd, then rebuild again.",
    ),
)

_HARMLESS = re.compile(r"replication_group_members|setrlimit failed|cannot open \./mariadb_backup_checkpoints")
#: Consequences of something else: another entry anywhere in the log tells more.
CONSEQUENCES = frozenset({"stream.broken_pipe", "stream.truncated"})
#: An xbstream that expands what it unpacks ends with status 0 all the same: its zstd sink drops the status of a write (its source).
DISK_FULL = "stream.disk_full"


def known_failure(lines: Iterable[str]) -> KnownFailure | None:
    """Return the first failure in a log of a tool that ended badly, a cause before a mere consequence; ``None`` where
    none is known.

    Only for tools that failed: a log of a good run may hold lines that look alike.
    """
    consequence = None
    for line in lines:
        if _HARMLESS.search(line):
            continue
        found = next((failure for pattern, failure in CATALOGUE if pattern.search(line)), None)
        if found is None:
            continue
        if found.code not in CONSEQUENCES:
            return found
        consequence = consequence or found
    return consequence
