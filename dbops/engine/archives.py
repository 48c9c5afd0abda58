"""Finished backups that a rebuild may read instead of a running server: which file, how old, and whether binary logs still reach back."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.backups import BackupMethod


@dataclass(frozen=True, slots=True)
class Archive:
    """The file of a managed backup that was found whole when it was published (``engine.backing_up.evidence``).

    ``identity`` is not part of it: a directory may be moved to another disk; ``sha256`` is what the file must have when it arrives.
    ``data_bytes`` is what the tool read, ``None`` where that was not measured; ``gtid`` the position at which the data is, ``""`` where
    the server kept none. ``taken_at`` is when it began: what a change needs to be later than is the end, and what age counts from this.
    """

    run: int
    uid: str
    method: BackupMethod
    instance: str
    path: str
    bytes: int
    sha256: str
    flavor: str
    version: str
    taken_at: datetime
    data_bytes: int | None = None
    gtid: str = ""


def newest(archives: Iterable[Archive], *, instance: str, method: BackupMethod) -> Archive | None:
    """Return the newest backup of an instance by one method, ``None`` where there is none."""
    found = [one for one in archives if one.instance == instance and one.method is method]
    return max(found, key=lambda one: (one.taken_at, one.run), default=None)
