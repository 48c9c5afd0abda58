"""Read the queue of each instance: running jobs, queued jobs in order, and their expected starts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.paginator import Page, Paginator

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.eligibility import expected_start
from dbops.engine.schedule.occupancy import reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceUse
from dbops.models import Rebuild
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now
from dbops.queries.fleet.overview import strip_of

#: Queued jobs per cluster whose expected start is computed; the rest only get a position.
ASKED = 20
CLUSTERS_ON_A_PAGE = 25
DOES = {
    InstanceUse.DUMP: phrase("(dump)"),
    InstanceUse.PHYSICAL: phrase("(physical backup)"),
    InstanceUse.READ: phrase("(source)"),
    InstanceUse.REPLACE: phrase("(target)"),
}


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One job in the queue of an instance. ``position`` is 0 for a running job; ``starts`` is ``None`` if not computed."""

    job: ActiveJob
    does: str
    position: int
    ends: TimeEstimate | None = None
    starts: TimeEstimate | None = None
    why: str = ""
    rebuild: Rebuild | None = None


@dataclass(frozen=True, slots=True)
class InstanceQueue:
    """The queue of one instance."""

    cluster: str
    instance: str
    jobs: tuple[QueueEntry, ...]


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The queues of one page of clusters."""

    page: Page[ClusterNow]
    queues: tuple[InstanceQueue, ...]


def queue(now: datetime, number: str | int = 1) -> QueuePage:
    """Return one page of the fleet's queues, longest first. 22 queries at most, however many jobs wait."""
    busy = [cluster for cluster in clusters_now(now) if cluster.snapshot.jobs]
    busy.sort(key=lambda cluster: (-sum(job.started_at is None for job in cluster.snapshot.jobs), cluster.name))
    page = Paginator(busy, CLUSTERS_ON_A_PAGE).get_page(number)
    found = agendas(list(page.object_list), strip_of(now), now)
    rebuilds = _rebuilds(job for agenda in found for job in agenda.snapshot.jobs)
    return QueuePage(page, tuple(one for agenda in found for one in _queues(agenda.snapshot, rebuilds)))


def queues_of(agenda: Agenda) -> list[InstanceQueue]:
    """Return the queues of a cluster's used instances. One query if there are rebuilds, else none."""
    return _queues(agenda.snapshot, _rebuilds(agenda.snapshot.jobs))


def _queues(snapshot: ClusterSnapshot, rebuilds: Mapping[int, Rebuild]) -> list[InstanceQueue]:
    found: dict[str, list[QueueEntry]] = defaultdict(list)
    used = reservations_of(snapshot)
    for stay in used:
        if stay.job.started_at is not None:
            item = QueueEntry(stay.job, DOES[stay.use], 0, ends=stay.end, rebuild=rebuilds.get(stay.job.rebuild or 0))
            found[stay.instance].append(item)
    waiting = [stay for stay in used if stay.job.started_at is None]
    asked: dict[str, tuple[TimeEstimate | None, str]] = {}
    for stay in waiting:
        job = stay.job
        if job.name not in asked:
            asked[job.name] = _start(snapshot, job) if len(asked) < ASKED else (None, "")
        starts, why = asked[job.name]
        position = 1 + sum(item.position > 0 for item in found[stay.instance])
        found[stay.instance].append(
            QueueEntry(job, DOES[stay.use], position, starts=starts, why=why, rebuild=rebuilds.get(job.rebuild or 0))
        )
    return [InstanceQueue(snapshot.cluster, name, tuple(found[name])) for name in sorted(found)]


def _rebuilds(jobs: Iterable[ActiveJob]) -> dict[int, Rebuild]:
    keys = [job.rebuild for job in jobs if job.rebuild is not None]
    if not keys:
        return {}
    rows = Rebuild.objects.filter(pk__in=keys).select_related("target", "source", "requested_by")
    return {row.pk: row for row in rows.defer("plan", "checkpoint")}


def _start(snapshot: ClusterSnapshot, job: ActiveJob) -> tuple[TimeEstimate, str]:
    """Return the expected start of a queued job and what it waits for."""
    expected = expected_start(snapshot, job)
    if job.needs_approval:
        return expected.at, expected.at.reason
    if expected.by:
        return expected.at, expected.by.text
    if job.start_after_run is not None:
        return expected.at, phrase(
            "the end of backup run {start_after_run}, as chosen", start_after_run=job.start_after_run
        )
    if job.not_before and job.not_before > snapshot.now:
        return expected.at, phrase("the chosen start time")
    return expected.at, phrase("the next scheduler pass")
