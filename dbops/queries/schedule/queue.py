"""The line of each source: what uses it now, what waits in which order, why, and when it is expected to start."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.core.paginator import Page, Paginator

from dbops.engine.schedule.backup_windows import End
from dbops.engine.schedule.eligibility import free_from, verdict
from dbops.engine.schedule.occupancy import NOT_APPROVED, stays
from dbops.engine.schedule.snapshot import Job, Picture, Use
from dbops.models import Rebuild
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now
from dbops.queries.fleet.overview import strip_of

#: So many of those that wait are asked when they start; of the rest only their place is told.
ASKED = 20
CLUSTERS_ON_A_PAGE = 25
DOES = {
    Use.DUMP: "dumps it",
    Use.PHYSICAL: "backs it up",
    Use.READ: "reads it",
    Use.REPLACE: "replaces it",
}


@dataclass(frozen=True, slots=True)
class InLine:
    """One job in the line of an instance. ``place`` is 0 for what uses it now; ``starts`` is ``None`` where it was not asked."""

    job: Job
    does: str
    place: int
    ends: End | None = None
    starts: End | None = None
    why: str = ""
    rebuild: Rebuild | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The line of one instance."""

    cluster: str
    instance: str
    jobs: tuple[InLine, ...]


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The lines of one page of clusters."""

    page: Page[ClusterNow]
    lines: tuple[Line, ...]


def queue(now: datetime, number: str | int = 1) -> QueuePage:
    """Return one page of the fleet's lines, the longest first. Twenty-two queries at most, however much waits."""
    busy = [cluster for cluster in clusters_now(now) if cluster.picture.jobs]
    busy.sort(key=lambda cluster: (-sum(job.started_at is None for job in cluster.picture.jobs), cluster.name))
    page = Paginator(busy, CLUSTERS_ON_A_PAGE).get_page(number)
    found = agendas(list(page.object_list), strip_of(now), now)
    rebuilds = _rebuilds(job for agenda in found for job in agenda.picture.jobs)
    return QueuePage(page, tuple(line for agenda in found for line in _lines(agenda.picture, rebuilds)))


def lines_of(agenda: Agenda) -> list[Line]:
    """Return the lines of a cluster's instances that are used or waited for. One query where there are rebuilds, else none."""
    return _lines(agenda.picture, _rebuilds(agenda.picture.jobs))


def _lines(picture: Picture, rebuilds: Mapping[int, Rebuild]) -> list[Line]:
    found: dict[str, list[InLine]] = defaultdict(list)
    used = stays(picture)
    for stay in used:
        if stay.job.started_at is not None:
            item = InLine(stay.job, DOES[stay.use], 0, ends=stay.end, rebuild=rebuilds.get(stay.job.rebuild or 0))
            found[stay.instance].append(item)
    waiting = [stay for stay in used if stay.job.started_at is None]
    asked: dict[str, tuple[End | None, str]] = {}
    for stay in waiting:
        job = stay.job
        if job.name not in asked:
            asked[job.name] = _start(picture, job) if len(asked) < ASKED else (None, "")
        starts, why = asked[job.name]
        place = 1 + sum(item.place > 0 for item in found[stay.instance])
        found[stay.instance].append(
            InLine(job, DOES[stay.use], place, starts=starts, why=why, rebuild=rebuilds.get(job.rebuild or 0))
        )
    return [Line(picture.cluster, name, tuple(found[name])) for name in sorted(found)]


def _rebuilds(jobs: Iterable[Job]) -> dict[int, Rebuild]:
    keys = [job.rebuild for job in jobs if job.rebuild is not None]
    if not keys:
        return {}
    rows = Rebuild.objects.filter(pk__in=keys).select_related("target", "source", "requested_by")
    return {row.pk: row for row in rows.defer("plan", "memory")}


def _start(picture: Picture, job: Job) -> tuple[End, str]:
    """Ask when a job that waits could start, were those before it all there is. When a person approves it, nobody knows."""
    if job.needs_approval:
        return NOT_APPROVED, NOT_APPROVED.words
    before = replace(picture, jobs=tuple(other for other in picture.jobs if _is_before(other, job)))
    target = next((name for name, use in job.claims if use is Use.REPLACE), None)
    source = next((name for name, use in job.claims if use is Use.READ), None)
    if target is None or source is None:
        # A backup waits for its own instance: what keeps a rebuild from reading it keeps the backup too.
        target, source = None, job.claims[0][0] if job.claims else None
    answer = verdict(before, target=target, source=source)
    starts = answer.free
    if job.not_before and job.not_before > picture.now:
        starts = free_from(
            before, stays(before), target=target, source=source, method=answer.method, moment=job.not_before
        )
        why = "a person chose a later start" if answer.by is None else answer.by.text
    else:
        why = answer.by.text if answer.by else "nothing: it starts at the next look"
    return starts, why


def _is_before(other: Job, job: Job) -> bool:
    if other is job or other.started_at is not None:
        return other is not job
    return _place(other) < _place(job) and not other.needs_approval


def _place(job: Job) -> tuple[int, float, str]:
    return (-job.priority, job.queued_at.timestamp() if job.queued_at else 0.0, job.name)
