"""Every way to start a rebuild, each with its predicted start and finish, and whether it is possible and why not. Pure."""

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

#: Only windows that begin within this time are offered to be gone round.
SOON_HOURS = 26
#: A person may name a moment so far ahead. Later, the windows that it might run into are not known yet.
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
    """Return every way to start a rebuild of ``target`` from ``source``, and from the others.

    Args:
        moment: one that a person has named.
        stoppable: backup runs that the caller can end and start again, by number: those that dbops manages, and those whose
            process was found on the host.
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
    """Return the choice that a form named, ``None`` where it is not offered any more, or not possible.

    Who was content to wait is content to start now. Who was promised now does not silently get a place in a line.
    """
    keys = {key, StartMode.NOW.value} if key == StartMode.SOON else {key}
    return next((choice for choice in offered if choice.key in keys and choice.is_possible), None)


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """What is asked, with the stays of the picture at hand."""

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
            return TimeEstimate(None, None, starts.words, starts.basis)
        if duration is None:
            predicted = self.snapshot.predicted(source or self.source)
            return TimeEstimate(None, None, predicted.words, predicted.basis)
        return TimeEstimate(
            starts.p50 + timedelta(seconds=duration.p50_seconds),
            starts.p90 + timedelta(seconds=duration.p90_seconds),
            self.snapshot.predicted(source or self.source).words,
            self.snapshot.predicted(source or self.source).basis,
        )

    def warnings(self, moment: datetime | None, *, source: str = "") -> tuple[Blocker, ...]:
        found = self.found(moment, source=source) if moment else ()
        return tuple(blocker for blocker in found if not blocker.stops)

    def forbidden(self, moment: datetime | None = None) -> str:
        """Say what refuses a rebuild that starts at that moment: it is not waited for, whatever start is chosen."""
        blocking = [item for item in self.found(moment) if item.effect is Effect.BLOCKS]
        return " ".join(f"{item.text} {item.reason}" for item in blocking)


def _at(moment: datetime, words: str) -> TimeEstimate:
    return TimeEstimate(moment, moment, words)


def _now(asked: _StartRequest) -> StartOption:
    """Now where nothing stops it; in line where it only waits; not at all where something blocks."""
    found = [item for item in asked.found() if item.stops]
    starts = asked.free()
    if not found:
        way, title, reason = StartMode.NOW, "Now", "Nothing stands in the way."
        if asked.warnings(asked.snapshot.now):
            reason = "Nothing stops it; see the warning."
    else:
        way, title = StartMode.SOON, "As soon as it can"
        reason = "It is queued, and starts by itself when nothing stands in the way: " + " ".join(
            item.text for item in found
        )
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
    """The same from each other source: a plan of its own, with checks of its own."""
    for other in all_sources_of(asked.snapshot, asked.target):
        if other == asked.source:
            continue
        found = [item for item in asked.found(source=other) if item.stops]
        starts = asked.free(source=other)
        machine = asked.snapshot.machine(other)
        role = machine.role.value if machine else "replica"
        note = "" if role == "backup" else " It serves reads, which get slower meanwhile."
        blocked = any(item.effect is Effect.BLOCKS for item in found)
        yield StartOption(
            key=f"{StartMode.ELSEWHERE}:{other}",
            way=StartMode.ELSEWHERE,
            title=f"Now from {other}" if not found else f"From {other}, as soon as it can",
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
    """Return the backup runs that are at work on source or target and stop the rebuild."""
    runs = {item.run for item in asked.found() if item.stops and item.run is not None}
    return [job for job in asked.snapshot.jobs if job.run in runs and job.started_at is not None]


def _after_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    ends = next(stay.end for stay in asked.used if stay.job is job)
    starts = asked.free(ends.p50) if ends.p50 else TimeEstimate(None, None, ends.words, ends.basis)
    if starts.p90 and ends.p90:
        starts = TimeEstimate(starts.p50, max(starts.p90, ends.p90), starts.words, starts.basis)
    forbidden = asked.forbidden()
    return StartOption(
        key=f"{StartMode.AFTER_RUN}:{job.run}",
        way=StartMode.AFTER_RUN,
        title=f"When {job.name} ends",
        source=asked.source,
        is_possible=not forbidden,
        reason=forbidden or "It is queued, and starts by itself when that run has ended, however it ends.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        start_after_run=job.run,
        problem=Problem.BLOCKED if forbidden else None,
    )


def _after_maintenance(asked: _StartRequest) -> Iterator[StartOption]:
    """When the maintenance of now is over, as it was announced."""
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
        reason=problem or "It is queued until the maintenance ends as it was announced.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        not_before=last,
        problem=Problem.BLOCKED if problem else None,
    )


def _around_windows(asked: _StartRequest) -> Iterator[StartOption]:
    """Before and after the next window of each schedule on source or target."""
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
    """At a time that a person has named, or as soon after it as it can. One that has passed is shown, and not possible."""
    starts, problem = asked.free(moment), asked.forbidden(moment)
    code = Problem.BLOCKED if problem else None
    if moment > asked.snapshot.now + timedelta(hours=MOMENT_HOURS):
        code = Problem.TOO_FAR
        problem = (
            f"That is more than {MOMENT_HOURS} hours ahead: the backups that it might run into are not looked at yet."
        )
    if moment <= asked.snapshot.now:
        code = Problem.PASSED
        problem = "That time has passed. Name a later one, or choose another way."
        starts = TimeEstimate(None, None, "that time has passed", Basis.PASSED)
    stopping = [item for item in asked.found(moment) if item.stops]
    reason = "It is queued until then."
    if stopping:
        reason = "It is queued until then, and starts when nothing stands in the way: " + " ".join(
            item.text for item in stopping
        )
    return StartOption(
        key=moment_key(moment),
        way=StartMode.AT,
        title="At the time named",
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
    """Return why a rebuild could not end before the window: a code and a sentence, nothing where it could."""
    duration = asked.prediction.duration
    if blocked := asked.forbidden():
        return Problem.BLOCKED, blocked
    if duration is None or start_by is None:
        return Problem.NO_DURATION, f"Nobody can say whether it would end in time. {asked.prediction.words}"
    if start_by <= asked.snapshot.now:
        spare = spell((window.starts_at - asked.snapshot.now).total_seconds())
        longest = spell(duration.p90_seconds)
        return Problem.TOO_SHORT, f"There are {spare} left, and 1 of 10 takes longer than {longest}."
    if starts.p50 is None:
        return Problem.NO_START, f"Nobody can say whether it could start in time: {starts.words}."
    if starts.p50 > start_by:
        return Problem.TOO_LATE, "It would start too late to end before the backup in 9 of 10 cases."
    return None, ""


def _before(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """As soon as it can, if it can in time: else it expires instead of running into the backup."""
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
        reason=problem
        or "It starts as soon as it can, and expires where it could not end before the backup in 9 of 10 cases.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        start_by=start_by,
        window_at=window.starts_at,
        problem=code,
    )


def _after(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """When the window has likely passed; where the backup takes longer, it is waited for."""
    problem = asked.forbidden(window.ends_p50)
    code = Problem.BLOCKED if problem else None
    starts = (
        asked.free(window.ends_p50)
        if window.ends_p50
        else TimeEstimate(None, None, "the end of the window is not known", Basis.NO_RUN)
    )
    if window.ends_p50 is None and not problem:
        code, problem = (
            Problem.NO_WINDOW_END,
            "How long that backup takes is not known yet: no run of it has ended. Once it runs, choose to start when it ends.",
        )
    if starts.p90 and window.ends_p90:
        starts = TimeEstimate(starts.p50, max(starts.p90, window.ends_p90), starts.words, starts.basis)
    return StartOption(
        key=f"{StartMode.AFTER_WINDOW}:{window.schedule}@{window.starts_at:{STAMP}}",
        way=StartMode.AFTER_WINDOW,
        title=f"After the backup {window.schedule}",
        source=asked.source,
        is_possible=not problem,
        reason=problem or "It is queued until the backup has likely ended, and waits for it where it takes longer.",
        starts=starts,
        finishes=asked.finish(starts),
        warnings=asked.warnings(starts.p50),
        not_before=window.ends_p50,
        window_at=window.starts_at,
        problem=code,
    )


def _stop_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    """End the run, rebuild, and run the backup again: only where nothing else stands in the way."""
    without = _without(asked, job)
    others = [item for item in without.found() if item.stops]
    starts = _at(asked.snapshot.now, "as soon as the run has been stopped")
    problem = " ".join(f"{item.text}" for item in others)
    code = Problem.BUSY if others else None
    if not job.schedule and not problem:
        code = Problem.NO_SCHEDULE
        problem = f"{job.name} belongs to no schedule: nobody could run it again."
    done = spell((asked.snapshot.now - job.started_at).total_seconds()) if job.started_at else "0 s"
    return StartOption(
        key=f"{StartMode.STOP_RUN}:{job.run}",
        way=StartMode.STOP_RUN,
        title=f"Stop {job.name}, rebuild, then back up again",
        source=asked.source,
        is_possible=not problem,
        reason=problem
        or f"{done} of backup are thrown away. Until it has run again there is no backup of today. It is written into the audit log.",
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
