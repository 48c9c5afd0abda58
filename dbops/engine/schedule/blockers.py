"""Find the blockers of a rebuild: kind, begin, expected end, and how to clear them.

The method's conflicts decide the effect of each activity. ``eligibility`` turns blockers into one answer. ``blocker`` defines a blocker;
``window_blockers`` finds those that are backup windows.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from dbops.engine.phrases import capitalised, joined, phrase
from dbops.engine.schedule.backup_windows import Basis, TimeEstimate, spell
from dbops.engine.schedule.blocker import Blocker, BlockerKind, Certainty, Remedy, Timing, make_blocker
from dbops.engine.schedule.conflicts import Activity, Effect, MethodTraits, of_backup
from dbops.engine.schedule.occupancy import Reservation, reservations_of
from dbops.engine.schedule.snapshot import ClusterSnapshot, InstanceStatus, InstanceUse
from dbops.engine.schedule.window_blockers import of_unseen, of_windows

_ORDER = {Effect.BLOCKS: 0, Effect.WAITS: 1, Effect.RUNS_ALONGSIDE: 2}


def blockers(
    snapshot: ClusterSnapshot,
    *,
    target: str | None = None,
    source: str | None,
    method: MethodTraits,
    moment: datetime | None = None,
    late: bool = False,
) -> tuple[Blocker, ...]:
    """Return the blockers of a rebuild that starts at ``moment``, the worst first.

    Args:
        target: ``None`` for any target: blockers of the target are left out.
        source: the instance to read; ``None`` if there is none.
        method: the method of the rebuild.
        moment: default and minimum: now.
        late: assume that everything takes its p90.
    """
    return find_blockers(
        snapshot, reservations_of(snapshot), target=target, source=source, method=method, moment=moment, late=late
    )


def find_blockers(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    *,
    target: str | None,
    source: str | None,
    method: MethodTraits,
    moment: datetime | None = None,
    late: bool = False,
) -> tuple[Blocker, ...]:
    """Return the blockers as ``blockers`` does, for reservations that are already computed."""
    at = max(moment or snapshot.now, snapshot.now)
    found = [
        *_of_cluster(snapshot, source, method, at),
        *_of_source(snapshot, source, method),
        *_of_stays(used, target, source, method, at, late=late),
        *of_unseen(snapshot, target, source, method, at, late=late),
        *of_windows(snapshot, target, source, method, at, late=late),
    ]
    return tuple(sorted(found, key=lambda blocker: _ORDER[blocker.effect]))


def _of_cluster(snapshot: ClusterSnapshot, source: str | None, method: MethodTraits, at: datetime) -> Iterator[Blocker]:
    if source is None:
        text = phrase("{cluster} has no source: its only readable instance is the primary.", cluster=snapshot.cluster)
        yield from make_blocker(
            BlockerKind.NO_SOURCE,
            Activity.NO_SOURCE,
            method,
            text=text,
            clears=phrase("Add a backup instance or another replica."),
            remedy=Remedy.ADD_SOURCE,
        )
    if snapshot.difference:
        yield from make_blocker(
            BlockerKind.TOPOLOGY,
            Activity.TOPOLOGY,
            method,
            text=snapshot.difference.text,
            since=snapshot.difference.since,
            clears=phrase("Accept the difference, or correct the inventory."),
            remedy=Remedy.FIX_INVENTORY,
        )
    duration = snapshot.predicted(source).duration
    done = at + timedelta(seconds=duration.p90_seconds) if duration else None
    for stop in snapshot.stops:
        if stop.ends_at is not None and stop.ends_at <= at:
            continue
        is_ahead = stop.starts_at > at
        if is_ahead and not (done and stop.starts_at < done):
            continue
        yield from make_blocker(
            BlockerKind.MAINTENANCE,
            Activity.MAINTENANCE_AHEAD if is_ahead else Activity.MAINTENANCE,
            method,
            text=phrase("Maintenance of {cluster}: {value}.", cluster=snapshot.cluster, value=stop.reason.rstrip(".")),
            since=stop.starts_at,
            until=TimeEstimate(
                stop.ends_at,
                stop.ends_at,
                phrase("announced") if stop.ends_at else phrase("no end announced"),
                Basis.ANNOUNCEMENT if stop.ends_at else Basis.NO_END,
            ),
            certainty=Certainty.KNOWN if stop.ends_at else Certainty.UNKNOWN,
            clears=phrase("End the maintenance (announced by {by}).", by=stop.by or phrase("an operator")),
            remedy=Remedy.END_MAINTENANCE,
        )


def _of_source(snapshot: ClusterSnapshot, source: str | None, method: MethodTraits) -> Iterator[Blocker]:
    machine = snapshot.machine(source) if source else None
    if machine is None:
        return
    if machine.problem:
        yield from make_blocker(
            BlockerKind.SOURCE_DOWN,
            Activity.SOURCE_DOWN,
            method,
            instance=machine.name,
            text=phrase("{machine} is not readable: {problem}.", machine=machine.name, problem=machine.problem),
            clears=phrase("Fix {machine}.", machine=machine.name),
            remedy=Remedy.FIX_SERVER,
        )
    elif text := _why_lagging(machine, snapshot.max_lag_seconds):
        yield from make_blocker(
            BlockerKind.SOURCE_LAGGING,
            Activity.SOURCE_LAGGING,
            method,
            instance=machine.name,
            text=text,
            clears=phrase("Wait until {machine} has caught up.", machine=machine.name)
            if not machine.stopped
            else phrase("Fix replication on {machine}.", machine=machine.name),
            remedy=Remedy.FIX_SERVER if machine.stopped else Remedy.CATCH_UP,
        )
    if not machine.has(method.reads):
        what = method.reads.value
        yield from make_blocker(
            BlockerKind.NO_COPY,
            Activity.NO_COPY,
            method,
            instance=machine.name,
            text=phrase("{machine} has no complete {what} to read.", machine=machine.name, what=what),
            clears=phrase("Run a {what} of {machine}.", what=what, machine=machine.name),
            remedy=Remedy.MAKE_BACKUP,
        )


def _why_lagging(machine: InstanceStatus, limit_seconds: float) -> str:
    if machine.problem:
        return ""
    if machine.stopped:
        return phrase("{machine} does not replicate: {problem}.", machine=machine.name, problem=machine.stopped)
    if machine.lag_seconds is None:
        return phrase("{machine} replicates with unknown lag.", machine=machine.name)
    if machine.lag_seconds > limit_seconds:
        lag, limit = spell(machine.lag_seconds), spell(limit_seconds)
        return phrase("{machine} lags by {lag} (limit {limit}).", machine=machine.name, lag=lag, limit=limit)
    return ""


def _of_stays(
    used: tuple[Reservation, ...],
    target: str | None,
    source: str | None,
    method: MethodTraits,
    at: datetime,
    *,
    late: bool,
) -> Iterator[Blocker]:
    for stay in used:
        if stay.instance not in (target, source) or not stay.covers(at, late=late):
            continue
        is_target = stay.instance == target
        # It is in no queue before its approval, but its target is reserved.
        if stay.job.needs_approval and not (is_target and stay.use is InstanceUse.REPLACE):
            continue
        yield from make_blocker(
            _kind_of(stay, is_target=is_target),
            _work_of(stay, is_target=is_target),
            method,
            instance=stay.instance,
            text=_describe(stay),
            since=stay.job.started_at or stay.job.queued_at,
            until=stay.end,
            clears=_who_clears(stay),
            remedy=_remedy(stay),
            timing=_timing(stay),
            run=stay.job.run,
            rebuild=stay.job.rebuild,
        )


def _kind_of(stay: Reservation, *, is_target: bool) -> BlockerKind:
    if is_target:
        return BlockerKind.TARGET_BUSY
    return BlockerKind.BACKUP_RUNNING if stay.use in (InstanceUse.DUMP, InstanceUse.PHYSICAL) else BlockerKind.HELD


def _work_of(stay: Reservation, *, is_target: bool) -> Activity:
    if stay.use is InstanceUse.READ:
        return Activity.TARGET_READ if is_target else Activity.SOURCE_READ
    if stay.use is InstanceUse.REPLACE:
        return Activity.TARGET_REPLACED if is_target else Activity.SOURCE_REPLACED
    return (
        Activity.TARGET_BACKUP
        if is_target
        else of_backup(is_dump=stay.use is InstanceUse.DUMP, is_managed=stay.job.is_managed)
    )


#: Names of jobs as a sentence begins with them, for ``script/translate``.
BEGINNINGS = (
    phrase("Rebuild {number}", number=0),
    phrase("Backup run {number}", number=0),
    phrase("Backup run {number} ({schedule})", number=0, schedule=""),
)


def _describe(stay: Reservation) -> str:
    name, instance = capitalised(stay.job.name), stay.instance
    if stay.job.needs_approval:
        return _unapproved(stay.use, name, instance)
    if stay.job.started_at is None:
        return _ahead_in_queue(stay.use, name, instance)
    running = _running(stay.use, name, instance)
    return joined((running, phrase("Its host is unreachable."))) if stay.job.is_lost else running


def _unapproved(use: InstanceUse, name: str, instance: str) -> str:
    if use is InstanceUse.DUMP:
        return phrase("{name} needs approval and will dump {instance}.", name=name, instance=instance)
    if use is InstanceUse.PHYSICAL:
        return phrase("{name} needs approval and will back up {instance}.", name=name, instance=instance)
    if use is InstanceUse.READ:
        return phrase("{name} needs approval and will read {instance}.", name=name, instance=instance)
    return phrase("{name} needs approval and will replace {instance}.", name=name, instance=instance)


def _ahead_in_queue(use: InstanceUse, name: str, instance: str) -> str:
    if use is InstanceUse.DUMP:
        return phrase("{name} is ahead in the queue and will dump {instance}.", name=name, instance=instance)
    if use is InstanceUse.PHYSICAL:
        return phrase("{name} is ahead in the queue and will back up {instance}.", name=name, instance=instance)
    if use is InstanceUse.READ:
        return phrase("{name} is ahead in the queue and will read {instance}.", name=name, instance=instance)
    return phrase("{name} is ahead in the queue and will replace {instance}.", name=name, instance=instance)


def _running(use: InstanceUse, name: str, instance: str) -> str:
    if use is InstanceUse.DUMP:
        return phrase("{name} is dumping {instance}.", name=name, instance=instance)
    if use is InstanceUse.PHYSICAL:
        return phrase("{name} is backing up {instance}.", name=name, instance=instance)
    if use is InstanceUse.READ:
        return phrase("{name} is reading {instance}.", name=name, instance=instance)
    return phrase("{name} is replacing {instance}.", name=name, instance=instance)


def _timing(stay: Reservation) -> Timing:
    if stay.job.needs_approval:
        return Timing.UNAPPROVED
    return Timing.QUEUED if stay.job.started_at is None else Timing.RUNNING


def _remedy(stay: Reservation) -> Remedy:
    if stay.job.needs_approval:
        return Remedy.DECIDE_APPROVAL
    if stay.job.rebuild is not None:
        return Remedy.CANCEL_REBUILD
    return Remedy.STOP_RUN if stay.job.can_be_stopped else Remedy.ASK_OWNER


def _who_clears(stay: Reservation) -> str:
    if stay.job.needs_approval:
        return phrase("Approve, decline or cancel that rebuild.")
    if stay.job.rebuild is not None:
        return phrase("Wait for that rebuild, or cancel it.")
    if stay.job.can_be_stopped:
        return phrase("Wait for that run, or stop it.")
    return phrase("Wait for that run, or stop it on the host of {instance}.", instance=stay.instance)
