"""Errors of restore tests."""

from dbops.engine.catalogue.entries import NOT_WRITTEN, UNCHANGED, CatalogueSection, cancelled, host, operator

_REMOVED = "All files of the restore test are removed. No running server was touched."
_KEEP = "Make a new backup and test it. Keep an older backup that passed its restore test."

_TESTS = (
    operator(
        "restore_test.no_backup",
        "There is no backup to test: it is a logical dump, an external backup, or has no file.",
        NOT_WRITTEN,
        "Run a restore test of a newer physical backup.",
    ),
    operator(
        "restore_test.memory",
        "The host has too little free memory for a restore test.",
        NOT_WRITTEN,
        "Free memory on the host. dbops tries again with the next backup.",
    ),
    operator(
        "restore_test.refused",
        "The host is another machine, or the file is missing or is not this backup.",
        NOT_WRITTEN,
        "Fix the problem on the host, then run the restore test again.",
    ),
    operator(
        "restore_test.ended",
        "The restore test has ended, or is already being stopped.",
        UNCHANGED,
        "No action is needed.",
    ),
    cancelled(
        "restore_test.cancelled",
        "A user stopped the restore test.",
        "All files of the restore test are removed.",
        "Run the restore test again if you need it.",
    ),
    host(
        "restore_test.space",
        "The disk has too little free space, or the scratch directory could not be created.",
        _REMOVED,
        "Free space on the host, or set `DBOPS_RESTORE_TEST_DIRECTORY`. Then run the restore test again.",
    ),
    host(
        "restore_test.killed",
        "A program of the restore test was killed or ran out of memory. The backup may be fine.",
        _REMOVED,
        "Check the host's system log and memory, then run the restore test again.",
    ),
    operator(
        "restore_test.no_host",
        "The host chosen for restore tests has no instance, so its memory and programs are unknown.",
        NOT_WRITTEN,
        "Choose another host in the cluster's form, or add an instance on this host.",
    ),
    operator(
        "restore_test.tool",
        "The host lacks a required program, or its backup tool doesn't fit the backup's version.",
        NOT_WRITTEN,
        "Install the tool of the backup's version on the host, or choose another host for restore tests.",
    ),
    host(
        "restore_test.transport",
        "The file could not be fetched from its host. The backup may be fine.",
        _REMOVED,
        "Check the network between the two hosts and the disk that holds the file. Then run the restore test again.",
    ),
    host(
        "restore_test.damaged",
        "The file is damaged and can't be restored: its checksum differs from the published one.",
        "The backup file was not changed. " + _REMOVED,
        "Check the disk and make a new backup now. Keep an older backup that passed its restore test.",
    ),
    host(
        "restore_test.unpack",
        "The file's checksum is correct, but the file can't be unpacked.",
        "The backup file was not changed. " + _REMOVED,
        _KEEP,
    ),
    host(
        "restore_test.outside",
        "The backup refers to files outside its data directory, which the running server uses.",
        "The restored copy was not started. " + _REMOVED,
        "Restore this backup manually on another host. See restore-tests.md.",
    ),
    host("restore_test.prepare", "The backup tool could not apply the redo log.", _REMOVED, _KEEP),
    host(
        "restore_test.start",
        "No server could start on the prepared copy.",
        _REMOVED,
        "Read the server's messages. If the data needs a plugin or a key, test this backup manually.",
    ),
    host(
        "restore_test.tables",
        "A table in the backup is damaged, unreadable or missing.",
        _REMOVED,
        "Check the same tables on the source now. Keep an older backup that passed its restore test.",
    ),
    host(
        "restore_test.failed",
        "The restore test failed for an unknown reason.",
        _REMOVED,
        "Read the job's last messages and fix the problem. Then run the restore test again.",
    ),
    host(
        "restore_test.vanished",
        "The job ended without an exit status: it was killed, or the host restarted.",
        _REMOVED,
        "Check the host's system log, then run the restore test again.",
    ),
    host(
        "restore_test.stalled",
        "The restore test made no progress until the timeout.",
        "dbops stopped the job and removed its files.",
        "Check the host for a hung disk. Timeout: `DBOPS_STALL_PREPARE_SECONDS`.",
    ),
    host(
        "restore_test.not_ended",
        "Processes of the restore test did not exit after SIGKILL.",
        "The restore test stays open, and no other one starts on this host.",
        "Check the host's disks. dbops checks again until the processes are gone.",
    ),
    host(
        "restore_test.not_removed",
        "Files of a restore test could not be removed.",
        "`.dbops-restore-test-ID` in the scratch directory or `/tmp/dbops-restore-test-ID` remains on the host.",
        "Check the directory on the host and remove it. The next restore test on the host tries again.",
    ),
)

SECTIONS = (CatalogueSection("Restore tests", _TESTS, "restore-tests.md describes restore tests and what they touch."),)
