"""Follow a prepare by the log of the backup tool: how much of the redo log is applied.

XtraBackup prints percentages of one batch, and one batch is all of the log only if its records fit in the memory. XtraBackup 2.4
reads the whole log before its first batch; where one batch is not enough, it reads the log once more, batch by batch (its source).
mariadb-backup prints the LSN that it has reached.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor, LogLine

_BATCH_DONE = re.compile(r"Apply batch completed")
_AFTER_FIRST_READ = re.compile(r"Starting crash recovery\.")


@dataclass(frozen=True, slots=True)
class PrepareProgress:
    """What is known of a running prepare. ``begin_lsn``: where recovery began; ``percent``: the applied share, 0 to 100."""

    begin_lsn: int | None = None
    percent: float | None = None


@dataclass(slots=True)
class _Reading:
    """The state within the log: LSNs up to which the log was read, and up to which batches have applied it."""

    begin: int | None
    end: int | None
    memory_bytes: float
    read: int | None = None
    applied: int | None = None

    def share(self, lsn: int | None, end: int | None = None) -> float:
        """Return an LSN as a share of the log; without an LSN the log's begin."""
        end = end or self.end
        if lsn is None or self.begin is None or end is None or end <= self.begin:
            return 0.0
        return max(0.0, min(1.0, (lsn - self.begin) / (end - self.begin)))

    @property
    def is_one_batch(self) -> bool:
        """Return whether the memory holds all records, so that a percentage of the batch is one of the whole log."""
        return self.begin is not None and self.end is not None and self.end - self.begin <= self.memory_bytes

    def percent(self, line: LogLine) -> float | None:
        """Take one line. Return the applied share that it shows, if any."""
        if line.total is not None:
            return 100 * self.share(line.done, line.total) if self.begin is not None else None
        if line.percent is not None:
            return self._within_batch(line.percent / 100)
        if line.done is not None:
            self.read = line.done
        elif _BATCH_DONE.search(line.text):
            self.applied = max(self.read or 0, self.applied or 0) or None
        elif _AFTER_FIRST_READ.search(line.text) and not self.is_one_batch:
            self.read = None
        return None

    def _within_batch(self, done: float) -> float:
        whole = self.is_one_batch or self.end is None
        begin = 0.0 if whole else self.share(self.applied)
        end = 1.0 if whole else max(begin, self.share(self.read))
        return 100 * (begin + (end - begin) * done)


def prepare_progress(
    flavor: Flavor,
    lines: Iterable[str],
    before: PrepareProgress = PrepareProgress(),  # noqa: B008 - it never changes
    *,
    last_lsn: int | None = None,
    memory_bytes: int = 0,
) -> PrepareProgress:
    """Return the progress by the end of a log, of which ``before`` has seen earlier lines. It never goes back.

    Args:
        last_lsn: where the copied redo log ends; ``None`` if the tool prints it.
        memory_bytes: what the tool may use.
    """
    room = memory_bytes / flavor.prepare_habits(None).memory_per_redo
    reading = _Reading(before.begin_lsn, last_lsn, room)
    percent = before.percent
    for line in map(flavor.parse_prepare_line, lines):
        if line.kind == "milestone" and line.lsn is not None:
            reading.begin = reading.begin or line.lsn
        shown = reading.percent(line)
        if shown is not None:
            percent = max(percent or 0.0, shown)
    return PrepareProgress(reading.begin, percent)
