"""Decide whether a rebuild can start now, and if not, when."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import Basis, TimeEstimate
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.blockers import find_blockers
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.schedule.occupancy import NOT_APPROVED, Reservation, order_of, reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceStatus, InstanceUse
from dbops.engine.states import REPLICAS, Role

#: The maximum number of consecutive blockers to follow: beyond it there is no estimate.
FOLLOWED = 50
NO_TIME = TimeEstimate(None, None, phrase("TiDB replicates its data itself"))


class EligibilityState(StrEnum):
    """Whether a rebuild can start: now, at an estimated time, at an unknown time, or not at all: without a source, or of TiDB."""

    NOW = "now"
    UNTIL = "until"
    UNKNOWN = "unknown"
    NO_SOURCE = "no source"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The answer for a cluster, or for one of its targets.

    Args:
        source: the instance that is free first.
        free: when a rebuild could start; unknown if one of its blockers has no known end.
        blockers: those of now, the worst first.
        warnings: activities that the rebuild may run alongside.
        later: blockers that are expected after those of now have ended, in that order.
    """

    answer: EligibilityState
    cluster: str
    target: str | None
    source: str | None
    method: str
    free: TimeEstimate
    blockers: tuple[Blocker, ...]
    warnings: tuple[Blocker, ...]
    later: tuple[Blocker, ...] = ()

    @property
    def by(self) -> Blocker | None:
        """The blocker to name: the one that ends last; an unknown end counts as the last."""
        return _last_to_end((*self.blockers, *self.later))


def _last_to_end(found: tuple[Blocker, ...]) -> Blocker | None:
    unknown = [blocker for blocker in found if blocker.until.p50 is None]
    known = sorted(found, key=lambda blocker: blocker.until.p50.timestamp() if blocker.until.p50 else 0.0)
    return unknown[0] if unknown else known[-1] if known else None


def sources_of(snapshot: ClusterSnapshot, target: str | None = None) -> tuple[str, ...]:
    """Return the possible sources of the cluster: its backup instances, or its replicas if it has none.

    Without a named target, another instance must exist that can be one.
    """
    others = [machine for machine in snapshot.machines if machine.role in REPLICAS and machine.name != target]
    if target is None and len(others) < 2:
        return ()
    backups = [machine for machine in others if machine.role == Role.BACKUP]
    return tuple(machine.name for machine in sorted(backups or others, key=_by_name))


def all_sources_of(snapshot: ClusterSnapshot, target: str) -> tuple[str, ...]:
    """Return every instance that a rebuild of ``target`` may read, backup instances first."""
    others = [machine for machine in snapshot.machines if machine.role in REPLICAS and machine.name != target]
    return tuple(machine.name for machine in sorted(others, key=lambda item: (item.role != Role.BACKUP, item.name)))


def _by_name(machine: InstanceStatus) -> str:
    return machine.name


def eligibility_of(
    snapshot: ClusterSnapshot, *, method: MethodTraits, target: str | None = None, source: str | None = None
) -> Eligibility:
    """Return whether a rebuild can start now, and if not, when.

    Args:
        target: the instance to rebuild; ``None`` asks for the cluster as a whole.
        source: consider this source only; ``None`` takes the one that is free first.
    """
    if snapshot.is_tidb:
        return Eligibility(EligibilityState.NOT_OFFERED, snapshot.cluster, target, None, method.name, NO_TIME, (), ())
    used = reservations_of(snapshot)
    names = (source,) if source else sources_of(snapshot, target)
    answers = [_of_source(snapshot, used, target, name, method) for name in names]
    if not answers:
        return _of_source(snapshot, used, target, None, method)
    return min(answers, key=lambda item: item.free.p50.timestamp() if item.free.p50 else float("inf"))


