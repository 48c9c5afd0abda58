"""Parse log lines of XtraBackup and mariadb-backup. Their formats differ by version, so lines are searched, not matched in full.

``tests/engine/flavors/samples`` has real lines of 10.11.19, ``tests/engine/recorded`` those of XtraBackup 2.4.9, 2.4.20, 8.0.35
and 8.4.0.
"""

import re
from collections.abc import Sequence

from dbops.engine.flavors.base import LogLine

#: thread, date and time, InnoDB's thread and severity, in any format
_PREFIX = re.compile(
    r"^(?:\[\d+\]\s+)?(?:FATAL ERROR:\s+)?"
    r"(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s+|\d{6}\s+\d\d:\d\d:\d\d\s+)?"
    r"(?:\[\d+\]\s+)?(?:\d+\s+(?=\[))?"
)
_TAGS = re.compile(r"^(?:\[(?:Note|Warning|System|MY-\d+|Xtrabackup|InnoDB|Server)\]\s+)+")
_PROGRAM = re.compile(r"^(?:mariabackup|mariadb-backup|xtrabackup):\s+")

_COMPLETED = re.compile(r"completed OK!\s*$")
_ERROR = re.compile(
    r"FATAL ERROR|\[ERROR\]|\[MY-\d+\].*Error:|\bError(?::| writing| on)|\berror: |[Ff]ailed to connect"
    r"|Can't (?:open|change|create)"
    r"|Unable to obtain lock|Was only able to copy log|\(\) failed|log block numbers mismatch"
    r"|option 'datadir' has different values"
)
#: Successful runs print these too: XtraBackup without SELECT on that table; a tool that looks for the newer metadata names first.
HARMLESS = re.compile(
    r"performance_schema\.replication_group_members|cannot open \./mariadb_backup_checkpoints|setrlimit failed"
)
_REDO = re.compile(r">> log scanned up to \((\d+)\)|Retrying read of log at LSN=(\d+)")
_FILE = re.compile(
    r"(?:Compressing and streaming|Streaming|Copying)\s+(\S.*?)(?:\s+to\s+\S+)?(?:\s+up to position \d+)?\s*$"
    r"|aria table file (\S+) is copied successfully"
    r"|Copied file (\S+) for (?:log )?table"
)
_MILESTONES = (
    r"Using server version",
    r"(?:Executing|Starting|Started|Acquired locks for|Acquiring|Finished) (?:BACKUP|LOCK|FLUSH|UNLOCK)",
    r"Generating a list of tablespaces",
    r"Starting \d+ threads? for parallel data files transfer",
    r"(?:Starting to backup|Finished backing up) non-InnoDB",
    r"Waiting for log copy thread to read lsn \d+",
    # not "Waiting 600 seconds for queries running longer than 60 seconds to finish": every run logs it, with nothing to wait for
    r"Waiting for (?:query|queries)",
    r"Unable to obtain lock",
    r"Killing query",
    r"(?:STOP|Starting|Stopping) (?:SLAVE|slave) SQL",
    r"The latest check point",
    r"All tables unlocked",
    r"binlog position: ",
    r"(?:Transaction log of lsn|Redo log \(from LSN) .* was copied",
)
_MILESTONE = re.compile("|".join(_MILESTONES))
#: "Waiting for query 9 (duration 5 sec): update accounts set ..." and "Killing query 126 (duration 6 sec): ..."
_STATEMENT = re.compile(r"((?:Waiting for|Killing) query \d+ \(duration \d+ sec\)).*")

_OPEN_POSITION = re.compile(r"binlog position: ")
#: The longest position that is joined; less than what is read of a log at once.
SET_CHARACTERS = 32_768

