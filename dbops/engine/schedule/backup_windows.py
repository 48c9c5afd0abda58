"""Predict from past runs: how long backups and rebuilds take, the windows of backups, the end of what runs.

Nothing is invented: where no run has ended and no person said what to expect, the end is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from statistics import median

from dbops.engine.states import BackupMethod, RunBy

#: How many of the last runs of a schedule speak for the next one.
LEARNED_RUNS = 20
#: Fewer runs than this do not tell what 9 of 10 take.
LEAST_RUNS = 3
NONE_HAS_ENDED = "none like it has ended yet, so nobody knows how long it takes"
#: Shorter durations have one decimal.
TENTHS_BELOW_SECONDS = 10


class Basis(StrEnum):
    """What a predicted time is based on, or why there is none."""

    UNSTATED = "unstated"
    HISTORY = "history"
    EXPECTATION = "expectation"
    ANNOUNCEMENT = "announcement"
    QUEUE = "queue"
    NO_RUN = "no-run"
    NO_REBUILD = "no-rebuild"
    NO_SIZE = "no-size"
    NO_END = "no-end"
    OVERDUE = "overdue"
    SILENT_HOST = "silent-host"
    APPROVAL = "approval"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Duration:
    """How long something takes: half of the runs at most ``p50_seconds``, 9 of 10 at most ``p90_seconds``.

    ``runs`` is how many past runs say so; 0 means that a person expects it.
    """

    p50_seconds: float
    p90_seconds: float
    runs: int

    @property
    def tells_p90(self) -> bool:
        """Whether there were enough runs to say what 9 of 10 take."""
        return self.runs >= LEAST_RUNS

    @property
    def basis(self) -> Basis:
        """The kind of what the numbers rest on."""
        return Basis.HISTORY if self.runs else Basis.EXPECTATION

    @property
    def words(self) -> str:
        """What the numbers rest on."""
        if self.runs == 0:
            return "as a person expects; none like it has ended yet"
        return "as the last one like it took" if self.runs == 1 else f"from the last {self.runs} like it"


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """When something is expected to end: likely (``p50``) and late (``p90``). ``None`` means unknown; ``words`` say why,
    or what the times rest on, and ``basis`` is the kind of that."""

    p50: datetime | None
    p90: datetime | None
    words: str
    basis: Basis = Basis.UNSTATED

    @property
    def is_known(self) -> bool:
        return self.p50 is not None


@dataclass(frozen=True, slots=True)
class BackupWindow:
    """The interval that one due run of a schedule is expected to take. Ends are ``None`` where nothing is known; ``words`` say
    what they rest on."""

    instance: str
    schedule: str
    method: BackupMethod
    run_by: RunBy
    starts_at: datetime
    ends_p50: datetime | None
    ends_p90: datetime | None
    words: str = NONE_HAS_ENDED
    basis: Basis = Basis.NO_RUN

    @property
    def is_managed(self) -> bool:
        return self.run_by is RunBy.DBOPS


def learn(seconds: Sequence[float], expected_seconds: float | None = None) -> Duration | None:
    """Return how long a run takes.

    Args:
        seconds: of past runs that ended well, the latest first; the first ``LEARNED_RUNS`` count.
        expected_seconds: what a person expects. It counts only where there is no run.
    """
    known = sorted(value for value in seconds[:LEARNED_RUNS] if value >= 0)
    if known:
        return Duration(median(known), known[ceil(0.9 * len(known)) - 1], len(known))
    if expected_seconds is not None:
        return Duration(expected_seconds, expected_seconds, 0)
    return None


@dataclass(frozen=True, slots=True)
class Past:
    """One rebuild that succeeded: its seconds from start to end, and the bytes that it copied, where they are known."""

    seconds: float
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds from start to end. ``duration`` is ``None`` where nothing is known; ``words`` say what it rests on, or why not;
    ``basis`` is the kind of that."""

    duration: Duration | None
    words: str
    basis: Basis = Basis.UNSTATED


