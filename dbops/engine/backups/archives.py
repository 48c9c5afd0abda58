"""Choose the finished backup that a rebuild reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.states import BackupMethod


@dataclass(frozen=True, slots=True)
class Archive:
    """The file of a managed backup that passed the completeness check.

    ``identity`` is left out, because a directory may move to another disk. ``sha256`` is checked on arrival.
    ``data_bytes`` is the size of the source data, ``None`` if not measured. ``gtid`` is the position of the data,
    ``""`` if the server has none. ``taken_at`` is the start of the backup, from which its age counts.
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


def newest(
    archives: Iterable[Archive],
    *,
    instance: str,
    method: BackupMethod,
    restore_tests: Mapping[int, RestoreTestEnd] | None = None,
) -> Archive | None:
    """Return the newest backup of an instance by one method, unless a restore test found it bad.

    Args:
        archives: of any instances and methods.
        instance: name of the instance.
        method: by which the backup was made.
        restore_tests: by run, its last conclusive restore test.

    A backup in doubt is used only if there is no other. If all are known to be bad, the result is the newest of these, which
    ``engine.planning.checks.archive`` refuses. The result is ``None`` without any backup.
    """
    found = [one for one in archives if one.instance == instance and one.method is method]
    said = restore_tests or {}
    sound = [one for one in found if not is_known_bad(one, said)]
    clear = [one for one in sound if not (one.run in said and said[one.run].is_doubt)]
    return max(clear or sound or found, key=lambda one: (one.taken_at, one.run), default=None)


def is_known_bad(archive: Archive, restore_tests: Mapping[int, RestoreTestEnd]) -> bool:
    """Return whether the last conclusive restore test found the backup bad."""
    return archive.run in restore_tests and restore_tests[archive.run].is_bad
