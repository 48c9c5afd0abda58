"""Judge backups by the ends of their restore tests: good, bad, in doubt, or inconclusive."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

#: Error codes of a bad backup, regardless of the host: its file, redo log or tables.
OF_THE_BACKUP = frozenset(
    {"restore_test.damaged", "restore_test.unpack", "restore_test.prepare", "restore_test.tables"}
)
#: Error codes that may be caused by the backup or by its surroundings: a missing key or plugin, data in other places.
IN_DOUBT = frozenset({"restore_test.start", "restore_test.outside"})


@dataclass(frozen=True, slots=True)
class RestoreTestEnd:
    """The end of one restore test of a run. ``code`` and ``found`` are of its error, empty if it succeeded."""

    run: int
    is_good: bool
    at: datetime
    code: str = ""
    found: str = ""

    @property
    def is_bad(self) -> bool:
        """Return whether the backup is known to be bad."""
        return not self.is_good and self.code in OF_THE_BACKUP

    @property
    def is_doubt(self) -> bool:
        """Return whether the backup may be bad."""
        return not self.is_good and self.code in IN_DOUBT


def last_conclusive(ends: Iterable[RestoreTestEnd]) -> dict[int, RestoreTestEnd]:
    """Return the last conclusive restore test by run; runs without one are left out.

    Args:
        ends: of any runs, oldest first.

    A clear result is replaced by a later clear result, never by a doubt.
    """
    found: dict[int, RestoreTestEnd] = {}
    for end in ends:
        before = found.get(end.run)
        if end.is_good or end.is_bad or (end.is_doubt and (before is None or before.is_doubt)):
            found[end.run] = end
    return found
