"""List the start options of a rebuild with expected start and end, and why an option is unavailable."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dbops.engine.schedule.backup_windows import BackupWindow, Basis, Prediction, TimeEstimate, spell
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.blockers import find_blockers
from dbops.engine.schedule.conflicts import Effect, MethodTraits
from dbops.engine.schedule.eligibility import all_sources_of, free_from
from dbops.engine.schedule.occupancy import Reservation, reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot
from dbops.engine.schedule.start_option_keys import STAMP, Problem, StartMode, StartOption, moment_key

#: Only windows that begin within this time give start options.
SOON_HOURS = 26
#: The latest start that a person may choose. Backup windows are unknown beyond it.
MOMENT_HOURS = 30


def start_options(
    snapshot: ClusterSnapshot,
    *,
    target: str,
    source: str,
    method: MethodTraits,
    stoppable: Collection[int] = (),
    moment: datetime | None = None,
) -> tuple[StartOption, ...]:
    """Return the start options of a rebuild of ``target`` from ``source``, and from other sources.

    Args:
        moment: a start that a person entered.
        stoppable: ids of the backup runs that the caller can stop and run again.
    """
    asked = _StartRequest(snapshot, reservations_of(snapshot), target, source, method)
    return (
        _now(asked),
        *_elsewhere(asked),
        *(_after_run(asked, job) for job in _runs(asked)),
        *_after_maintenance(asked),
        *_around_windows(asked),
        *([_at_moment(asked, moment)] if moment else []),
        *(_stop_run(asked, job) for job in _runs(asked) if job.run in stoppable),
    )


def chosen_option(offered: Collection[StartOption], key: str) -> StartOption | None:
    """Return the start option of a key, ``None`` if it is gone or unavailable.

    "As soon as possible" may become "now", but "now" never becomes a place in a queue.
    """
    keys = {key, StartMode.NOW.value} if key == StartMode.SOON else {key}
    return next((choice for choice in offered if choice.key in keys and choice.is_possible), None)


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """A request for start options, with the reservations of the snapshot."""

    snapshot: ClusterSnapshot
    used: tuple[Reservation, ...]
    target: str
    source: str
    method: MethodTraits

    def found(self, moment: datetime | None = None, *, source: str = "") -> tuple[Blocker, ...]:
        return find_blockers(
            self.snapshot,
            self.used,
            target=self.target,
            source=source or self.source,
            method=self.method,
            moment=moment,
        )

    def free(self, moment: datetime | None = None, *, source: str = "") -> TimeEstimate:
        return free_from(
            self.snapshot,
            self.used,
            target=self.target,
            source=source or self.source,
            method=self.method,
            moment=moment,
        )

    @property
    def prediction(self) -> Prediction:
        return self.snapshot.predicted(self.source)

    def finish(self, starts: TimeEstimate, *, source: str = "") -> TimeEstimate:
        duration = self.snapshot.predicted(source or self.source).duration
        if starts.p50 is None or starts.p90 is None:
            return TimeEstimate(None, None, starts.reason, starts.basis)
        if duration is None:
            predicted = self.snapshot.predicted(source or self.source)
            return TimeEstimate(None, None, predicted.reason, predicted.basis)
        return TimeEstimate(
            starts.p50 + timedelta(seconds=duration.p50_seconds),
            starts.p90 + timedelta(seconds=duration.p90_seconds),
            self.snapshot.predicted(source or self.source).reason,
            self.snapshot.predicted(source or self.source).basis,
        )

    def warnings(self, moment: datetime | None, *, source: str = "") -> tuple[Blocker, ...]:
        found = self.found(moment, source=source) if moment else ()
        return tuple(blocker for blocker in found if not blocker.stops)

    def forbidden(self, moment: datetime | None = None) -> str:
        """Return the blockers that no start option waits for, as text."""
        blocking = [item for item in self.found(moment) if item.effect is Effect.BLOCKS]
        return " ".join(f"{item.text} {item.reason}" for item in blocking)


def _at(moment: datetime, reason: str) -> TimeEstimate:
    return TimeEstimate(moment, moment, reason)


def _now(asked: _StartRequest) -> StartOption:
    """Return the start now if nothing blocks, a place in the queue if the blockers end, else an unavailable option."""
    found = [item for item in asked.found() if item.stops]
    starts = asked.free()
    if not found:
        way, title, reason = StartMode.NOW, "Now", "No blockers."
        if asked.warnings(asked.snapshot.now):
            reason = "No blockers; see the warning."
    else:
        way, title = StartMode.SOON, "As soon as possible"
        reason = "Queued; starts automatically when these end: " + " ".join(item.text for item in found)
    forbidden = asked.forbidden()
    return StartOption(
        key=way.value,
        way=way,
        title=title,
        source=asked.source,
        is_possible=not forbidden,
        reason=forbidden or reason,
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        problem=Problem.BLOCKED if forbidden else None,
        blockers=tuple(found),
    )


def _elsewhere(asked: _StartRequest) -> Iterator[StartOption]:
    """Yield the start from each other source, with its own plan and checks."""
    for other in all_sources_of(asked.snapshot, asked.target):
        if other == asked.source:
            continue
        found = [item for item in asked.found(source=other) if item.stops]
        starts = asked.free(source=other)
        machine = asked.snapshot.machine(other)
        role = machine.role.value if machine else "replica"
        note = "" if role == "backup" else " Reads on it slow down during the copy."
        blocked = any(item.effect is Effect.BLOCKS for item in found)
        yield StartOption(
            key=f"{StartMode.ELSEWHERE}:{other}",
            way=StartMode.ELSEWHERE,
            title=f"Now from {other}" if not found else f"From {other}, as soon as possible",
            source=other,
            is_possible=not blocked,
            reason=(" ".join(item.text for item in found) or f"{other} is free.") + note,
            starts=starts,
            finishes=asked.finish(starts, source=other),
            warnings=asked.warnings(starts.p50, source=other),
            problem=Problem.BLOCKED if blocked else None,
            blockers=tuple(found),
            slows_reads=bool(note),
        )


def _runs(asked: _StartRequest) -> list[ActiveJob]:
    """Return the active backup runs on source or target that prevent the rebuild."""
    runs = {item.run for item in asked.found() if item.stops and item.run is not None}
    return [job for job in asked.snapshot.jobs if job.run in runs and job.started_at is not None]


def _after_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    ends = next(stay.end for stay in asked.used if stay.job is job)
    starts = asked.free(ends.p50) if ends.p50 else TimeEstimate(None, None, ends.reason, ends.basis)
    if starts.p90 and ends.p90:
        starts = TimeEstimate(starts.p50, max(starts.p90, ends.p90), starts.reason, starts.basis)
    forbidden = asked.forbidden()
    return StartOption(
        key=f"{StartMode.AFTER_RUN}:{job.run}",
        way=StartMode.AFTER_RUN,
        title=f"When {job.name} ends",
        source=asked.source,
        is_possible=not forbidden,
        reason=forbidden or "Starts automatically when that backup run ends, whether or not it succeeds.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        start_after_run=job.run,
        problem=Problem.BLOCKED if forbidden else None,
    )


def _after_maintenance(asked: _StartRequest) -> Iterator[StartOption]:
    """Yield the start after the announced end of the current maintenance."""
    now = asked.snapshot.now
    ends = [stop.ends_at for stop in asked.snapshot.stops if stop.starts_at <= now]
    announced = [end for end in ends if end is not None and end > now]
    if not announced or None in ends:
        return
    last = max(announced)
    starts, problem = asked.free(last), asked.forbidden(last)
    yield StartOption(
        key=f"{StartMode.AFTER_MAINTENANCE}:{last:{STAMP}}",
        way=StartMode.AFTER_MAINTENANCE,
        title="After the maintenance",
        source=asked.source,
        is_possible=not problem,
        reason=problem or "Queued until the announced end of the maintenance.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        not_before=last,
        problem=Problem.BLOCKED if problem else None,
    )


def _around_windows(asked: _StartRequest) -> Iterator[StartOption]:
    """Yield the starts before and after the next window of each schedule on source or target."""
    limit = asked.snapshot.now + timedelta(hours=SOON_HOURS)
    seen: set[str] = set()
    for window in sorted(asked.snapshot.windows, key=lambda item: item.starts_at):
        on_this = window.instance in (asked.source, asked.target)
        if not on_this or window.schedule in seen or not asked.snapshot.now < window.starts_at < limit:
            continue
        seen.add(window.schedule)
        yield _before(asked, window)
        yield _after(asked, window)


def _at_moment(asked: _StartRequest, moment: datetime) -> StartOption:
    """Return the start at a time that a person entered, or as soon as possible after it. A time in the past is unavailable."""
    starts, problem = asked.free(moment), asked.forbidden(moment)
    code = Problem.BLOCKED if problem else None
    if moment > asked.snapshot.now + timedelta(hours=MOMENT_HOURS):
        code = Problem.TOO_FAR
        problem = (
            f"More than {MOMENT_HOURS} hours ahead: backup windows are unknown that far ahead. Choose an earlier time."
        )
    if moment <= asked.snapshot.now:
        code = Problem.PASSED
        problem = "That time has passed. Enter a later time, or choose another option."
        starts = TimeEstimate(None, None, "that time has passed", Basis.PASSED)
    stopping = [item for item in asked.found(moment) if item.stops]
    reason = "Queued until then."
    if stopping:
        reason = "Queued until then; starts when these end: " + " ".join(item.text for item in stopping)
    return StartOption(
        key=moment_key(moment),
        way=StartMode.AT,
        title="At a chosen time",
        source=asked.source,
        is_possible=not problem,
        reason=problem or reason,
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        not_before=moment,
        problem=code,
        blockers=tuple(stopping),
    )


def _too_late(
    asked: _StartRequest, window: BackupWindow, starts: TimeEstimate, start_by: datetime | None
) -> tuple[Problem | None, str]:
    """Return why a rebuild would not end before the window: code and text; empty if it would."""
    duration = asked.prediction.duration
    if blocked := asked.forbidden():
        return Problem.BLOCKED, blocked
    if duration is None or start_by is None:
        return Problem.NO_DURATION, f"No estimate whether the rebuild would end in time. {asked.prediction.reason}"
    if start_by <= asked.snapshot.now:
        spare = spell((window.starts_at - asked.snapshot.now).total_seconds())
        longest = spell(duration.p90_seconds)
        return Problem.TOO_SHORT, f"Too short: {spare} left, p90 duration {longest}."
    if starts.p50 is None:
        return Problem.NO_START, f"No estimate for the start: {starts.reason}."
    if starts.p50 > start_by:
        return Problem.TOO_LATE, "Too late: the rebuild would not end before the backup (p90)."
    return None, ""


def _before(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """Return the earliest start; the rebuild expires if it would overlap the backup."""
    starts, duration, start_by = asked.free(), asked.prediction.duration, None
    if duration is not None:
        start_by = window.starts_at - timedelta(seconds=duration.p90_seconds)
    code, problem = _too_late(asked, window, starts, start_by)
    return StartOption(
        key=f"{StartMode.BEFORE_WINDOW}:{window.schedule}@{window.starts_at:{STAMP}}",
        way=StartMode.BEFORE_WINDOW,
        title=f"Before the backup {window.schedule}",
        source=asked.source,
        is_possible=not problem,
        reason=problem or "Starts as soon as possible. Expires if it would not end before the backup (p90).",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        start_by=start_by,
        window_at=window.starts_at,
        problem=code,
    )


def _after(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """Return the start after the expected end of the window; a longer backup delays it."""
    problem = asked.forbidden(window.ends_p50)
    code = Problem.BLOCKED if problem else None
    starts = (
        asked.free(window.ends_p50)
        if window.ends_p50
        else TimeEstimate(None, None, "the end of the window is unknown", Basis.NO_RUN)
    )
    if window.ends_p50 is None and not problem:
        code, problem = (
            Problem.NO_WINDOW_END,
            "Duration of that backup unknown: no run has ended yet. Once it runs, choose to start when it ends.",
        )
    if starts.p90 and window.ends_p90:
        starts = TimeEstimate(starts.p50, max(starts.p90, window.ends_p90), starts.reason, starts.basis)
    return StartOption(
        key=f"{StartMode.AFTER_WINDOW}:{window.schedule}@{window.starts_at:{STAMP}}",
        way=StartMode.AFTER_WINDOW,
        title=f"After the backup {window.schedule}",
        source=asked.source,
        is_possible=not problem,
        reason=problem or "Queued until the expected end of the backup, and longer if the backup takes longer.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        not_before=window.ends_p50,
        window_at=window.starts_at,
        problem=code,
    )


def _stop_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    """Return the option to stop the run, rebuild, and run the backup again. It requires that nothing else blocks."""
    without = _without(asked, job)
    others = [item for item in without.found() if item.stops]
    starts = _at(asked.snapshot.now, "when the run has stopped")
    problem = " ".join(f"{item.text}" for item in others)
    code = Problem.BUSY if others else None
    if not job.schedule and not problem:
        code = Problem.NO_SCHEDULE
        problem = f"{job.name} has no schedule, so dbops can't run it again."
    done = spell((asked.snapshot.now - job.started_at).total_seconds()) if job.started_at else "0 s"
    return StartOption(
        key=f"{StartMode.STOP_RUN}:{job.run}",
        way=StartMode.STOP_RUN,
        title=f"Stop {job.name}, rebuild, then back up again",
        source=asked.source,
        is_possible=not problem,
        reason=problem
        or f"Discards {done} of backup work. There is no new backup until the schedule has run again. Recorded in the audit log.",
        starts=starts,
        finishes=without.finish(starts),
        warnings=without.warnings(asked.snapshot.now),
        stops_run=job.run,
        start_after_run=job.run,
        requeue_schedule=job.schedule,
        problem=code,
        blockers=tuple(others),
    )


def _without(asked: _StartRequest, job: ActiveJob) -> _StartRequest:
    used = tuple(stay for stay in asked.used if stay.job is not job)
    return _StartRequest(asked.snapshot, used, asked.target, asked.source, asked.method)
