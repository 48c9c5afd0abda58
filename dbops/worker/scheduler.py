"""Start queued jobs: load the queue, let the engine decide, then start jobs or store why they wait."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial

from django.db.models import CharField
from django.db.models.functions import Cast
from django.utils import timezone

from dbops.engine.methods import method_named
from dbops.engine.rebuilds.shared_read import SharedReadPhase
from dbops.engine.schedule.scheduler import JobKind, Key, QueuedJob, decide, line_order
from dbops.engine.states import RUN_ACTIVE, RunOrigin, RunStatus, Status
from dbops.lifecycle import backup_runs, rebuild_requests, shared_reads
from dbops.loaders.shared_reads import leaders
from dbops.models import BackupRun, Instance, Rebuild
from dbops.models.rebuilds import WANTS_TO_START
from dbops.worker.start_conditions import unmet_conditions

log = logging.getLogger(__name__)

_LINE_TIME = Cast(WANTS_TO_START, CharField())


def start_what_can() -> list[int]:
    """Start every queued rebuild and backup run whose instances can be held. Return the ids of the rebuilds that started.

    The order of a line is the engine's (``engine.schedule.scheduler``). Inserting the holds decides: what the engine saw may be a
    moment old. Reading and deciding takes a constant number of queries; writing reasons takes some for hundreds of rows, where
    they changed, and each start a handful.
    """
    now = timezone.now()
    _expire(now)
    jobs = queued_jobs(now)
    backup_runs.flag_late(now)
    if not jobs:
        return []
    taken = rebuild_requests.held()  # read after the rows: no reason is replaced by an older one
    names = Names()
    decision = decide(jobs, taken, names)
    failed = [job.key for job in decision.starts if not _start(job)]
    if failed:
        decision = decide(jobs, taken, names, failed=failed)
    _write_waits(jobs, decision.reasons)
    return [job.pk for job in decision.starts if job.kind is JobKind.REBUILD and job.key not in failed]


class Names:
    """Names of instances, all read in one query when the first is asked for."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, instance: int) -> str:
        if not self._known:
            self._known = dict(Instance.objects.order_by().values_list("pk", "name"))
        return self._known.get(instance, f"instance {instance}")


def queued_jobs(now: datetime) -> list[QueuedJob]:
    """Return everything queued, in as many queries whatever is queued."""
    return [*_rebuild_jobs(now), *_backup_jobs()]


def _rebuild_jobs(now: datetime) -> Iterable[QueuedJob]:
    """Times are compared as the text that the database keeps: to make ten thousand of them into values costs more than all else.

    Whatever is read here stands in the index ``dbops_rebuild_scheduler``.
    """
    rows = Rebuild.objects.filter(status=Status.QUEUED).order_by()
    wanted = rows.values_list(
        "pk", "source_id", "target_id", "method", "priority", "waiting_for", _LINE_TIME, "leader_id"
    )
    found = list(wanted)
    followers = _branches({row[0]: row[-1] for row in found if row[-1]})
    # after the rows: one that is queued between the two has its gates seen, or is not seen itself; and who waits by itself has its own
    gates = _gates(now) if found else {}
    for pk, told in followers.items():
        if told:
            gates[pk] = f"{gates[pk]}; {told}" if pk in gates else told
    kind = JobKind.REBUILD
    for pk, source, target, method, priority, told, since, _ in found:
        # A rebuild that does not read its source takes no place in its line.
        claims = (source, target) if method_named(method).reads_source and pk not in followers else (target,)
        yield QueuedJob(kind, pk, line_order(priority, since, pk), claims, gates.get(pk, ""), told)


