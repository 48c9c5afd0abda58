"""Logs of real runs, and the catalogue of known failures."""

from pathlib import Path

import pytest

from dbops.engine.catalogue import CATALOGUE as ERRORS
from dbops.engine.flavors import flavor_for, logs
from dbops.engine.flavors.failures import CATALOGUE, known_failure
from dbops.engine.flavors.logs import stuck_redo
from dbops.engine.flavors.prepare_progress import PrepareProgress, prepare_progress

#: What servers, tools and scripts say or get: recorded, not worded here.
FIRST_LINE = "Using server version 10.11.19-MariaDB-0+deb12u1-log"
LOCKED = "Acquired locks for BACKUP STAGE BLOCK_COMMIT"
UNLOCKED = "All tables unlocked"
WAITS = "Waiting for query 9 (duration 0 sec)"
PERCENT = "InnoDB: Progress in percent: 0 1 2 37"

SAMPLES = Path(__file__).parent / "samples"
mariadb, mysql = flavor_for("10.11.19-MariaDB"), flavor_for("8.0.46")


def lines(name: str) -> list[str]:
    return (SAMPLES / f"mariadb-10.11-{name}.log").read_text().splitlines()


def test_parse_backup_line_reads_a_good_mariadb_log() -> None:
    parsed = [mariadb.parse_backup_line(line) for line in lines("backup")]
    milestones = [line.text for line in parsed if line.kind == "milestone"]
    assert milestones[0] == FIRST_LINE
    assert LOCKED in milestones
    assert UNLOCKED in milestones
    files = [line.path for line in parsed if line.kind == "file"]
    assert {"./lab/t1.ibd", "ibdata1", "./lab/ar1.MAD", "./lab/my1.MYD", "xtrabackup_info"} <= set(files)
    assert [line.lsn for line in parsed if line.kind == "redo"][-1] == 1235108328
    assert [line.kind for line in parsed if line.kind == "error"] == []
    assert parsed[-1].kind == "completed"


def test_parse_backup_line_hides_statements() -> None:
    texts = [mariadb.parse_backup_line(line).text for line in lines("startup-wait")]
    assert WAITS in texts
    assert not any("insert" in text for text in texts)


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        (
            "2026-11-20T20:16:31.871402-00:00 0 [Note] [MY-011825] [Xtrabackup] completed OK!",
            "completed",
            "completed OK!",
        ),
        ("261120 20:16:31 completed OK!", "completed", "completed OK!"),
        (
            "2026-11-20T20:16:30.1-00:00 1 [Note] [MY-011825] [Xtrabackup] Streaming ./lab/t1.ibd",
            "file",
            "Streaming ./lab/t1.ibd",
        ),
        ("261120 21:22:56 [01] Streaming ./lab/t1.ibd", "file", "Streaming ./lab/t1.ibd"),
        (
            "2026-11-20T20:16:30.1-00:00 1 [Note] [MY-011825] [Xtrabackup] Done: Streaming ./lab/t1.ibd",
            "file",
            "Done: Streaming ./lab/t1.ibd",
        ),
        ("261120 21:22:56 >> log scanned up to (86639732)", "redo", ">> log scanned up to (86639732)"),
        (
            "2026-11-20T20:16:30.1-00:00 0 [Note] [MY-011825] [Xtrabackup] Executing LOCK INSTANCE FOR BACKUP ...",
            "milestone",
            "Executing LOCK INSTANCE FOR BACKUP ...",
        ),
        (
            "xtrabackup: Starting 2 threads for parallel data files transfer",
            "milestone",
            "Starting 2 threads for parallel data files transfer",
        ),
        (
            "2026-11-20T20:16:30.1-00:00 0 [ERROR] [MY-011825] [Xtrabackup] log copying failed.",
            "error",
            "[ERROR] [MY-011825] [Xtrabackup] log copying failed.",
        ),
        (
            "2026-11-20T20:16:30.1-00:00 0 [ERROR] [MY-011825] [Xtrabackup] failed to execute query "
            "'SELECT * FROM performance_schema.replication_group_members' : 1142 (42000) SELECT command denied",
            "other",
            None,
        ),
        ("[00] 2026-11-20 22:42:12 Warning: option 'datadir' has different values:", "error", None),
        ("", "other", ""),
    ],
)
def test_lines_of_every_version_are_understood(line: str, kind: str, text: str | None) -> None:
    parsed = mysql.parse_backup_line(line)
    assert parsed.kind == kind
    assert text is None or parsed.text == text


