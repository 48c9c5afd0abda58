"""When writes on a server wait for its backup tool, and for how long they did, by the tool's log."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.facts.instance import ServerFacts
from dbops.engine.flavors.base import Flavor, parse_pairs
from dbops.engine.flavors.engines import locked
from dbops.engine.flavors.versions import parse_version
from dbops.engine.phrases import phrase

#: More is a point in time, not a duration.
LONGEST_SECONDS = 365 * 24 * 3600
_BEGIN = re.compile(
    r"Executing FLUSH TABLES WITH READ LOCK|Executing LOCK BINLOG FOR BACKUP|(?:Starting|Acquired locks for) BACKUP STAGE BLOCK_COMMIT"
)
_END = re.compile(r"All tables unlocked|Executing UNLOCK (?:TABLES|BINLOG)|Executing BACKUP STAGE END")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)|(?<!\d)(\d{6}) +(\d\d:\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class WriteLock:
    """What a log has shown so far. ``since`` is the tool's time at which the lock was requested, ``None`` outside of it."""

    since: str | None = None
    seconds: float | None = None


def follow_write_lock(lines: Iterable[str], before: WriteLock = WriteLock()) -> WriteLock:  # noqa: B008 - it never changes
    """Return for how long writes waited by these lines of a log, of which ``before`` has seen the earlier ones."""
    since, seconds = before.since, before.seconds
    for line in lines:
        is_begin, is_end = _BEGIN.search(line), _END.search(line)
        found = _TIME.search(line) if is_begin or is_end else None
        if found is None:
            continue
        now = _moment(found)
        if is_begin:
            since = since or now.isoformat()
        elif since is not None:
            seconds = (seconds or 0.0) + max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
            since = None
    return WriteLock(since, seconds)


def write_lock_seconds(flavor: Flavor, lines: Iterable[str], info: str) -> float | None:
    """Return for how long writes waited: by a log, else by the tool's record ``info``, in whole seconds; ``None`` if unknown.

    A log can be cut: XtraBackup 2.4 logs each file during the lock. Only XtraBackup's record counts: mariadb-backup writes a point in
    time there (seen with 10.11.19).
    """
    seconds = follow_write_lock(lines).seconds
    recorded = parse_pairs(info).get("lock_time", "")
    is_duration = flavor.name == "mysql" and recorded.isdigit() and int(recorded) < LONGEST_SECONDS
    return float(recorded) if seconds is None and is_duration else seconds


def _moment(found: re.Match[str]) -> datetime:
    if found[1]:
        return datetime.fromisoformat(f"{found[1]} {found[2]}")
    return datetime.strptime(f"{found[3]} {found[4]}", "%y%m%d %H:%M:%S")  # noqa: DTZ007 - only differences count


def when_writes_wait(server: ServerFacts) -> tuple[bool, str]:
    """Return whether writes wait while files are copied, and when they wait, as a sentence.

    XtraBackup 2.4 takes ``FLUSH TABLES WITH READ LOCK`` in every run, also with GTID and InnoDB alone, and keeps it while it sends
    all files that are not InnoDB's, with those of each table's definition (measured with 2.4.20 and MySQL 5.7.29). From 8.0 on it does so
    only for tables of other engines or positions without GTID. mariadb-backup blocks commits in its last stage (measured with
    10.11.19), and before 10.5 takes the global read lock, too.
    """
    version = parse_version(server.version)
    if server.flavor == "mariadb":
        if version < (10, 5, 0):
            return True, phrase(
                "mariadb-backup takes a global read lock while it copies all files that are not InnoDB's."
            )
        return False, phrase("Commits wait for a moment at the end (BACKUP STAGE BLOCK_COMMIT).")
    if version < (8, 0, 0):
        return (
            True,
            phrase(
                "XtraBackup 2.4 takes a global read lock in every run, while it copies all files that are not InnoDB's."
            ),
        )
    if locked(server.foreign_engines):
        return True, phrase("XtraBackup takes a global read lock while it copies tables that are not InnoDB.")
    if not server.gtid_enabled:
        return True, phrase("XtraBackup takes a global read lock to read a position without GTID.")
    return False, phrase("Only schema changes wait (LOCK INSTANCE FOR BACKUP).")