def _branches(read_by: Mapping[int, int]) -> dict[int, str]:
    """Return what each queued rebuild waits for for whom another reads: they claim their target alone, and start while that one waits.

    One whose reader has ended, or reads without it, waits by itself from now on. Two queries, and none where nothing is shared.

    Args:
        read_by: queued rebuilds to the ones who read for them.
    """
    known = leaders(read_by.values()) if read_by else {}
    followers = {}
    for pk, reader in ((pk, known[reader]) for pk, reader in sorted(read_by.items())):
        if reader.phase is SharedReadPhase.QUEUED:
            followers[pk] = f"the start of its leader, rebuild {reader.number}"
        elif reader.can_be_joined:
            followers[pk] = ""
        else:
            text = f"Rebuild {reader.number} started the shared read without this one. This rebuild now waits for the source on its own."
            follower = Rebuild.objects.defer("plan", "checkpoint").filter(pk=pk, leader=reader.number).first()
            if follower is not None:  # else it was joined to another one a moment ago: the next look sees that
                shared_reads.leave(follower, text)
    return followers


def _backup_jobs() -> Iterable[QueuedJob]:
    rows = BackupRun.objects.filter(status=RunStatus.QUEUED, origin=RunOrigin.MANAGED).order_by()
    kind = JobKind.BACKUP
    for pk, instance, told, since in rows.values_list(
        "pk", "instance_id", "waiting_for", Cast("queued_at", CharField())
    ):
        yield QueuedJob(kind, pk, line_order(0, since, pk), (instance,), "", told)


def _gates(now: datetime) -> dict[int, str]:
    """Return what queued rebuilds wait for that is no hold: a person's wish, and what ``gates`` finds. Eight queries at most."""
    rows = Rebuild.objects.filter(status=Status.QUEUED).order_by()
    # found by the few runs that are active, not by ten thousand queued rows; who is queued no more is asked for by nobody
    after = (
        Rebuild.objects.filter(start_after_run__status__in=RUN_ACTIVE, leader=None)
        .order_by()
        .values_list("pk", "start_after_run_id")
    )
    gates = {pk: f"backup run {run}" for pk, run in after}
    for pk, moment in rows.filter(not_before__gt=now, leader=None).values_list("pk", "not_before"):
        told = f"not before {moment:%Y-%m-%d %H:%M} UTC"
        gates[pk] = f"{told}, and {gates[pk]}" if pk in gates else told
    for pk, told in unmet_conditions(now).items():
        gates[pk] = f"{gates[pk]}; {told}" if pk in gates else told
    return gates


def _expire(now: datetime) -> None:
    for rebuild in Rebuild.objects.filter(status=Status.QUEUED, expires_at__lte=now).defer("plan", "checkpoint"):
        rebuild_requests.end_queued(rebuild, Status.EXPIRED, "Expired before it could start.")


def _start(job: QueuedJob) -> bool:
    row: Rebuild | BackupRun | None
    gate: Callable[[], str] = str  # no backup waits for more than its hold
    if job.kind is JobKind.REBUILD:
        rebuilds = Rebuild.objects.select_related("source", "target", "start_after_run").defer("plan", "checkpoint")
        row = rebuilds.filter(pk=job.pk).first()
        gate = partial(_gate, job.pk)
    else:
        row = BackupRun.objects.select_related("instance", "schedule").filter(pk=job.pk).first()
    reason = rebuild_requests.start(row, gate) if row else "the job is gone"
    if reason:
        log.debug("%s %s waits: %s", job.kind, job.pk, reason)
    return not reason


def _gate(rebuild_id: int) -> str:
    """Asked while it starts: a maintenance or a backup of others may have begun since the pass began."""
    return unmet_conditions(timezone.now(), rebuild_id).get(rebuild_id, "")


def _write_waits(jobs: Iterable[QueuedJob], reasons: Mapping[Key, str]) -> None:
    told = {job.key: job.told for job in jobs if job.key in reasons} if reasons else {}
    models: dict[JobKind, type[Rebuild] | type[BackupRun]] = {JobKind.REBUILD: Rebuild, JobKind.BACKUP: BackupRun}
    for kind, model in models.items():
        changes = {key[1]: (told[key], reason) for key, reason in reasons.items() if key[0] is kind}
        if changes:
            rebuild_requests.write_waits(model, changes)
