"""Errors of backup runs that dbops makes or knows."""

from dbops.engine.catalogue.entries import (
    NOT_WRITTEN,
    REPORT,
    SAY_WHY,
    UNCHANGED,
    CatalogueSection,
    cancelled,
    host,
    operator,
    ours,
)

_REMOVED = "No backup was published, and the partial file is removed. Replication of the instance was not touched."

_RUNS = (
    operator(
        "backup.active",
        "A run of this schedule is already queued or running.",
        "That run was not changed.",
        "Watch that run, or stop it first (`manage.py backup NAME --stop --reason ...`).",
    ),
    operator(
        "backup.external",
        "An external cron job runs this schedule, so dbops can't start it.",
        UNCHANGED,
        "Start the backup where it runs, or let dbops run the schedule.",
    ),
    operator(
        "backup.no_directory",
        "The schedule has no directory to write to.",
        NOT_WRITTEN,
        "Set an absolute path with enough free space on the instance's host, outside the data directory.",
    ),
    operator(
        "backup.dump_program",
        "The host's dump program is of the other product, or of MySQL 5.7 for a newer server. A dump by it could not be restored.",
        NOT_WRITTEN,
        "Install the dump program of the server's product and series, first on the PATH of the host. Then run the backup again.",
    ),
    operator(
        "backup.no_server",
        "The server to back up doesn't answer, so its version and socket are unknown.",
        NOT_WRITTEN,
        "Check the instance. Run the backup again when the server answers.",
    ),
    operator(
        "backup.dump_account",
        "The account that makes dumps lacks a privilege, so a dump would fail or leave objects out.",
        NOT_WRITTEN,
        "Grant what is missing to the dashboard's account on the local socket (`local`, else `admin`). See accounts.md.",
    ),
    operator(
        "backup.refused",
        "The host is not ready for a backup. The message gives the reason.",
        NOT_WRITTEN,
        "Fix the problem on the host, then run the backup again.",
    ),
    host(
        "backup.failed",
        "A program of the backup failed.",
        _REMOVED,
        "Fix the problem on the host, then run the backup again.",
    ),
    host(
        "backup.dump_privilege",
        "The account that makes dumps lacks a privilege.",
        _REMOVED,
        "Grant what the message names to the dashboard's account on the local socket (`local`, else `admin`). See accounts.md.",
    ),
    host(
        "backup.dump_login",
        "The server rejects the account that makes dumps.",
        _REMOVED,
        "Correct the dashboard's account on the local socket (`local`, else `admin`) in the inventory, or its host part.",
    ),
    host(
        "backup.killed",
        "A signal ended the backup or one of its programs.",
        _REMOVED,
        "Check the host's system log for the OOM killer or another cause. Then run the backup again.",
    ),
    host(
        "backup.vanished",
        "The job ended without an exit status: it was killed, or the host restarted.",
        _REMOVED,
        "Check the host's system log, then run the backup again.",
    ),
    host(
        "backup.incomplete",
        "All programs succeeded, but the file could not be verified as complete.",
        _REMOVED,
        "Read the tool's messages in the run's history and fix the problem. Then run the backup again.",
    ),
    host(
        "backup.stalled",
        "The backup made no progress until the timeout.",
        "dbops stopped the job and removed its file.",
        "Check for a lock that the tool waits for, or a hung disk. Timeout: `DBOPS_STALL_STOP_SECONDS`.",
    ),
    host(
        "backup.unpublished",
        "The backup is complete, but could not get its final name.",
        "The new file is removed. Another file with that name is not changed.",
        "Check owner, mode and content of the directory on the host. Then run the backup again.",
    ),
    host(
        "backup.not_ended",
        "Processes of the backup did not exit after SIGKILL.",
        "The partial file and the lock on the instance are kept while the processes can still write.",
        "Check the host's disks and network file systems. dbops checks again until the processes are gone.",
    ),
    host(
        "backup.not_removed",
        "Files of a failed or stopped backup could not be removed.",
        "The file is hidden (`.NAME.partial`) and never counts as a backup. The next run tries again.",
        "Check owner and mode of the directory on the host.",
    ),
    cancelled(
        "backup.cancelled",
        "A user stopped the backup.",
        "No backup was published, and the partial file is removed.",
        "Run the backup again if you need it.",
    ),
    operator(
        "backup.not_ours",
        "dbops did not start this backup, so dbops can't stop it.",
        UNCHANGED,
        "Stop the backup on its host. If it has already ended, mark it as ended on its page.",
    ),
    operator("backup.reason", "A reason is required.", UNCHANGED, SAY_WHY),
    operator("backup.ended", "The run has already ended.", UNCHANGED, "Check its page for the result."),
    operator(
        "backup.ours",
        "dbops started this run, so it can't be marked as ended.",
        UNCHANGED,
        "Stop the run instead. If it is lost, force-fail it.",
    ),
    operator(
        "backup.not_lost",
        "Only a lost run can be force-failed.",
        UNCHANGED,
        "If the run is still running, stop it.",
    ),
    ours("backup.transition", "dbops tried an impossible state change.", "The run keeps its state.", REPORT),
)

SECTIONS = (
    CatalogueSection(
        "Backups",
        _RUNS,
        "backups.md describes how dbops makes backups. A known failure of a backup tool carries the code of that failure, for\n"
        "example `stream.disk_full` or `backup.privilege`.",
    ),
)
