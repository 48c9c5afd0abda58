"""Errors of copying: the source, its backup tool, the stream, a stored backup, a clone."""

from dbops.engine.catalogue.entries import CatalogueSection, host

_UNUSABLE = "The copy is unusable. The outcome says where the old data is."
_NOT_TRUSTED = "The copy may be incomplete and is not used. The outcome says where the old data is."

_SOURCE = (
    host(
        "source.given_back",
        "The guard on the source ended the backup because it lost contact with the dashboard.",
        "Replication on the source is running. The run's key and credentials are removed. " + _UNUSABLE,
        "Find out why the dashboard did not reach the source: network or workers. Then rebuild again.",
    ),
    host(
        "source.temp_tables",
        "Replication on the source could not be paused: its applier held temporary tables at every try.",
        "Replication on the source is running. The target is stopped. The outcome says where the old data is.",
        "Rebuild again at a time with fewer writes, or from another source.",
    ),
    host(
        "backup.redo_overrun",
        "The source overwrote its redo log before the backup had read it.",
        _UNUSABLE,
        "Enlarge the source's redo log (`innodb_redo_log_capacity`, on MariaDB and before MySQL 8.0.30 "
        "`innodb_log_file_size`). Or rebuild at a time with fewer writes. Also check for a slow network or a slow disk on the target.",
    ),
    host(
        "backup.redo_stuck",
        "The backup tool can't read on in the redo log: the source has overwritten it.",
        "dbops stopped the copy, which could not succeed. " + _UNUSABLE,
        "Enlarge the source's redo log, or rebuild at a time with fewer writes.",
    ),
    host(
        "backup.redo_disabled",
        "Redo logging is disabled on the source.",
        _UNUSABLE,
        "Run `ALTER INSTANCE ENABLE INNODB REDO_LOG` on the source, then rebuild again.",
    ),
    host(
        "backup.schema_change",
        "A schema change on the source made the backup inconsistent.",
        _UNUSABLE,
        "Wait for schema changes to end, then rebuild again. After INSTANT column changes on MySQL 8.0.29 to 8.0.31, run "
        "`OPTIMIZE TABLE` first.",
    ),
    host(
        "backup.undo_truncated",
        "An undo tablespace was truncated on the source during the backup.",
        _UNUSABLE,
        "Run `SET GLOBAL innodb_undo_log_truncate = OFF` on the source until the rebuild has ended.",
    ),
    host(
        "backup.open_files",
        "The backup tool reached its limit of open files.",
        _UNUSABLE,
        "Raise the open files limit of SSH sessions on the source above its number of tables.",
    ),
    host(
        "backup.other_datadir",
        "The backup tool read another data directory than the running server's.",
        "The copy belongs to another server and must not be used. The outcome says where the old data is.",
        "Correct the source's data directory in the inventory and in its option file.",
    ),
    host(
        "backup.privilege",
        "The backup account lacks a privilege.",
        _UNUSABLE,
        "Grant the privilege that the log names, then rebuild again. See accounts.md.",
    ),
    host(
        "backup.access_denied",
        "The source rejects the backup account.",
        _UNUSABLE,
        "Correct the backup account in the inventory, or its host part on the source. It connects over the local socket.",
    ),
    host(
        "backup.auth_plugin",
        "The backup tool cannot log in with the authentication plugin of the backup account.",
        _UNUSABLE,
        "Use an account with `mysql_native_password` (MariaDB) or `caching_sha2_password` (MySQL). Or install the client plugin "
        "where the log says that the tool looks for it. The tool can have another plugin directory than the client.",
    ),
    host(
        "backup.trial",
        "The backup tool did not log in when it was tried.",
        "Nothing was changed on the target.",
        "Read the tool's output in the outcome and correct what it names.",
    ),
    host(
        "backup.other_server",
        "The backup tool spoke to another server than the planned source.",
        "The copy must not be used. The outcome says where the old data is.",
        "Check the source's socket, port and data directory in the inventory, and which server listens at its socket. Then "
        "rebuild again.",
    ),
    host(
        "backup.tls",
        "The backup tool requires TLS, and the source's server does not offer it.",
        _UNUSABLE,
        "Install the backup tool of the server's version, or enable TLS on the source.",
    ),
    host(
        "backup.version",
        "The backup tool does not support the version of the server or of the copy.",
        _UNUSABLE,
        "Install the backup tool of the source's version on both hosts.",
    ),
    host(
        "backup.parallel_without_gtid",
        "The source applies transactions in parallel without GTID, so it has no single position.",
        _UNUSABLE,
        "Set `replica_parallel_workers = 0` (before MySQL 8.0.26: `slave_parallel_workers`) on the source until the rebuild "
        "has ended, or use GTID.",
    ),
    host(
        "backup.lock_wait",
        "The backup did not get its lock on the source in time.",
        "The lock was not taken. " + _UNUSABLE,
        "Find the long statement or lock on the source (the log gives its number) and let it end. Then rebuild again.",
    ),
    host(
        "backup.option",
        "The backup tool does not know one of its options.",
        _UNUSABLE,
        "Report this error with the tool's version. dbops passes only its own options and those in tools.md.",
    ),
    host(
        "backup.permission",
        "A required directory is missing or not accessible.",
        _UNUSABLE,
        "Check the path that the log names. Use root as the SSH user, or enable `sudo` in the inventory.",
    ),
    host(
        "backup.connect",
        "The backup tool could not connect to the source's server, or lost the connection.",
        _UNUSABLE,
        "Check that the source's server is running, and that its socket is the one in the plan.",
    ),
)