def test_prepare_progress_counts_from_the_start_of_recovery() -> None:
    log = lines("prepare-batches")
    upto = next(number for number, line in enumerate(log) if "LSN 1071135567" in line)
    assert prepare_progress(mariadb, log[: upto + 1]).percent == pytest.approx(76.9, abs=0.1)
    assert prepare_progress(mariadb, log).percent == 100.0
    assert prepare_progress(mariadb, log[:10]).percent is None
    assert mariadb.parse_prepare_line(log[-1]).kind == "completed"


def test_prepare_progress_remembers_what_the_log_no_longer_shows() -> None:
    log = lines("prepare-batches")
    upto = next(number for number, line in enumerate(log) if "LSN 1071135567" in line)
    before = prepare_progress(mariadb, log[:upto])
    assert prepare_progress(mariadb, log[upto : upto + 1], before).percent == pytest.approx(76.9, abs=0.1)
    assert prepare_progress(mariadb, log[upto : upto + 1], PrepareProgress(before.begin_lsn, 80.0)).percent == 80.0


def test_prepare_progress_takes_a_batch_for_the_log_that_it_applies() -> None:
    start = "2026-11-20T20:16:30.1-00:00 0 [Note] [MY-011825] [Xtrabackup] xtrabackup_logfile detected: size=8388608, start_lsn=(1000)"
    read = "2026-11-20T20:16:30.1-00:00 0 [Note] [MY-012550] [InnoDB] Doing recovery: scanned up to log sequence number 1500"
    half = "2026-11-20T20:16:31.1-00:00 0 [Note] [MY-012533] [InnoDB] 50%"
    log = [start, read, half]
    assert prepare_progress(mysql, log, last_lsn=2000).percent == 25.0
    assert prepare_progress(mysql, log, last_lsn=2000, memory_bytes=4000).percent == 50.0
    assert prepare_progress(mysql, log[:2], last_lsn=2000).percent is None
    assert mysql.parse_prepare_line(PERCENT).percent == 37.0


def test_stuck_redo_is_found_before_the_tool_fails() -> None:
    log = lines("redo-overrun")
    said = next(number for number, line in enumerate(log) if "Was only able" in line)
    assert stuck_redo(log[: said - 20]) == 206962472
    assert stuck_redo(lines("backup")) is None
    assert stuck_redo(log[:6]) is None


