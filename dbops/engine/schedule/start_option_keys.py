"""A start option, and its key in forms."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.blocker import Blocker

#: The format of a moment in a key, in UTC.
STAMP = "%Y%m%dT%H%M%SZ"


class StartMode(StrEnum):
    """The kind of a start option."""

    NOW = "now"
    SOON = "soon"
    ELSEWHERE = "elsewhere"
    AFTER_RUN = "after-run"
    BEFORE_WINDOW = "before-window"
    AFTER_WINDOW = "after-window"
    AFTER_MAINTENANCE = "after-maintenance"
    AT = "at"
    STOP_RUN = "stop-run"


class UnavailableCause(StrEnum):
    """Why a start option is unavailable."""

    BLOCKED = "blocked"  # no start option waits for the blocker
    BUSY = "busy"  # another blocker makes it wait
    NO_SCHEDULE = "no-schedule"
    TOO_SHORT = "too-short"
    TOO_LATE = "too-late"
    NO_DURATION = "no-duration"
    NO_START = "no-start"
    NO_WINDOW_END = "no-window-end"
    PASSED = "passed"
    TOO_FAR = "too-far"


@dataclass(frozen=True, slots=True)
class StartOption:
    """One choice of when and how a rebuild starts. Texts contain no clock times: pages show ``starts``, ``finishes`` and ``window_at``.

    Args:
        key: its value in a form. The same key always means the same start, or is no longer available.
        reason: the effect of the option, or why it is unavailable.
        warnings: what runs alongside.
        problem: the code of the reason if it is unavailable.
        blockers: what delays the start (``now``, ``soon``, ``elsewhere``, ``at``, ``stop-run``).
        slows_reads: the source serves reads.
        not_before, start_by, after_run, stops_run, runs_again: stored with the rebuild. ``start_by`` is the latest start
            at which it would still end before the window by its p90.
    """

    key: str
    way: StartMode
    title: str
    source: str
    is_possible: bool
    reason: str
    starts: TimeEstimate
    finishes: TimeEstimate
    warnings: tuple[Blocker, ...] = ()
    not_before: datetime | None = None
    start_by: datetime | None = None
    start_after_run: int | None = None
    stops_run: int | None = None
    requeue_schedule: str = ""
    window_at: datetime | None = None
    problem: UnavailableCause | None = None
    blockers: tuple[Blocker, ...] = ()
    slows_reads: bool = False

    @property
    def is_deferred(self) -> bool:
        return self.way not in (StartMode.NOW, StartMode.SOON, StartMode.ELSEWHERE)


def moment_key(moment: datetime) -> str:
    """Return the key of a start at a given moment."""
    return f"{StartMode.AT}:{stamp_of(moment)}"


def stamp_of(moment: datetime) -> str:
    """Return a moment as it is written in a key."""
    return f"{moment.astimezone(UTC):{STAMP}}"


def moment_of(key: str) -> datetime | None:
    """Return the moment of a key, ``None`` if it has none."""
    way, _, stamp = key.partition(":")
    if way != StartMode.AT:
        return None
    try:
        return datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
