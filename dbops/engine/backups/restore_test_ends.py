"""What the ends of proofs say of the backups that they were made of: good, bad, in doubt, or nothing. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

#: Ends that say that the backup itself is bad, on whatever host it is restored: its file, its redo log or its tables.
OF_THE_BACKUP = frozenset(
    {"restore_test.damaged", "restore_test.unpack", "restore_test.prepare", "restore_test.tables"}
)
#: Ends that may be the backup's fault as well as that of its surroundings: a key or a plugin that was missing, data that lies elsewhere.
IN_DOUBT = frozenset({"restore_test.start", "restore_test.outside"})


@dataclass(frozen=True, slots=True)
class RestoreTestEnd:
    """How one proof of a backup run ended, and when. ``code`` and ``found`` are those of its error, empty where it was good."""

    run: int
    is_good: bool
    at: datetime
    code: str = ""
    found: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether the backup is known to be bad."""
        return not self.is_good and self.code in OF_THE_BACKUP

    @property
    def is_doubt(self) -> bool:
        """Whether the backup may be bad, and may as well be good."""
        return not self.is_good and self.code in IN_DOUBT


def last_conclusive(ends: Iterable[RestoreTestEnd]) -> dict[int, RestoreTestEnd]:
    """Return by run the last proof that tells something of its backup; a run of which none does is not in it.

    Args:
        ends: of any runs, the oldest first.

    What is clear, good or bad, is replaced by what is clear later, and never by a doubt.
    """
    told: dict[int, RestoreTestEnd] = {}
    for end in ends:
        before = told.get(end.run)
        if end.is_good or end.is_bad or (end.is_doubt and (before is None or before.is_doubt)):
            told[end.run] = end
    return told