def test_stuck_redo_ignores_retries_that_advance() -> None:
    moving = [f"[00] 2026-11-20 22:30:43 Retrying read of log at LSN={206962472 + number}" for number in range(30)]
    assert stuck_redo(moving) is None
    assert stuck_redo([*moving, *[moving[-1]] * 9]) == 206962501


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("redo-overrun", "backup.redo_overrun"),
        ("broken-pipe", "stream.broken_pipe"),
        ("lock-wait", "backup.lock_wait"),
        ("startup-wait", "backup.lock_wait"),
        ("backup", None),
        ("prepare", None),
        ("prepare-batches", None),
    ],
)
def test_known_failure_finds_the_cause_in_whole_logs(name: str, code: str | None) -> None:
    found = known_failure(lines(name))
    assert (found.code if found else None) == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "[00] 2026-11-20 22:29:15 Failed to connect to MariaDB server: Access denied for user 'bkp'@'localhost' (using password: YES).",
            "backup.access_denied",
        ),
        ("[00] 2026-11-20 22:29:15 Error: missing required privilege RELOAD on *.*", "backup.privilege"),
        (
            "mysqldump: Couldn't execute 'show events': Access denied for user 'dbops'@'localhost' to database 'mysql' (1044)",
            "backup.privilege",
        ),
        (
            "[00] FATAL ERROR: 2026-11-20 22:29:15 failed to execute query SHOW ALL SLAVES STATUS: Access denied; "
            "you need (at least one of) the SUPER, SLAVE MONITOR privilege(s) for this operation",
            "backup.privilege",
        ),
        (
            "Failed to connect to MariaDB server: Can't connect to local server through socket '/x.sock' (2).",
            "backup.connect",
        ),
        ("Failed to connect to MySQL server: Can't connect to MySQL server on '127.0.0.1' (111).", "backup.connect"),
        ("[00] 2026-11-20 22:29:15 Can't open dir ./mysql", "backup.permission"),
        ("Can't change dir to '/d/data' (OS errno 13 - Permission denied)", "backup.permission"),
        ("InnoDB: Operating system error number 13 in a file operation.", "backup.permission"),
        ("[00] 2026-11-20 22:29:16 xb_stream_read_chunk(): wrong chunk magic at offset 0x0.", "stream.garbage"),
        (
            "mbstream: Can't create/write to file './xtrabackup_info' (Errcode: 17 \"File exists\")",
            "stream.create_failed",
        ),
        ("[00] 2026-11-20 22:29:17 mbstream: failed to create file.", "stream.create_failed"),
        ("mbstream: Error writing file './lab/t1.ibd' (Errcode: 28 \"No space left on device\")", "stream.disk_full"),
        ("[00] 2026-11-20 22:29:17 xb_stream_read_chunk(): my_read() failed.", "stream.truncated"),
        ("xtrabackup: Error writing file 'UNOPENED' (Errcode: 32 - Broken pipe)", "stream.broken_pipe"),
        (
            "Failed to connect to MariaDB server: Lost connection to server at 'sending authentication information', "
            'system error: 32 "Broken pipe".',
            "backup.connect",
        ),
        ("Error: failed to execute query BACKUP STAGE FLUSH: Server has gone away", "backup.connect"),
        ("expected log block no. 337435, but got no. 1320355 from the log file.", "backup.redo_overrun"),
        ("could not find redo log file with LSN 154435584", "backup.redo_overrun"),
        ("Cannot open redo log file. Please consider increasing innodb_redo_log_capacity", "backup.redo_overrun"),
        ("InnoDB: An optimized (without redo logging) DDLoperation has been performed.", "backup.schema_change"),
        ("[MY-013598] Redo logging is disabled, cannot take consistent backup", "backup.redo_disabled"),
        ("InnoDB: Error number 24 means 'Too many open files'", "backup.open_files"),
        ("The --slave-info option requires GTID enabled for a multi-threaded slave.", "backup.parallel_without_gtid"),
        ("Unsupported server version: '8.4.10-0ubuntu1'.", "backup.version"),
        ("Unsupported redo log format 1", "backup.version"),
        ("SSL connection error: SSL is required, but the server does not support it.", "backup.tls"),
        ("mariadb-backup: unknown variable 'frobnicate=1'", "backup.option"),
        ("[00] 2026-11-20 22:42:12 Warning: option 'datadir' has different values:", "backup.other_datadir"),
        ("[00] FATAL ERROR: 2026-11-20 22:30:39 Can't open backup-my.cnf for reading", "prepare.no_backup"),
        ("Host key verification failed.", "transport.host_key"),
        ("dbops@192.0.2.7: Permission denied (publickey).", "transport.key_refused"),
        ("ssh: connect to host 192.0.2.7 port 22: Connection refused", "transport.connect"),
        ("Connection closed by 192.0.2.7 port 22", "transport.lost"),
    ],
)
def test_known_failure_has_a_code_for_each_text(line: str, code: str) -> None:
    found = known_failure(["[00] 2026-11-20 22:29:15 Using server version 10.11.19-MariaDB", line])
    assert found is not None
    assert found.code == code


def test_known_failure_prefers_a_cause_to_a_consequence() -> None:
    found = known_failure(
        ["Error writing file 'UNKNOWN' (errno: 32 \"Broken pipe\")", 'Errcode: 28 "No space left on device"']
    )
    assert found is not None
    assert found.code == "stream.disk_full"


def test_lines_of_good_runs_are_no_failures() -> None:
    good = [
        "[00] 2026-11-20 22:24:13 setrlimit failed 22 Invalid argument limit S: 100000 H: 20000",
        "[ERROR] failed to execute query 'SELECT ... performance_schema.replication_group_members' : 1142 command denied to user",
        "Error: cannot open ./mariadb_backup_checkpoints",
    ]
    assert known_failure(good) is None


def test_known_failure_has_an_entry_in_the_error_catalogue() -> None:
    for _, failure in CATALOGUE:
        assert failure.code in ERRORS
        assert failure.sentence == ERRORS[failure.code].summary
    assert len({failure.code for _, failure in CATALOGUE}) == len(CATALOGUE)


def test_parse_backup_line_takes_no_table_of_the_ddl_tracking_for_a_milestone() -> None:
    line = '[00] 2026-11-25 20:00:00 DDL tracking : create 5 "app/t1"'
    assert logs.backup_line(line).kind == "other"
