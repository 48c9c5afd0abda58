"""Start queued jobs: load the queue, let the engine decide, then start jobs or store why they wait."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Cast

from dbops.database import clock
from dbops.engine.methods import method_named
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.shared_read import SharedReadPhase
from dbops.engine.schedule.scheduler import JobKind, Key, QueuedJob, decide, line_order
from dbops.engine.states import RUN_ACTIVE, RunOrigin, RunStatus, Status
from dbops.lifecycle import backup_runs, rebuild_requests, shared_reads, starts
from dbops.loaders.shared_reads import leaders
from dbops.models import BackupRun, Instance, Rebuild
from dbops.models.rebuilds import WANTS_TO_START
from dbops.worker.start_conditions import unmet_conditions

log = logging.getLogger(__name__)

_LINE_TIME = Cast(WANTS_TO_START, CharField())


def start_what_can() -> list[int]:
    """Start every queued rebuild and backup run whose instances can be held. Return the ids of the started rebuilds.

    The engine orders each queue (``engine.schedule.scheduler``). Inserting the holds decides: the engine's view may be a moment
    old. Reading and deciding takes a constant number of queries; writing changed reasons takes some for hundreds of rows, and
    each start a handful.
    """
    now = clock.now()
    _expire(now)
    queued = _queued_rebuilds()
    followers = _followers(queued)
    # before the conditions are read: a follower that waits for the source on its own has its own conditions
    _release(followers)
    jobs = [*_rebuild_jobs(queued, followers, now), *_backup_jobs()]
    backup_runs.flag_late(now)
    if not jobs:
        return []
    taken = starts.held()  # read after the rows: no reason is replaced by an older one
    names = Names()
    decision = decide(jobs, taken, names)
    failed = [job.key for job in decision.starts if not _start(job)]
    if failed:
        decision = decide(jobs, taken, names, failed=failed)
    _write_waits(jobs, decision.reasons)
    return [job.pk for job in decision.starts if job.kind is JobKind.REBUILD and job.key not in failed]


class Names:
    """Names of instances, read in one query at the first use."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, instance: int) -> str:
        if not self._known:
            self._known = dict(Instance.objects.order_by().values_list("pk", "name"))
        return self._known.get(instance, f"instance {instance}")


def queued_jobs(now: datetime) -> list[QueuedJob]:
    """Return everything queued, with a constant number of queries. Writes nothing."""
    queued = _queued_rebuilds()
    return [*_rebuild_jobs(queued, _followers(queued), now), *_backup_jobs()]


def _queued_rebuilds() -> list[tuple[Any, ...]]:
    """Return the scheduler's columns of each queued rebuild.

    Times are compared as database text: converting ten thousand of them would cost more than all else. The index
    ``dbops_rebuild_scheduler`` has every column read here.
    """
    rows = Rebuild.objects.filter(status=Status.QUEUED).order_by()
    return list(
        rows.values_list("pk", "source_id", "target_id", "method", "priority", "waiting_for", _LINE_TIME, "leader_id")
    )


@dataclass(frozen=True, slots=True)
class _Followers:
    """Queued rebuilds whose source another rebuild reads, by primary key.

    Args:
        waits: the condition of each follower: it claims only its target, and starts while its leader waits for it.
        left_by: a leader that has ended, or reads without the follower, which then waits for the source on its own.
    """

    waits: dict[int, str]
    left_by: dict[int, int]


def _followers(queued: Iterable[tuple[Any, ...]]) -> _Followers:
    """Return the followers. Two queries, and none without shared reads."""
    read_by = {row[0]: row[-1] for row in queued if row[-1]}
    known = leaders(read_by.values()) if read_by else {}
    found = _Followers({}, {})
    for pk, leader in ((pk, known[leader]) for pk, leader in sorted(read_by.items())):
        if leader.phase is SharedReadPhase.QUEUED:
            found.waits[pk] = f"the start of its leader, rebuild {leader.number}"
        elif leader.can_be_joined:
            found.waits[pk] = ""
        else:
            found.left_by[pk] = leader.number
    return found


def _release(followers: _Followers) -> None:
    """Let followers without their leader wait for the source on their own."""
    for pk, leader in followers.left_by.items():
        follower = Rebuild.objects.defer("plan", "checkpoint").filter(pk=pk, leader=leader).first()
        if follower is not None:  # otherwise it joined another leader a moment ago: the next pass sees that
            shared_reads.leave(
                follower,
                f"Rebuild {leader} started the shared read without this one. This rebuild now waits on its own.",
            )


