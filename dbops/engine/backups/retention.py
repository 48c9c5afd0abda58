"""Choose the older backups of a schedule that retention removes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A published backup without a recorded removal. ``path`` is its file on the host.

    ``is_restore_tested``: its last conclusive restore test succeeded.
    """

    pk: int
    run_id: str
    taken_at: datetime
    path: str
    is_restore_tested: bool = False


def to_remove(
    runs: Iterable[StoredBackup], *, keep_count: int | None, keep_days: int | None, now: datetime
) -> tuple[tuple[StoredBackup, str], ...]:
    """Return the backups that are removed after a success, oldest first, each with the reason.

    Args:
        runs: the successful runs of one schedule, the newest included.
        keep_count: the maximum number of backups to keep, at least 1; ``None`` sets no limit.
        keep_days: backups that are older are removed too, also where fewer than ``keep_count`` are left; ``None`` sets no limit.

    The newest backup and the newest restore-tested one always stay. A file without its run in its name is never removed.
    """
    known = list(runs)
    stays = newest_tested(known)
    return tuple((run, why) for run, why in _beyond(known, keep_count, keep_days, now) if run != stays)


def spared(
    runs: Iterable[StoredBackup], *, keep_count: int | None, keep_days: int | None, now: datetime
) -> StoredBackup | None:
    """Return the backup that is kept only because no newer one is restore-tested, or ``None``.

    Arguments as for ``to_remove``.
    """
    known = list(runs)
    stays = newest_tested(known)
    return next((run for run, _ in _beyond(known, keep_count, keep_days, now) if run == stays), None)


def newest_tested(runs: Iterable[StoredBackup]) -> StoredBackup | None:
    """Return the newest restore-tested backup, or ``None``."""
    return max((run for run in runs if run.is_restore_tested), key=_age, default=None)


def _age(run: StoredBackup) -> tuple[datetime, int]:
    return run.taken_at, run.pk


def _beyond(
    runs: Iterable[StoredBackup], keep_count: int | None, keep_days: int | None, now: datetime
) -> tuple[tuple[StoredBackup, str], ...]:
    """Return the backups beyond the maximum number or age, oldest first, each with the reason."""
    found = []
    for place, run in enumerate(sorted(runs, key=_age, reverse=True)):
        if place == 0 or run.run_id not in run.path.rpartition("/")[2] or not run.path.startswith("/"):
            continue
        if keep_count is not None and place >= keep_count:
            found.append((run, f"more than {keep_count} backups"))
        elif keep_days is not None and now - run.taken_at > timedelta(days=keep_days):
            found.append((run, f"older than {keep_days} days"))
    return tuple(reversed(found))
