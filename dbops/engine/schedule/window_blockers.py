"""Find the blockers that are backup windows: windows ahead, and backups that are due but not detected."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import BackupWindow, TimeEstimate
from dbops.engine.schedule.blocker import Blocker, BlockerKind, Remedy, Timing, make_blocker
from dbops.engine.schedule.conflicts import Activity, MethodTraits, of_backup
from dbops.engine.schedule.snapshot import ClusterSnapshot
from dbops.engine.states import BackupMethod

#: How far ahead windows count if the duration of the rebuild is unknown.
BLIND_HOURS = 24


def of_unseen(
    snapshot: ClusterSnapshot, target: str | None, source: str | None, method: MethodTraits, at: datetime, *, late: bool
) -> Iterator[Blocker]:
    """Yield external backups that are due: they may start at any moment, or already run until the next probe detects them."""
    for due in snapshot.unseen:
        waited = snapshot.now - due.starts_at
        window = replace(
            due,
            starts_at=snapshot.now,
            ends_p50=due.ends_p50 and due.ends_p50 + waited,
            ends_p90=due.ends_p90 and due.ends_p90 + waited,
        )
        if window.instance not in (target, source) or not (at == snapshot.now or _lasts(window, at, late=late)):
            continue
        yield from make_blocker(
            BlockerKind.WINDOW_AHEAD,
            Activity.AHEAD_TARGET if window.instance == target else Activity.AHEAD_EXTERNAL,
            method,
            instance=window.instance,
            text=phrase(
                "The backup {schedule} of {instance} is due now and not detected yet.",
                schedule=window.schedule,
                instance=window.instance,
            ),
            since=due.starts_at,
            until=_until(window),
            clears=phrase("Change the cron job on {instance}.", instance=window.instance),
            remedy=Remedy.CHANGE_CRON,
            timing=Timing.UNSEEN,
        )


def of_windows(
    snapshot: ClusterSnapshot, target: str | None, source: str | None, method: MethodTraits, at: datetime, *, late: bool
) -> Iterator[Blocker]:
    """Yield of each schedule the window that lasts at that moment, and the next one before the rebuild ends.

    A frequent schedule has thousands of windows, and a timeline asks at the begin and end of each: they are not walked.
    """
    duration = snapshot.predicted(source).duration
    limit = at + (timedelta(seconds=duration.p90_seconds) if duration else timedelta(hours=BLIND_HOURS))
    likely = at + timedelta(seconds=duration.p50_seconds) if duration else None
    found: list[BackupWindow] = []
    for (instance, _), windows in snapshot.by_schedule.items():
        if instance in (target, source):
            after = bisect_right(windows, at, key=lambda item: item.starts_at)
            found += (one for one in windows[max(0, after - 1) : after] if _lasts(one, at, late=late))
            found += (one for one in windows[after : after + 1] if one.starts_at < limit)
    for window in sorted(found, key=lambda item: item.starts_at):
        is_target = window.instance == target
        if window.starts_at <= snapshot.now:
            continue  # a window due by now is a run, not detected yet, or late
        if window.starts_at <= at:
            yield from _running_then(window, method, is_target=is_target)
        else:
            yield from _ahead(window, method, is_target=is_target, likely=likely)


def _lasts(window: BackupWindow, at: datetime, *, late: bool) -> bool:
    ends = window.ends_p90 if late else window.ends_p50
    return ends is None or at < ends


def _until(window: BackupWindow) -> TimeEstimate:
    return TimeEstimate(window.ends_p50, window.ends_p90, window.reason, window.basis)


def _running_then(window: BackupWindow, method: MethodTraits, *, is_target: bool) -> Iterator[Blocker]:
    is_dump = window.method is BackupMethod.DUMP
    yield from make_blocker(
        BlockerKind.TARGET_BUSY if is_target else BlockerKind.BACKUP_RUNNING,
        Activity.TARGET_BACKUP if is_target else of_backup(is_dump=is_dump, is_managed=window.is_managed),
        method,
        instance=window.instance,
        text=phrase(
            "The backup {schedule} of {instance} is expected to run at that time.",
            schedule=window.schedule,
            instance=window.instance,
        ),
        since=window.starts_at,
        until=_until(window),
        clears=phrase("Change the schedule.")
        if window.is_managed
        else phrase("Change the cron job on {instance}.", instance=window.instance),
        remedy=_remedy(window),
        timing=Timing.EXPECTED,
    )


def _remedy(window: BackupWindow) -> Remedy:
    return Remedy.CHANGE_SCHEDULE if window.is_managed else Remedy.CHANGE_CRON


def _ahead(
    window: BackupWindow, method: MethodTraits, *, is_target: bool, likely: datetime | None
) -> Iterator[Blocker]:
    work = Activity.AHEAD_MANAGED if window.is_managed else Activity.AHEAD_EXTERNAL
    of = {"schedule": window.schedule, "instance": window.instance}
    if likely is None:
        timing = Timing.DUE_OR_NOT
        text = phrase(
            "The backup {schedule} of {instance} may become due before the rebuild ends (duration unknown).", **of
        )
    elif window.starts_at < likely:
        timing = Timing.DUE
        text = phrase("The backup {schedule} of {instance} is due before the rebuild is expected to end.", **of)
    else:
        timing = Timing.DUE_IF_LATE
        text = phrase(
            "The backup {schedule} of {instance} may become due if the rebuild takes longer than usual.", **of
        )
    yield from make_blocker(
        BlockerKind.WINDOW_AHEAD,
        Activity.AHEAD_TARGET if is_target else work,
        method,
        instance=window.instance,
        text=text,
        since=window.starts_at,
        until=_until(window),
        clears=phrase("Change the schedule.")
        if window.is_managed
        else phrase("Change the cron job on {instance}.", instance=window.instance),
        remedy=_remedy(window),
        timing=timing,
    )