def _rebuild_jobs(queued: Sequence[tuple[Any, ...]], followers: _Followers, now: datetime) -> Iterable[QueuedJob]:
    # The conditions are read after the rows: a rebuild queued between the two has its conditions read, or its row is not.
    unmet = _unmet_conditions(now) if queued else {}
    for pk, reason in followers.waits.items():
        if reason:
            unmet[pk] = f"{unmet[pk]}; {reason}" if pk in unmet else reason
    kind = JobKind.REBUILD
    for pk, source, target, method, priority, logged, since, _ in queued:
        # A rebuild that does not read its source has no position in the source's queue.
        claims = (source, target) if method_named(method).reads_source and pk not in followers.waits else (target,)
        yield QueuedJob(kind, pk, line_order(priority, since, pk), claims, unmet.get(pk, ""), logged)


def _backup_jobs() -> Iterable[QueuedJob]:
    rows = BackupRun.objects.filter(status=RunStatus.QUEUED, origin=RunOrigin.MANAGED).order_by()
    kind = JobKind.BACKUP
    for pk, instance, logged, since in rows.values_list(
        "pk", "instance_id", "waiting_for", Cast("queued_at", CharField())
    ):
        yield QueuedJob(kind, pk, line_order(0, since, pk), (instance,), "", logged)


def _unmet_conditions(now: datetime) -> dict[int, str]:
    """Return the unmet conditions of queued rebuilds besides holds: requested start times, and ``start_conditions``. Eight queries
    at most.
    """
    rows = Rebuild.objects.filter(status=Status.QUEUED).order_by()
    # found by the few active runs, not by ten thousand queued rows; rows that left the queue are never looked up
    after = (
        Rebuild.objects.filter(start_after_run__status__in=RUN_ACTIVE, leader=None)
        .order_by()
        .values_list("pk", "start_after_run_id")
    )
    unmet = {pk: f"backup run {run}" for pk, run in after}
    for pk, moment in rows.filter(not_before__gt=now, leader=None).values_list("pk", "not_before"):
        reason = f"not before {moment:%Y-%m-%d %H:%M} UTC"
        unmet[pk] = f"{reason}, and {unmet[pk]}" if pk in unmet else reason
    for pk, reason in unmet_conditions(now).items():
        unmet[pk] = f"{unmet[pk]}; {reason}" if pk in unmet else reason
    return unmet


def _expire(now: datetime) -> None:
    for rebuild in Rebuild.objects.filter(status=Status.QUEUED, expires_at__lte=now).defer("plan", "checkpoint"):
        rebuild_requests.end_queued(rebuild, Status.EXPIRED, phrase("Expired before it could start."))


def _start(job: QueuedJob) -> bool:
    row: Rebuild | BackupRun | None
    unmet: Callable[[], str] = str  # a backup waits only for its hold
    if job.kind is JobKind.REBUILD:
        rebuilds = Rebuild.objects.select_related("source", "target", "start_after_run").defer("plan", "checkpoint")
        row = rebuilds.filter(pk=job.pk).first()
        unmet = partial(_unmet_conditions_of, job.pk)
    else:
        row = BackupRun.objects.select_related("instance", "schedule").filter(pk=job.pk).first()
    reason = starts.start(row, unmet) if row else "the job is gone"
    if reason:
        log.debug("%s %s waits: %s", job.kind, job.pk, reason)
    return not reason


def _unmet_conditions_of(rebuild_id: int) -> str:
    """Check the conditions during the start: maintenance or an external backup may have begun since the pass began."""
    return unmet_conditions(clock.now(), rebuild_id).get(rebuild_id, "")


def _write_waits(jobs: Iterable[QueuedJob], reasons: Mapping[Key, str]) -> None:
    logged = {job.key: job.logged for job in jobs if job.key in reasons} if reasons else {}
    models: dict[JobKind, type[Rebuild] | type[BackupRun]] = {JobKind.REBUILD: Rebuild, JobKind.BACKUP: BackupRun}
    for kind, model in models.items():
        changes = {key[1]: (logged[key], reason) for key, reason in reasons.items() if key[0] is kind}
        if changes:
            starts.write_waits(model, changes)
