"""What is kept of older backups of a schedule. Pure: rows in, rows out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Kept:
    """A backup that was published and is not known to be removed. ``path`` is its file on the host."""

    pk: int
    run_id: str
    taken_at: datetime
    path: str


def to_remove(
    runs: Iterable[Kept], *, keep_count: int, keep_days: int | None, now: datetime
) -> tuple[tuple[Kept, str], ...]:
    """Return what is removed after a success, oldest first, each with the reason.

    Args:
        runs: the successful runs of one schedule, the newest included.
        keep_count: so many are kept; 0 sets no limit by number.
        keep_days: what is older goes; ``None`` sets no limit by age.

    The newest one stays whatever its age, and nothing is removed that does not carry its own run in its name.
    """
    newest_first = sorted(runs, key=lambda run: (run.taken_at, run.pk), reverse=True)
    found = []
    for place, run in enumerate(newest_first):
        if place == 0 or run.run_id not in run.path.rpartition("/")[2] or not run.path.startswith("/"):
            continue
        if keep_count and place >= keep_count:
            found.append((run, f"the newest {keep_count} are kept"))
        elif keep_days is not None and now - run.taken_at > timedelta(days=keep_days):
            found.append((run, f"it is older than {keep_days} days"))
    return tuple(reversed(found))
