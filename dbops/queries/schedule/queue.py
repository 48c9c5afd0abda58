"""The line of each source: what uses it now, what waits in which order, why, and when it is expected to start."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.paginator import Page, Paginator

from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.eligibility import expected_start
from dbops.engine.schedule.occupancy import reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceUse
from dbops.models import Rebuild
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now
from dbops.queries.fleet.overview import strip_of

#: So many of those that wait are asked when they start; of the rest only their place is told.
ASKED = 20
CLUSTERS_ON_A_PAGE = 25
DOES = {
    InstanceUse.DUMP: "dumps it",
    InstanceUse.PHYSICAL: "backs it up",
    InstanceUse.READ: "reads it",
    InstanceUse.REPLACE: "replaces it",
}


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One job in the line of an instance. ``place`` is 0 for what uses it now; ``starts`` is ``None`` where it was not asked."""

    job: ActiveJob
    does: str
    place: int
    ends: TimeEstimate | None = None
    starts: TimeEstimate | None = None
    why: str = ""
    rebuild: Rebuild | None = None


@dataclass(frozen=True, slots=True)
class InstanceQueue:
    """The line of one instance."""

    cluster: str
    instance: str
    jobs: tuple[QueueEntry, ...]


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The lines of one page of clusters."""

    page: Page[ClusterNow]
    lines: tuple[InstanceQueue, ...]


def queue(now: datetime, number: str | int = 1) -> QueuePage:
    """Return one page of the fleet's lines, the longest first. Twenty-two queries at most, however much waits."""
    busy = [cluster for cluster in clusters_now(now) if cluster.snapshot.jobs]
    busy.sort(key=lambda cluster: (-sum(job.started_at is None for job in cluster.snapshot.jobs), cluster.name))
    page = Paginator(busy, CLUSTERS_ON_A_PAGE).get_page(number)
    found = agendas(list(page.object_list), strip_of(now), now)
    rebuilds = _rebuilds(job for agenda in found for job in agenda.snapshot.jobs)
    return QueuePage(page, tuple(line for agenda in found for line in _lines(agenda.snapshot, rebuilds)))


def queues_of(agenda: Agenda) -> list[InstanceQueue]:
    """Return the lines of a cluster's instances that are used or waited for. One query where there are rebuilds, else none."""
    return _lines(agenda.snapshot, _rebuilds(agenda.snapshot.jobs))


def _lines(snapshot: ClusterSnapshot, rebuilds: Mapping[int, Rebuild]) -> list[InstanceQueue]:
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
        place = 1 + sum(item.place > 0 for item in found[stay.instance])
        found[stay.instance].append(
            QueueEntry(job, DOES[stay.use], place, starts=starts, why=why, rebuild=rebuilds.get(job.rebuild or 0))
        )
    return [InstanceQueue(snapshot.cluster, name, tuple(found[name])) for name in sorted(found)]


def _rebuilds(jobs: Iterable[ActiveJob]) -> dict[int, Rebuild]:
    keys = [job.rebuild for job in jobs if job.rebuild is not None]
    if not keys:
        return {}
    rows = Rebuild.objects.filter(pk__in=keys).select_related("target", "source", "requested_by")
    return {row.pk: row for row in rows.defer("plan", "checkpoint")}


def _start(snapshot: ClusterSnapshot, job: ActiveJob) -> tuple[TimeEstimate, str]:
    """Return when a job that waits is expected to start, and what it waits for."""
    expected = expected_start(snapshot, job)
    if job.needs_approval:
        return expected.at, expected.at.words
    if expected.by:
        return expected.at, expected.by.text
    if job.start_after_run is not None:
        return expected.at, f"backup run {job.start_after_run}: a person chose to start when it has ended"
    if job.not_before and job.not_before > snapshot.now:
        return expected.at, "a person chose a later start"
    return expected.at, "nothing: it starts at the next look"