def predict(own: Sequence[Past], others: Sequence[Past] = (), *, bytes_to_copy: int | None = None) -> Prediction:
    """Return how long a rebuild of a cluster takes.

    Args:
        own: rebuilds of this cluster, the latest first. Scaled to ``bytes_to_copy`` where both sizes are known.
        others: rebuilds of the other clusters, the latest first. They count where there is none of its own, and only by
            their bytes a second.
        bytes_to_copy: of the source, ``None`` where it was not measured.
    """
    if own:
        duration = learn([_scaled(past, bytes_to_copy) for past in own])
        count = duration.runs if duration else 0
        what = "the last rebuild" if count == 1 else f"the last {count} rebuilds"
        return Prediction(duration, f"from {what} of this cluster", Basis.HISTORY)
    measured = [past for past in others if past.bytes and past.seconds > 0]
    if not measured:
        return Prediction(None, "How long it takes is not known: no rebuild has succeeded here yet.", Basis.NO_REBUILD)
    if bytes_to_copy is None:
        return Prediction(
            None, "How long it takes is not known: the size of the source was not measured yet.", Basis.NO_SIZE
        )
    duration = learn([_scaled(past, bytes_to_copy) for past in measured])
    return Prediction(
        duration, "from the size of the source and the speed of this fleet's other rebuilds", Basis.HISTORY
    )


def _scaled(past: Past, bytes_to_copy: int | None) -> float:
    return past.seconds * bytes_to_copy / past.bytes if past.bytes and bytes_to_copy else past.seconds


def window_at(
    starts_at: datetime,
    *,
    instance: str,
    schedule: str,
    method: BackupMethod,
    run_by: RunBy,
    duration: Duration | None,
) -> BackupWindow:
    """Return the window of a run that is due at ``starts_at``."""
    return BackupWindow(
        instance=instance,
        schedule=schedule,
        method=method,
        run_by=run_by,
        starts_at=starts_at,
        ends_p50=starts_at + timedelta(seconds=duration.p50_seconds) if duration else None,
        ends_p90=starts_at + timedelta(seconds=duration.p90_seconds) if duration else None,
        words=duration.words if duration else NONE_HAS_ENDED,
        basis=duration.basis if duration else Basis.NO_RUN,
    )


def expected_end(started_at: datetime, duration: Duration | None, now: datetime) -> TimeEstimate:
    """Return when a run that began at ``started_at`` and has not ended is expected to end: always later than ``now``.

    Past its median, the likely end is half-way between now and its p90. Past its p90 nothing is known any more: what
    earlier runs did does not tell when this one ends.
    """
    if duration is None:
        return TimeEstimate(None, None, NONE_HAS_ENDED, Basis.NO_RUN)
    taken = max(0.0, (now - started_at).total_seconds())
    if taken >= duration.p90_seconds:
        usual = spell(duration.p90_seconds)
        whose = f"9 of 10 earlier runs took ({usual})" if duration.runs else f"was expected ({usual})"
        return TimeEstimate(None, None, f"it has run for {spell(taken)}, longer than {whose}", Basis.OVERDUE)
    left_late = duration.p90_seconds - taken
    left = duration.p50_seconds - taken if taken < duration.p50_seconds else left_late / 2
    return TimeEstimate(
        now + timedelta(seconds=left), now + timedelta(seconds=left_late), duration.words, duration.basis
    )


def spell(seconds: float) -> str:
    """Return seconds in words: ``4.2 s``, ``42 s``, ``7 min``, ``3 h 05 min``, ``2 d 3 h``."""
    if tenths := in_tenths(seconds):
        return tenths
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def in_tenths(seconds: float) -> str:
    """Return ``4.2 s`` for what is shorter than ten seconds; ``""`` for what is longer, and for whole seconds."""
    tenths = round(max(0.0, seconds), 1)
    return f"{tenths} s" if tenths < TENTHS_BELOW_SECONDS and not float(seconds).is_integer() else ""
