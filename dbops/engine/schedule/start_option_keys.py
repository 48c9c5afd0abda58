"""The ways to start a rebuild: what one of them is, and the key by which a form names it. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.blocker import Blocker

#: How a key writes a moment, in UTC.
STAMP = "%Y%m%dT%H%M%SZ"


class StartMode(StrEnum):
    """How a rebuild may start."""

    NOW = "now"
    SOON = "soon"
    ELSEWHERE = "elsewhere"
    AFTER_RUN = "after-run"
    BEFORE_WINDOW = "before-window"
    AFTER_WINDOW = "after-window"
    AFTER_MAINTENANCE = "after-maintenance"
    AT = "at"
    STOP_RUN = "stop-run"


class Problem(StrEnum):
    """Why a way to start is not possible."""

    BLOCKED = "blocked"  # by what no start waits for
    BUSY = "busy"  # something else keeps it waiting
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
    """One way to start. Text holds no clock times: pages show ``starts``, ``finishes`` and ``window_at`` in their time zone.

    Args:
        key: names the choice in a form; the same key means the same thing later, or is not offered any more.
        reason: what it means; where it is not possible, why not.
        warnings: what it would run beside.
        problem: the code of why it is not possible.
        blockers: what keeps the rebuild from starting at once (``now``, ``soon``, ``elsewhere``, ``at``, ``stop-run``).
        slows_reads: the source serves reads.
        not_before, start_by, after_run, stops_run, runs_again: what is stored with the rebuild; ``start_by`` is the latest
            start at which it would still end before the window in 9 of 10 cases.
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
    problem: Problem | None = None
    blockers: tuple[Blocker, ...] = ()
    slows_reads: bool = False

    @property
    def is_deferred(self) -> bool:
        return self.way not in (StartMode.NOW, StartMode.SOON, StartMode.ELSEWHERE)


def moment_key(moment: datetime) -> str:
    """Return the key of a start at a moment that a person has named."""
    return f"{StartMode.AT}:{moment.astimezone(UTC):{STAMP}}"


def moment_of(key: str) -> datetime | None:
    """Return the moment that a key names, ``None`` where it names none."""
    way, _, stamp = key.partition(":")
    if way != StartMode.AT:
        return None
    try:
        return datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
