"""Finished backups that a rebuild may read instead of a running server: which files there are, and which of them is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.states import BackupMethod


@dataclass(frozen=True, slots=True)
class Archive:
    """The file of a managed backup that was found whole when it was published (``engine.backups.completeness``).

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


def newest(
    archives: Iterable[Archive],
    *,
    instance: str,
    method: BackupMethod,
    restore_tests: Mapping[int, RestoreTestEnd] | None = None,
) -> Archive | None:
    """Return the backup that is read: the newest of an instance by one method that is not known to be bad.

    Args:
        archives: of any instances and methods.
        instance: name of the instance.
        method: by which the backup was made.
        proofs: by run, the last proof that tells something of it.

    One in doubt is passed over as long as there is another. Where all are known to be bad it is the newest of these, and whoever
    plans has to refuse it (``engine.planning.checks.archive``); ``None`` where there is none at all.
    """
    found = [one for one in archives if one.instance == instance and one.method is method]
    said = restore_tests or {}
    sound = [one for one in found if not is_known_bad(one, said)]
    clear = [one for one in sound if not (one.run in said and said[one.run].is_doubt)]
    return max(clear or sound or found, key=lambda one: (one.taken_at, one.run), default=None)


def is_known_bad(archive: Archive, restore_tests: Mapping[int, RestoreTestEnd]) -> bool:
    """Tell whether the last proof that tells something of a backup found it bad."""
    return archive.run in restore_tests and restore_tests[archive.run].is_bad