_STREAM = (
    host(
        "stream.no_way",
        "The target could not log in to the source with the run's key.",
        "Nothing was changed on the target.",
        "Check that the target can reach the source's SSH port. Check the stream address, the pinned host key and "
        "`authorized_keys_file` in the inventory.",
    ),
    host(
        "stream.noisy_login",
        "The SSH login of the source prints text of its own, which would be part of the stream.",
        "Nothing was changed on the target.",
        "Remove the output from the start-up files of the source's SSH user (`.zshenv`, `.bashrc`, `.cshrc`). Or print only in "
        "interactive shells.",
    ),
    host(
        "stream.disk_full",
        "The disk is full.",
        _UNUSABLE,
        "Free space in the file system that the log names, then rebuild again. Old data of earlier runs "
        "(`*.dbops-old-*`) also uses space.",
    ),
    host(
        "stream.broken_pipe",
        "The receiving end of the stream closed.",
        _UNUSABLE,
        "Check the target's log, the network and both system logs. The cause is not on the source.",
    ),
    host(
        "stream.truncated",
        "The stream ended too early.",
        _UNUSABLE,
        "Check the source's log and the network for the cause, then rebuild again.",
    ),
    host(
        "stream.failed",
        "An end of the stream failed for an unknown reason.",
        _UNUSABLE,
        "Read both logs and both system logs and fix the problem. Exit status 137 means SIGKILL. Then rebuild again.",
    ),
    host(
        "stream.create_failed",
        "A file could not be created in the new data directory because it already exists.",
        _UNUSABLE,
        "Check that no other program writes to the target's data directory. Then rebuild again.",
    ),
    host(
        "stream.garbage",
        "The stream contains data that is not a backup.",
        _UNUSABLE,
        "Check that shell start-up files and banners of the source's SSH user print nothing.",
    ),
    host(
        "stream.killed",
        "The backup tool on the source, or ssh or the unpacking tool on the target, was killed.",
        _UNUSABLE,
        "Check the host's system log for the OOM killer or another cause. Then rebuild again.",
    ),
    host(
        "stream.not_completed",
        "The backup tool did not end with `completed OK!`.",
        _NOT_TRUSTED,
        "Read the source's log and rebuild again. If the error persists, check both system logs.",
    ),
    host(
        "stream.unpack_complained",
        "The unpacking tool reported a problem.",
        _NOT_TRUSTED,
        "Read the tool's message, fix the problem and rebuild again.",
    ),
    host(
        "stream.unverified",
        "The source has no record of the backup, so the copy can't be verified.",
        _NOT_TRUSTED,
        "Check free space in the source's work directory and what ends processes on the source. Then rebuild again.",
    ),
    host(
        "stream.other_run",
        "The copy does not match the backup that the source sent.",
        _NOT_TRUSTED,
        "Rebuild again. If the error persists, report it with both files.",
    ),
    host(
        "transport.host_key",
        "The source's SSH host key is not the pinned key, or its host certificate is not valid.",
        _UNUSABLE,
        "Check whether the stream address leads to another machine. Find the cause before you accept a new key or issue a certificate.",
    ),
    host(
        "transport.key_refused",
        "The source's SSH rejected the rebuild's temporary key.",
        _UNUSABLE,
        "Check `authorized_keys_file` and the stream address in the inventory, `AllowUsers` in the source's sshd, and the "
        "source's clock.",
    ),
    host(
        "transport.connect",
        "The target could not reach the source by SSH.",
        _UNUSABLE,
        "Check the source's stream address and the firewall between the two hosts.",
    ),
    host(
        "transport.lost",
        "The SSH connection between target and source was lost or rejected.",
        _UNUSABLE,
        "Check the network and the source's sshd, then rebuild again. `no matching cipher` means that they share no cipher.",
    ),
)

