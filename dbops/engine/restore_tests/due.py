"""Which backups are due to be proven, and what the last proof of a source says. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: Ends that say nothing of the backup: the host of the proof, or the way to the file, was not as it has to be.
OF_THE_PLACE = frozenset(
    {
        *("restore_test.no_host", "restore_test.tool", "restore_test.transport"),
        *("restore_test.memory", "restore_test.space", "restore_test.killed", "restore_test.vanished"),
    }
)
#: What the SSH driver says is never of the backup either.
OF_THE_WAY = "ssh."
#: After one of these the same backup is tried again.
AGAIN_AFTER = timedelta(hours=1)


def is_inconclusive(code: str) -> bool:
    """Tell whether a proof that failed with this code says nothing of its backup."""
    return code in OF_THE_PLACE or code.startswith(OF_THE_WAY)


@dataclass(frozen=True, slots=True)
class RestoreTestCandidate:
    """The newest physical backup of a source, both by primary key."""

    source: int
    run: int
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class LastRestoreTest:
    """The last proof of a source: of which run, whether it is over and was good, when it ended or was asked for, its end's code."""

    run: int
    is_over: bool
    is_good: bool
    at: datetime
    code: str = ""

    def is_done_with(self, run: int, now: datetime) -> bool:
        """Tell whether nothing is to be found out by proving a run now, before the interval is over."""
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
    """Return the runs to prove now, the oldest first.

    A source is due when it was never proven, when its last proof is ``interval`` old, or when that proof did not succeed and there
    is a newer backup: that one may be good, and somebody waits to know. One backup is not tried twice within the interval, but an hour
    after a proof that says nothing of it.
    """
    due = []
    for one in newest:
        last = attempts.get(one.source)
        if last is None or (last.is_over and (now - last.at >= interval or not last.is_done_with(one.run, now))):
            due.append(one)
    return [one.run for one in sorted(due, key=lambda one: (one.taken_at, one.run))]


class RestoreState(StrEnum):
    """What is known of restoring a source's backups."""

    TESTED = "tested"
    OLD = "old"
    FAILED = "failed"
    NEVER = "never tested"


@dataclass(frozen=True, slots=True)
class RestoreAge:
    """The newest proof that succeeded, and one that failed since; both ``None`` where there is none. ``code`` is of the failure.

    A proof that says nothing of its backup is none of the two.
    """

    source: str
    tested_at: datetime | None = None
    restore_test_run: int | None = None
    failed_at: datetime | None = None
    failed_run: int | None = None
    code: str = ""

    def state(self, now: datetime, old_after: timedelta) -> RestoreState:
        """Return the one word for it: a failure that nothing good has followed comes before every age."""
        if self.failed_at is not None and (self.tested_at is None or self.failed_at > self.tested_at):
            return RestoreState.FAILED
        if self.tested_at is None:
            return RestoreState.NEVER
        return RestoreState.OLD if now - self.tested_at > old_after else RestoreState.TESTED
