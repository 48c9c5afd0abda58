"""Decide which backups are due for a restore test, and the restore test state of each source."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: Error codes that say nothing of the backup: the test host, or its access to the file, had a problem.
OF_THE_PLACE = frozenset(
    {
        *("restore_test.no_host", "restore_test.tool", "restore_test.transport"),
        *("restore_test.memory", "restore_test.space", "restore_test.killed", "restore_test.vanished"),
        "restore_test.failed",  # no program blamed the backup
    }
)
#: Errors of the SSH driver say nothing of the backup either.
OF_THE_WAY = "ssh."
#: After these errors the same backup is tested again.
AGAIN_AFTER = timedelta(hours=1)


def is_inconclusive(code: str) -> bool:
    """Return whether a restore test that failed with this code says nothing of its backup."""
    return code in OF_THE_PLACE or code.startswith(OF_THE_WAY)


@dataclass(frozen=True, slots=True)
class RestoreTestCandidate:
    """The newest physical backup of a source, both by primary key."""

    source: int
    run: int
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class LastRestoreTest:
    """The last restore test of a source: its run, result, time (end or request) and error code."""

    run: int
    is_over: bool
    is_good: bool
    at: datetime
    code: str = ""

    def is_done_with(self, run: int, now: datetime) -> bool:
        """Return whether a restore test of a run now, before the interval is over, would find nothing new."""
        if is_inconclusive(self.code):
            return now - self.at < AGAIN_AFTER
        return self.is_good or run <= self.run


def due_runs(
    newest: Iterable[RestoreTestCandidate],
    attempts: Mapping[int, LastRestoreTest],
    *,
    now: datetime,
    interval: timedelta,
) -> list[int]:
    """Return the runs to test now, oldest first.

    A source is due if it was never tested, if its last restore test is ``interval`` old, or if that test failed and
    there is a newer backup. One backup is not tested twice within the interval, except an hour after an inconclusive
    test.
    """
    due = []
    for one in newest:
        last = attempts.get(one.source)
        if last is None or (last.is_over and (now - last.at >= interval or not last.is_done_with(one.run, now))):
            due.append(one)
    return [one.run for one in sorted(due, key=lambda one: (one.taken_at, one.run))]


class RestoreState(StrEnum):
    """The restore test state of a source's backups."""

    TESTED = "tested"
    OLD = "old"
    FAILED = "failed"
    NEVER = "never tested"


@dataclass(frozen=True, slots=True)
class RestoreAge:
    """The newest successful restore test, and a later failed one; ``None`` if there is none.

    ``code`` is of the failure.

    Inconclusive restore tests count as neither.
    """

    source: str
    tested_at: datetime | None = None
    restore_test_run: int | None = None
    failed_at: datetime | None = None
    failed_run: int | None = None
    code: str = ""

    def state(self, now: datetime, old_after: timedelta) -> RestoreState:
        """Return the state: a failure without a later success comes before the age."""
        if self.failed_at is not None and (self.tested_at is None or self.failed_at > self.tested_at):
            return RestoreState.FAILED
        if self.tested_at is None:
            return RestoreState.NEVER
        return RestoreState.OLD if now - self.tested_at > old_after else RestoreState.TESTED