def _of_source(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    target: str | None,
    source: str | None,
    method: MethodTraits,
) -> Eligibility:
    found = find_blockers(snapshot, used, target=target, source=source, method=method)
    stopping = tuple(blocker for blocker in found if blocker.stops)
    free, passed = _way_to_free(snapshot, used, target, source, method, snapshot.now)
    if source is None:
        answer = EligibilityState.NO_SOURCE
    elif not stopping:
        answer = EligibilityState.NOW
    else:
        answer = EligibilityState.UNTIL if free.is_known else EligibilityState.UNKNOWN
    return Eligibility(
        answer=answer,
        cluster=snapshot.cluster,
        target=target,
        source=source,
        method=method.name,
        free=free,
        blockers=stopping,
        warnings=tuple(blocker for blocker in found if not blocker.stops),
        later=tuple(blocker for blocker in passed if blocker not in stopping) if stopping else (),
    )


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The expected start of a queued job. ``by``: the blocker that ends last before it, ``None`` without one."""

    at: TimeEstimate
    by: Blocker | None = None


def expected_start(snapshot: ClusterSnapshot, job: ActiveJob) -> ExpectedStart:
    """Return the expected start of a queued job, the same for page, queue, calendar and command line.

    All running jobs come before it, and those ahead of it in the queues. Jobs that wait for approval delay no other job.
    """
    if job.needs_approval:
        return ExpectedStart(NOT_APPROVED)
    leader = snapshot.queued(job.leader) if job.leader else None
    if leader is not None and leader.leader is None:
        return expected_start(snapshot, leader)
    mine = order_of(job)
    ahead = (job for job in snapshot.jobs if job.started_at or (order_of(job) < mine and not job.needs_approval))
    used = reservations_of(replace(snapshot, jobs=tuple(ahead)))
    moment = max(job.not_before or snapshot.now, snapshot.now)
    awaited = next(
        (stay.end for stay in used if job.start_after_run is not None and stay.job.run == job.start_after_run), None
    )
    if awaited and (awaited.p50 is None or awaited.p90 is None):
        return ExpectedStart(awaited)
    if awaited and awaited.p50:
        moment = max(moment, awaited.p50)
    there, target, source = _waits_for(snapshot, job)
    starts, passed = _way_to_free(there, used, target, source, job.method, moment)
    if awaited and awaited.p90 and starts.p90:
        starts = replace(starts, p90=max(starts.p90, awaited.p90))
    return ExpectedStart(starts, _last_to_end(passed))


def _waits_for(snapshot: ClusterSnapshot, job: ActiveJob) -> tuple[ClusterSnapshot, str | None, str | None]:
    """Return the snapshot with everything that may delay the job, and its target and source.

    A backup and a follow-up wait for jobs only: not for maintenance, topology, windows or a healthy source.
    """
    target = next((name for name, use in job.claims if use is InstanceUse.REPLACE), None)
    source = next((name for name, use in job.claims if use is InstanceUse.READ), None)
    if job.run is None and not job.method.is_follow_up:
        return snapshot, target, source or job.source or None
    machines = tuple(InstanceStatus(machine.name, machine.role) for machine in snapshot.machines)
    snapshot = replace(snapshot, machines=machines, stops=(), difference=None, windows=(), unseen=())
    if target is not None and source is not None:
        return snapshot, target, source
    # The job uses one instance: a blocker that keeps a rebuild from reading the instance also delays the job.
    return snapshot, None, job.claims[0][0] if job.claims else None


def free_from(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    *,
    target: str | None,
    source: str | None,
    method: MethodTraits,
    moment: datetime | None = None,
) -> TimeEstimate:
    """Return the first time from ``moment`` at which the rebuild can start: likely, and late."""
    return _way_to_free(snapshot, used, target, source, method, moment or snapshot.now)[0]


def _way_to_free(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    target: str | None,
    source: str | None,
    method: MethodTraits,
    moment: datetime,
) -> tuple[TimeEstimate, tuple[Blocker, ...]]:
    """Return the first free time, and the likely blockers until then, in that order."""
    likely, passed = _first_free(snapshot, used, target, source, method, moment, late=False)
    late, passed_late = _first_free(snapshot, used, target, source, method, moment, late=True)
    if likely is None or late is None:
        met = (*passed, *passed_late)
        unknown = next((blocker for blocker in met if blocker.until.p50 is None), met[-1])
        return TimeEstimate(None, None, unknown.until.reason, unknown.until.basis), passed
    reason = phrase("when all known blockers have ended")
    return TimeEstimate(likely, max(likely, late), reason, Basis.QUEUE), passed


def _first_free(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    target: str | None,
    source: str | None,
    method: MethodTraits,
    moment: datetime,
    *,
    late: bool,
) -> tuple[datetime | None, tuple[Blocker, ...]]:
    """Return the first free time, ``None`` if the end of a blocker is unknown, and all blockers until then."""
    at, passed = max(moment, snapshot.now), list[Blocker]()
    for _ in range(FOLLOWED):
        found = find_blockers(snapshot, used, target=target, source=source, method=method, moment=at, late=late)
        stopping = [blocker for blocker in found if blocker.stops]
        if not stopping:
            return at, tuple(passed)
        passed += [blocker for blocker in stopping if blocker not in passed]
        for blocker in stopping:
            ends = blocker.until.p90 if late else blocker.until.p50
            if ends is None:
                return None, tuple(passed)
            at = max(at, ends)
    return None, tuple(passed)
