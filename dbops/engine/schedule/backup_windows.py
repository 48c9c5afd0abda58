"""Predict durations, backup windows and ends from past runs.

Without an ended run or an expected duration set by a person, the end is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from statistics import median

from dbops.engine.phrases import phrase, phrases
from dbops.engine.states import BackupMethod, RunBy

#: The number of latest runs that count for the next one.
LEARNED_RUNS = 20
#: The minimum number of runs for a p90.
LEAST_RUNS = 3
NONE_HAS_ENDED = phrase("no earlier run")
#: Durations below this show one decimal.
TENTHS_BELOW_SECONDS = 10


class Basis(StrEnum):
    """The basis of a predicted time, or the reason why there is none."""

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
    """A duration: ``p50_seconds`` and ``p90_seconds``.

    ``runs`` is the number of past runs behind it; 0 means that a person set it.
    """

    p50_seconds: float
    p90_seconds: float
    runs: int

    @property
    def has_p90(self) -> bool:
        """Whether there were enough runs for a p90."""
        return self.runs >= LEAST_RUNS

    @property
    def basis(self) -> Basis:
        """The kind of the basis of the numbers."""
        return Basis.HISTORY if self.runs else Basis.EXPECTATION

    @property
    def reason(self) -> str:
        """The basis of the numbers as text."""
        if self.runs == 0:
            return phrase("from the configured duration")
        return phrases("from the last run", "from the last {number} runs", self.runs)


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The expected end: likely (``p50``) and late (``p90``). ``None`` means unknown.

    ``reason`` is the basis or the reason why there is none, and ``basis`` its kind.
    """

    p50: datetime | None
    p90: datetime | None
    reason: str
    basis: Basis = Basis.UNSTATED

    @property
    def is_known(self) -> bool:
        return self.p50 is not None


@dataclass(frozen=True, slots=True)
class BackupWindow:
    """The interval that one due run of a schedule is expected to take. Ends are ``None`` if unknown; ``reason`` is the basis."""

    instance: str
    schedule: str
    method: BackupMethod
    run_by: RunBy
    starts_at: datetime
    ends_p50: datetime | None
    ends_p90: datetime | None
    reason: str = NONE_HAS_ENDED
    basis: Basis = Basis.NO_RUN

    @property
    def is_managed(self) -> bool:
        return self.run_by is RunBy.DBOPS


def learn(seconds: Sequence[float], expected_seconds: float | None = None) -> Duration | None:
    """Return how long a run takes.

    Args:
        seconds: of past runs that succeeded, the latest first; the first ``LEARNED_RUNS`` count.
        expected_seconds: set by a person. It counts only without a past run.
    """
    known = sorted(value for value in seconds[:LEARNED_RUNS] if value >= 0)
    if known:
        return Duration(median(known), known[ceil(0.9 * len(known)) - 1], len(known))
    if expected_seconds is not None:
        return Duration(expected_seconds, expected_seconds, 0)
    return None


@dataclass(frozen=True, slots=True)
class Past:
    """One rebuild that succeeded: its seconds from start to end, and its copied bytes if known."""

    seconds: float
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds from start to end. ``duration`` is ``None`` if unknown.

    ``reason`` is the basis or the reason why there is none, and ``basis`` its kind.
    """

    duration: Duration | None
    reason: str
    basis: Basis = Basis.UNSTATED


def predict(own: Sequence[Past], others: Sequence[Past] = (), *, bytes_to_copy: int | None = None) -> Prediction:
    """Return how long a rebuild of a cluster takes.

    Args:
        own: rebuilds of this cluster, the latest first. Scaled to ``bytes_to_copy`` if both sizes are known.
        others: rebuilds of the other clusters, the latest first. They count only if the cluster has none of its own, and
            only by their bytes a second.
        bytes_to_copy: of the source, ``None`` if it was not measured.
    """
    if own:
        duration = learn([_scaled(past, bytes_to_copy) for past in own])
        reason = phrases(
            "from the last rebuild of this cluster",
            "from the last {number} rebuilds of this cluster",
            duration.runs if duration else 0,
        )
        return Prediction(duration, reason, Basis.HISTORY)
    measured = [past for past in others if past.bytes and past.seconds > 0]
    if not measured:
        return Prediction(None, phrase("Duration unknown: no successful rebuild yet."), Basis.NO_REBUILD)
    if bytes_to_copy is None:
        return Prediction(None, phrase("Duration unknown: source size not measured yet."), Basis.NO_SIZE)
    duration = learn([_scaled(past, bytes_to_copy) for past in measured])
    return Prediction(duration, phrase("from the source size and the rate of other clusters' rebuilds"), Basis.HISTORY)


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
    """Return the window of a backup run that is due at ``starts_at``."""
    return BackupWindow(
        instance=instance,
        schedule=schedule,
        method=method,
        run_by=run_by,
        starts_at=starts_at,
        ends_p50=starts_at + timedelta(seconds=duration.p50_seconds) if duration else None,
        ends_p90=starts_at + timedelta(seconds=duration.p90_seconds) if duration else None,
        reason=duration.reason if duration else NONE_HAS_ENDED,
        basis=duration.basis if duration else Basis.NO_RUN,
    )


def expected_end(started_at: datetime, duration: Duration | None, now: datetime) -> TimeEstimate:
    """Return the expected end of an active run that began at ``started_at``: always later than ``now``.

    Past its p50, the likely end is half-way between now and its p90. Past its p90 the end is unknown: earlier runs do not
    predict it.
    """
    if duration is None:
        return TimeEstimate(None, None, NONE_HAS_ENDED, Basis.NO_RUN)
    taken = max(0.0, (now - started_at).total_seconds())
    if taken >= duration.p90_seconds:
        usual, runs = spell(duration.p90_seconds), spell(taken)
        reason = (
            phrase("running for {taken}, longer than the p90 of earlier runs ({usual})", taken=runs, usual=usual)
            if duration.runs
            else phrase("running for {taken}, longer than the configured duration ({usual})", taken=runs, usual=usual)
        )
        return TimeEstimate(None, None, reason, Basis.OVERDUE)
    left_late = duration.p90_seconds - taken
    left = duration.p50_seconds - taken if taken < duration.p50_seconds else left_late / 2
    return TimeEstimate(
        now + timedelta(seconds=left), now + timedelta(seconds=left_late), duration.reason, duration.basis
    )


def spell(seconds: float) -> str:
    """Return seconds as text: ``4.2 s``, ``42 s``, ``7 min``, ``3 h 05 min``, ``2 d 3 h``."""
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
    """Return ``4.2 s`` for less than ten seconds, ``< 0.1 s`` at least; ``""`` for longer durations and whole seconds."""
    seconds = max(0.0, float(seconds))
    tenths = round(seconds, 1)
    return f"{tenths or '< 0.1'} s" if tenths < TENTHS_BELOW_SECONDS and not seconds.is_integer() else ""
