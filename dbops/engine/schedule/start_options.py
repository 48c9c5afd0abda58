"""List the start options of a rebuild with expected start and end, and why an option is unavailable."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dbops.engine.phrases import joined, phrase
from dbops.engine.schedule.backup_windows import BackupWindow, Basis, Prediction, TimeEstimate, spell
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.blockers import find_blockers
from dbops.engine.schedule.conflicts import Effect, MethodTraits
from dbops.engine.schedule.eligibility import all_sources_of, free_from
from dbops.engine.schedule.occupancy import Reservation, reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot
from dbops.engine.schedule.start_option_keys import StartMode, StartOption, UnavailableCause, stamp_of
from dbops.engine.states import Role

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
    runs = _runs(asked)
    return (
        _now(asked),
        *_elsewhere(asked),
        *(_after_run(asked, job) for job in runs),
        *_after_maintenance(asked),
        *_around_windows(asked),
        *([_at_moment(asked, moment)] if moment else []),
        *(_stop_run(asked, job) for job in runs if job.run in stoppable),
    )


def chosen_option(offered: Collection[StartOption], key: str) -> StartOption | None:
    """Return the start option of a key, ``None`` if it is gone or unavailable.

    "As soon as possible" may become "now", but "now" never becomes a place in a queue.
    """
    keys = {key, StartMode.NOW.value} if key == StartMode.SOON else {key}
    return next((choice for choice in offered if choice.key in keys and choice.is_possible), None)


#: Why an option is unavailable, as code and text; ``AVAILABLE`` if it is not.
_Refusal = tuple[UnavailableCause | None, str]
AVAILABLE: _Refusal = (None, "")


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """A request for start options, with the reservations of the snapshot."""

    snapshot: ClusterSnapshot
    used: tuple[Reservation, ...]
    target: str
    source: str
    method: MethodTraits

    def found(self, moment: datetime | None = None) -> tuple[Blocker, ...]:
        return find_blockers(
            self.snapshot, self.used, target=self.target, source=self.source, method=self.method, moment=moment
        )

    def stopping(self, moment: datetime | None = None) -> tuple[Blocker, ...]:
        return tuple(blocker for blocker in self.found(moment) if blocker.stops)

    def warnings(self, moment: datetime | None) -> tuple[Blocker, ...]:
        found = self.found(moment) if moment else ()
        return tuple(blocker for blocker in found if not blocker.stops)

    def free(self, moment: datetime | None = None) -> TimeEstimate:
        return free_from(
            self.snapshot, self.used, target=self.target, source=self.source, method=self.method, moment=moment
        )

    def free_after(self, end: TimeEstimate) -> TimeEstimate:
        """Return when the rebuild can start after an event with this end."""
        if end.p50 is None:
            return TimeEstimate(None, None, end.reason, end.basis)
        starts = self.free(end.p50)
        if starts.p90 and end.p90:
            return replace(starts, p90=max(starts.p90, end.p90))
        return starts

    @property
    def prediction(self) -> Prediction:
        return self.snapshot.predicted(self.source)

    def finish(self, starts: TimeEstimate) -> TimeEstimate:
        predicted = self.prediction
        if starts.p50 is None or starts.p90 is None:
            return TimeEstimate(None, None, starts.reason, starts.basis)
        if predicted.duration is None:
            return TimeEstimate(None, None, predicted.reason, predicted.basis)
        return TimeEstimate(
            starts.p50 + timedelta(seconds=predicted.duration.p50_seconds),
            starts.p90 + timedelta(seconds=predicted.duration.p90_seconds),
            predicted.reason,
            predicted.basis,
        )

    def forbidden(self, moment: datetime | None = None) -> _Refusal:
        """Return the blockers that no start option waits for."""
        blocking = [item for item in self.found(moment) if item.effect is Effect.BLOCKS]
        return (
            (UnavailableCause.BLOCKED, joined(part for item in blocking for part in (item.text, item.reason)))
            if blocking
            else AVAILABLE
        )

    def option(
        self,
        way: StartMode,
        title: str,
        reason: str,
        starts: TimeEstimate,
        refused: _Refusal = AVAILABLE,
        *,
        of: object = "",
        **stored: Any,
    ) -> StartOption:
        """Return a start option. ``of`` tells options of one kind apart in their keys; ``stored`` are more of its fields."""
        problem, refusal = refused
        return StartOption(
            key=f"{way}:{of}" if of else way.value,
            way=way,
            title=title,
            source=self.source,
            is_possible=problem is None,
            reason=refusal or reason,
            starts=starts,
            finishes=self.finish(starts),
            warnings=self.warnings(starts.p50),
            problem=problem,
            **stored,
        )


def _now(asked: _StartRequest) -> StartOption:
    """Return the start now if nothing blocks, a place in the queue if the blockers end, else an unavailable option."""
    found = asked.stopping()
    if found:
        way, title = StartMode.SOON, phrase("As soon as possible")
        reason = phrase(
            "Queued; starts automatically when these end: {blockers}", blockers=joined(item.text for item in found)
        )
    else:
        way, title = StartMode.NOW, phrase("Now")
        reason = (
            phrase("No blockers; see the warning.") if asked.warnings(asked.snapshot.now) else phrase("No blockers.")
        )
    return asked.option(way, title, reason, asked.free(), asked.forbidden(), blockers=found)


def _elsewhere(asked: _StartRequest) -> Iterator[StartOption]:
    """Yield the start from each other source, with its own plan and checks."""
    for other in all_sources_of(asked.snapshot, asked.target):
        if other == asked.source:
            continue
        there = replace(asked, source=other)
        found = there.stopping()
        machine = asked.snapshot.machine(other)
        is_backup = machine is not None and machine.role == Role.BACKUP
        state = [item.text for item in found] or [phrase("{other} is free.", other=other)]
        reason = joined(state if is_backup else [*state, phrase("Reads on it slow down during the copy.")])
        blocked = any(item.effect is Effect.BLOCKS for item in found)
        yield there.option(
            StartMode.ELSEWHERE,
            phrase("Now from {other}", other=other)
            if not found
            else phrase("From {other}, as soon as possible", other=other),
            reason,
            there.free(),
            (UnavailableCause.BLOCKED, reason) if blocked else AVAILABLE,
            of=other,
            blockers=found,
            slows_reads=not is_backup,
        )


def _runs(asked: _StartRequest) -> list[ActiveJob]:
    """Return the active backup runs on source or target that prevent the rebuild."""
    runs = {item.run for item in asked.stopping() if item.run is not None}
    return [job for job in asked.snapshot.jobs if job.run in runs and job.started_at is not None]


def _after_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    ends = next(stay.end for stay in asked.used if stay.job is job)
    return asked.option(
        StartMode.AFTER_RUN,
        phrase("When {job} ends", job=job.name),
        phrase("Starts automatically when that backup run ends, whether or not it succeeds."),
        asked.free_after(ends),
        asked.forbidden(),
        of=job.run,
        start_after_run=job.run,
    )


def _after_maintenance(asked: _StartRequest) -> Iterator[StartOption]:
    """Yield the start after the announced end of the current maintenance."""
    now = asked.snapshot.now
    ends = [stop.ends_at for stop in asked.snapshot.stops if stop.starts_at <= now]
    announced = [end for end in ends if end is not None and end > now]
    if not announced or None in ends:
        return
    last = max(announced)
    yield asked.option(
        StartMode.AFTER_MAINTENANCE,
        phrase("After the maintenance"),
        phrase("Queued until the announced end of the maintenance."),
        asked.free(last),
        asked.forbidden(last),
        of=stamp_of(last),
        not_before=last,
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
    starts, refused = asked.free(moment), asked.forbidden(moment)
    if moment > asked.snapshot.now + timedelta(hours=MOMENT_HOURS):
        text = phrase(
            "More than {moment_hours} hours ahead: backup windows are unknown that far ahead. Choose an earlier time.",
            moment_hours=MOMENT_HOURS,
        )
        refused = UnavailableCause.TOO_FAR, text
    if moment <= asked.snapshot.now:
        refused = UnavailableCause.PASSED, phrase("That time has passed. Enter a later time, or choose another option.")
        starts = TimeEstimate(None, None, phrase("that time has passed"), Basis.PASSED)
    stopping, reason = asked.stopping(moment), phrase("Queued until then.")
    if stopping:
        reason = phrase(
            "Queued until then; starts when these end: {blockers}", blockers=joined(item.text for item in stopping)
        )
    return asked.option(
        StartMode.AT,
        phrase("At a chosen time"),
        reason,
        starts,
        refused,
        of=stamp_of(moment),
        not_before=moment,
        blockers=stopping,
    )


def _too_late(asked: _StartRequest, window: BackupWindow, starts: TimeEstimate, start_by: datetime | None) -> _Refusal:
    """Return why a rebuild would not end before the window."""
    duration = asked.prediction.duration
    if (blocked := asked.forbidden()) != AVAILABLE:
        return blocked
    if duration is None or start_by is None:
        return UnavailableCause.NO_DURATION, phrase(
            "No estimate whether the rebuild would end in time. {reason}", reason=asked.prediction.reason
        )
    if start_by <= asked.snapshot.now:
        spare = spell((window.starts_at - asked.snapshot.now).total_seconds())
        longest = spell(duration.p90_seconds)
        return UnavailableCause.TOO_SHORT, phrase(
            "Too short: {spare} left, p90 duration {longest}.", spare=spare, longest=longest
        )
    if starts.p50 is None:
        return UnavailableCause.NO_START, phrase("No estimate for the start: {reason}.", reason=starts.reason)
    if starts.p50 > start_by:
        return UnavailableCause.TOO_LATE, phrase("Too late: the rebuild would not end before the backup (p90).")
    return AVAILABLE


def _before(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """Return the earliest start; the rebuild expires if it would overlap the backup."""
    starts, duration, start_by = asked.free(), asked.prediction.duration, None
    if duration is not None:
        start_by = window.starts_at - timedelta(seconds=duration.p90_seconds)
    return asked.option(
        StartMode.BEFORE_WINDOW,
        phrase("Before the backup {schedule}", schedule=window.schedule),
        phrase("Starts as soon as possible. Expires if it would not end before the backup (p90)."),
        starts,
        _too_late(asked, window, starts, start_by),
        of=_key_of(window),
        start_by=start_by,
        window_at=window.starts_at,
    )


def _key_of(window: BackupWindow) -> str:
    return f"{window.schedule}@{stamp_of(window.starts_at)}"


def _after(asked: _StartRequest, window: BackupWindow) -> StartOption:
    """Return the start after the expected end of the window; a longer backup delays it."""
    refused = asked.forbidden(window.ends_p50)
    if window.ends_p50 is None and refused == AVAILABLE:
        text = phrase(
            "Duration of that backup unknown: no run has ended yet. Once it runs, choose to start when it ends."
        )
        refused = UnavailableCause.NO_WINDOW_END, text
    ends = TimeEstimate(window.ends_p50, window.ends_p90, phrase("the end of the window is unknown"), Basis.NO_RUN)
    return asked.option(
        StartMode.AFTER_WINDOW,
        phrase("After the backup {schedule}", schedule=window.schedule),
        phrase("Queued until the expected end of the backup, and longer if the backup takes longer."),
        asked.free_after(ends),
        refused,
        of=_key_of(window),
        not_before=window.ends_p50,
        window_at=window.starts_at,
    )


def _stop_run(asked: _StartRequest, job: ActiveJob) -> StartOption:
    """Return the option to stop the run, rebuild, and run the backup again. It requires that nothing else blocks."""
    without = replace(asked, used=tuple(stay for stay in asked.used if stay.job is not job))
    others, now, refused = without.stopping(), asked.snapshot.now, AVAILABLE
    if others:
        refused = UnavailableCause.BUSY, joined(item.text for item in others)
    elif not job.schedule:
        refused = (
            UnavailableCause.NO_SCHEDULE,
            phrase("{job} has no schedule, so dbops can't run it again.", job=job.name),
        )
    done = spell((now - job.started_at).total_seconds()) if job.started_at else "0 s"
    return without.option(
        StartMode.STOP_RUN,
        phrase("Stop {job}, rebuild, then back up again", job=job.name),
        phrase(
            "Discards {done} of backup work. There is no new backup until the schedule has run again. Recorded "
            "in the audit log.",
            done=done,
        ),
        TimeEstimate(now, now, phrase("when the run has stopped")),
        refused,
        of=job.run,
        stops_run=job.run,
        start_after_run=job.run,
        requeue_schedule=job.schedule,
        blockers=others,
    )
