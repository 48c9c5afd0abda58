"""Known failures of backup, stream and prepare, by the messages of the tools.

The messages were seen with XtraBackup 2.4.9, 2.4.20, 8.0.35-30, 8.4.0 and with mariadb-backup and mbstream 10.11.19 and 11.8.6.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.catalogue import CATALOGUE as ERRORS
from dbops.engine.flavors.logs import HARMLESS
from dbops.engine.phrases import Phrase


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure that is recognized by a tool's message. ``code`` is an entry of the error catalogue."""

    code: str

    @property
    def sentence(self) -> Phrase:
        """Return the sentence of the error catalogue for the failure."""
        return Phrase(ERRORS[self.code].summary, {})


def _known(pattern: str, code: str) -> tuple[re.Pattern[str], KnownFailure]:
    return re.compile(pattern), KnownFailure(code)


#: The first match of a line wins, so specific entries precede general ones.
CATALOGUE: tuple[tuple[re.Pattern[str], KnownFailure], ...] = (
    _known(
        r"Was only able to copy log|log has wrapped around|expected log block no\.|could not find redo log file with LSN"
        r"|consider increasing innodb_redo_log_capacity",
        "backup.redo_overrun",
    ),
    _known(
        r"Redo logging is disabled",
        "backup.redo_disabled",
    ),
    _known(
        r"An optimized \(without redo logging\) DDL ?operation|INSTANT ADD/DROP columns",
        "backup.schema_change",
    ),
    _known(
        r"no undo tablespace truncation redo record|undo tablespace.*truncat",
        "backup.undo_truncated",
    ),
    _known(
        r"Too many open files|OS error 124|Errcode: 24\b|errno: 24\b",
        "backup.open_files",
    ),
    _known(
        r"option 'datadir' has different values",
        "backup.other_datadir",
    ),
    _known(
        # error 1044 names a database: the login itself succeeded
        r"missing required privilege|Access denied; you need|command denied to user|lack of permission"
        r"|Access denied for user .* to database",
        "backup.privilege",
    ),
    _known(
        r"Authentication plugin .* cannot be loaded",
        "backup.auth_plugin",
    ),
    _known(
        r"Access denied for user",
        "backup.access_denied",
    ),
    _known(
        r"SSL is required, but the server does not support it",
        "backup.tls",
    ),
    _known(
        r"Unsupported server version|can only perform backups and restores against"
        r"|Unknown system variable 'max_statement_time'"
        r"|Unsupported redo log format|failed to read metadata from|Failed to parse xtrabackup_info",
        "backup.version",
    ),
    _known(
        r"option requires GTID enabled",
        "backup.parallel_without_gtid",
    ),
    _known(
        r"Unable to obtain lock|Lock wait timeout exceeded|Error on BACKUP STAGE",
        "backup.lock_wait",
    ),
    _known(
        r"unknown (?:option|variable) '|must be specified first on the command line",
        "backup.option",
    ),
    _known(
        r"No space left on device|Errcode: 28\b|errno:? 28\b|error number 28\b|Disk is full|Disk quota exceeded"
        r"|Available space .* is not enough",
        "stream.disk_full",
    ),
    _known(
        r"Can't connect to (?:local |MySQL |local MySQL )?server|Failed to connect to M"
        r"|Lost connection to (?:MySQL |MariaDB )?server|[Ss]erver has gone away",
        "backup.connect",
    ),
    _known(
        r"Broken pipe|Errcode: 32\b|errno: 32\b",
        "stream.broken_pipe",
    ),
    _known(
        r"failed to create file|\"File exists\"|Errcode: 17\b",
        "stream.create_failed",
    ),
    _known(
        r"wrong chunk magic",
        "stream.garbage",
    ),
    _known(
        r"my_read\(\) failed|unexpected end of (?:file|stream)",
        "stream.truncated",
    ),
    _known(
        r"[Cc]an't open backup-my\.cnf|cannot open \./xtrabackup_checkpoints",
        "prepare.no_backup",
    ),
    _known(
        r"Can't change dir to|Can't open dir|Operating system error number 13|Errcode: 13\b|OS errno 13",
        "backup.permission",
    ),
    _known(
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "transport.host_key",
    ),
    _known(
        r"Permission denied \((?:publickey|password|keyboard)",
        "transport.key_refused",
    ),
    _known(
        r"ssh: connect to host|Connection timed out|No route to host|Could not resolve hostname",
        "transport.connect",
    ),
    _known(
        r"Connection (?:closed|reset) by|closed by remote host|Timeout, server .* not responding|no matching cipher",
        "transport.lost",
    ),
)
#: Consequences of another failure: other entries in the log are more specific.
CONSEQUENCES = frozenset({"stream.broken_pipe", "stream.truncated"})
#: A decompressing xbstream can fail with exit status 0: its zstd sink drops the status of a write (its source).
DISK_FULL = "stream.disk_full"


def known_failure(lines: Iterable[str]) -> KnownFailure | None:
    """Return the first failure in the log of a failed tool, a cause before a consequence; ``None`` if none is known.

    Only for tools that failed: the log of a successful run may contain similar lines.
    """
    consequence = None
    for line in lines:
        if HARMLESS.search(line):
            continue
        found = next((failure for pattern, failure in CATALOGUE if pattern.search(line)), None)
        if found is None:
            continue
        if found.code not in CONSEQUENCES:
            return found
        consequence = consequence or found
    return consequence
