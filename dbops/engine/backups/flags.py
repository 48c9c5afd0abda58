"""Flag unusual backup runs: late, too long, too small, too large.

The limits: wmfbackups warns at 5 % and calls 15 % critical, against the backup before, for databases that hardly
change within a day. Here a flag should be worth reading each time, so the limit is 15 % of the median of the last
runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

#: Number of past runs that count, newest first.
HISTORY_RUNS = 20
#: Number of past sizes that count: sizes grow with the data.
SIZE_RUNS = 5
MINIMUM_SIZES = 3
MINIMUM_DURATIONS = 5
SIZE_SHARE = 0.15
#: Smaller differences are never flagged: a small database can double within a day.
SIZE_SLACK_BYTES = 300_000
#: Limit without a history: an empty archive, or a dump with only its header.
NOTHING_BYTES = 2_000
#: One run in ten exceeds the 90th percentile: a flagged run exceeds it by this factor.
LONG_SHARE = 1.25
LONG_SLACK_SECONDS = 60.0


class RunFlag(StrEnum):
    """Codes in ``BackupRun.flags``."""

    LATE = "late"
    TOO_LONG = "too_long"
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The compared figures of one run. ``seconds`` is its duration, or its time so far. Unknown is ``None``."""

    due_at: datetime | None = None
    started_at: datetime | None = None
    seconds: float | None = None
    bytes: int | None = None
    is_succeeded: bool = False


def flags_of(
    run: RunFigures,
    history: Sequence[RunFigures],
    *,
    now: datetime,
    late_after_seconds: int = 900,
    expected_seconds: int | None = None,
) -> list[str]:
    """Return the flags of a run, in the order of ``RunFlag``.

    Args:
        history: its successful predecessors, newest first.
        late_after_seconds: a run that starts later than this after its due time is late.
        expected_seconds: the expected duration, used below ``MINIMUM_DURATIONS`` runs.
    """
    flags = [
        RunFlag.LATE if is_late(run, now, late_after_seconds) else None,
        RunFlag.TOO_LONG if is_too_long(run, history, expected_seconds) else None,
        *_by_size(run, history),
    ]
    return [flag.value for flag in flags if flag]


def is_late(run: RunFigures, now: datetime, late_after_seconds: int) -> bool:
    """Return whether a run started, or still waits, later than allowed. A run without a due time is never late."""
    if run.due_at is None:
        return False
    return ((run.started_at or now) - run.due_at).total_seconds() > late_after_seconds


def is_too_long(run: RunFigures, history: Sequence[RunFigures], expected_seconds: int | None) -> bool:
    """Return whether a run takes longer than its history or its expected duration allows."""
    usual = usual_seconds(history, expected_seconds)
    return usual is not None and run.seconds is not None and run.seconds > usual * LONG_SHARE + LONG_SLACK_SECONDS


def usual_seconds(history: Sequence[RunFigures], expected_seconds: int | None) -> float | None:
    """Return the 90th percentile of the last runs, the expected duration if there are few, or ``None``."""
    known = [item.seconds for item in history[:HISTORY_RUNS] if item.seconds is not None]
    return percentile(known, 0.9) if len(known) >= MINIMUM_DURATIONS else expected_seconds


def _by_size(run: RunFigures, history: Sequence[RunFigures]) -> list[RunFlag]:
    if run.bytes is None or not run.is_succeeded:
        return []  # failed runs are flagged by their status
    known = [item.bytes for item in history if item.bytes is not None][:SIZE_RUNS]
    if len(known) < MINIMUM_SIZES:
        return [RunFlag.SMALL] if run.bytes < NOTHING_BYTES else []
    usual = median(known)
    difference = run.bytes - usual
    if abs(difference) <= max(SIZE_SHARE * usual, SIZE_SLACK_BYTES) and not run.bytes < NOTHING_BYTES <= usual:
        return []
    return [RunFlag.SMALL if difference < 0 else RunFlag.LARGE]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of all values do not exceed.

    Raises ``ValueError`` without values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