_STORED = (
    host(
        "archive.damaged",
        "The backup file is damaged: its content differs from the published file.",
        "The backup file was not changed. " + _UNUSABLE,
        "Check the disk that holds the file and delete this backup. Then rebuild by another method.",
    ),
    host(
        "archive.decompress",
        "`zstd` could not decompress the backup, although its checksum is correct.",
        _UNUSABLE,
        "Read the message: memory or `zstd` version. Then rebuild again, or by another method.",
    ),
    host(
        "dump.load",
        "The server rejected a statement of the dump.",
        "The new data directory holds only a part of the dump. The outcome says where the old data is.",
        "Check the server's error: another version, a missing plugin or a full disk. Then rebuild by another method.",
    ),
    host(
        "dump.server",
        "The dump was loaded, but the server that loaded it failed.",
        _NOT_TRUSTED,
        "Check the server's error log on the target, then rebuild again.",
    ),
)

_UNTOUCHED = "Nothing was changed on the target. The clean-up removes what was made on the source."
_CLONE = (
    host(
        "clone.account",
        "The clone plugin or the clone account could not be set up on the source.",
        _UNTOUCHED,
        "Grant the admin account the privileges for `clone`, then plan again. See accounts.md.",
    ),
    host(
        "clone.no_way",
        "The target could not log in to the source's server with the clone account.",
        _UNTOUCHED,
        "Allow the target's host to reach the source's server port at the address in the inventory.",
    ),
    host(
        "clone.failed",
        "`CLONE INSTANCE` failed on the target.",
        _UNUSABLE,
        "Fix the server's error, then rebuild again. Error 3862 shows the source's error.",
    ),
    host(
        "clone.incomplete",
        "All data was copied, but the server did not complete the clone after its restart.",
        _UNUSABLE,
        "Read the log of the step, then rebuild again.",
    ),
    host(
        "clone.server",
        "The cloned server failed, or the source's own settings could not be removed from the copy.",
        _NOT_TRUSTED,
        "Read the log of the step. The admin account must be able to log in to the source over its local socket. "
        "Then rebuild again.",
    ),
)

SECTIONS = (
    CatalogueSection("Source and backup tool", _SOURCE),
    CatalogueSection(
        "Stream",
        _STREAM,
        "The step's result shows the exit status of each end (source backup, transport, unpack) and the last lines of their logs.",
    ),
    CatalogueSection("Stored backups", _STORED),
    CatalogueSection("Clone", _CLONE),
)