_RECOVER_LSN = re.compile(r"To recover: LSN (\d+)/(\d+)")
_SCANNED = re.compile(r"scanned up to log sequence number (\d+)")
_FIRST_LSN = re.compile(
    r"Starting crash recovery from checkpoint LSN=(\d+)|xtrabackup_logfile detected: .*start_lsn=\((\d+)\)"
)
_PERCENT = re.compile(r"(\d{1,3})%")
_PERCENT_LINE = re.compile(r"recovered pages:|\[MY-012533\]|\[InnoDB\]\s+\d+%\s*$")
_OLD_PERCENT = re.compile(r"Progress in percents?: ([\d ]+)")
_PREPARE_MILESTONES = re.compile(
    r"Applying a batch of|Apply batch completed|Starting an apply batch|Multi-batch recovery needed"
    r"|To recover: \d+ pages|End of log at LSN"
    r"|Read redo log up to|Starting InnoDB instance for recovery|This target seems to be|Starting shutdown|rolled back"
)


def bare(line: str) -> str:
    """Return a line without thread, time and program name, and without the text of users' statements."""
    text = _PREFIX.sub("", line.strip(), count=1)
    text = _TAGS.sub("", text, count=1)
    return _STATEMENT.sub(r"\1", _PROGRAM.sub("", text, count=1)).strip()


def backup_line(line: str) -> LogLine:
    """Parse a line of a backup's log. Lines may be joined (2.4, and the end of mariadb-backup's copy)."""
    text = bare(line)
    if _COMPLETED.search(line):
        return LogLine("completed", text)
    if HARMLESS.search(line):
        return LogLine("other", text)
    if found := _FILE.search(text):
        return LogLine("file", text, path=next(group for group in found.groups() if group))
    if _MILESTONE.search(text) and not _ERROR.search(line):
        return LogLine("milestone", text)
    if _ERROR.search(line):
        return LogLine("error", text)
    if found := _REDO.search(line):
        return LogLine("redo", text, lsn=int(found[1] or found[2]))
    return LogLine("other", text)


def prepare_line(line: str) -> LogLine:
    """Parse a line of a prepare's log. LSNs are absolute: see ``prepare_progress``."""
    text = bare(line)
    if _COMPLETED.search(line):
        return LogLine("completed", text)
    if found := _FIRST_LSN.search(line):
        return LogLine("milestone", text, lsn=int(found[1] or found[2]))
    if found := _RECOVER_LSN.search(line):
        return LogLine("recovery", text, lsn=int(found[1]), done=int(found[1]), total=int(found[2]))
    if found := _SCANNED.search(line):
        return LogLine("recovery", text, lsn=int(found[1]), done=int(found[1]))
    if found := _OLD_PERCENT.search(line):
        return LogLine("recovery", text, percent=float(found[1].split()[-1]))
    if _PERCENT_LINE.search(line) and (numbers := _PERCENT.findall(line)):
        return LogLine("recovery", text, percent=float(numbers[-1]))
    if HARMLESS.search(line):
        return LogLine("other", text)
    if _ERROR.search(line):
        return LogLine("error", text)
    return LogLine("milestone" if _PREPARE_MILESTONES.search(text) else "other", text)


def whole_positions(lines: Sequence[str]) -> tuple[list[str], int]:
    """Join a position whose GTID set has several lines: XtraBackup logs one line for each server's uuid.

    Returns:
        The lines, and how many of the given ones they contain: a position whose end is not logged yet waits for it.
    """
    joined: list[str] = []
    begin = number = 0
    while begin < len(lines):
        number = begin + 1
        text = lines[begin]
        while _OPEN_POSITION.search(text) and text.count("'") % 2 and len(text) < SET_CHARACTERS:
            if number == len(lines):
                return joined, begin
            text += lines[number].strip()
            number += 1
        joined.append(text)
        begin = number
    return joined, begin


def stuck_redo(lines: Sequence[str], times: int = 10) -> int | None:
    """Return the LSN at which mariadb-backup's redo copier is stuck, after ``times`` retries there in a row.

    It retries once a second, to the end of the copy, and only then logs "Was only able to copy log" (measured with 10.11.19: 26
    retries at one LSN, known 29 s before the failure). Fewer retries are no evidence: the bug MDEV-36159 paused the copier too.
    """
    last, seen = None, 0
    for line in lines:
        if "Retrying read of log at LSN=" not in line:
            continue
        found = _REDO.search(line)
        lsn = int(found[2]) if found and found[2] else None
        seen = seen + 1 if lsn == last else 1
        last = lsn
    return last if seen >= times else None
