"""Read the fleet page: every cluster judged, one page of them with their timelines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.core.paginator import Page, Paginator
from django.db.models import OuterRef, Subquery

from dbops.engine.capacity.limits import CapacityLimit
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.backup_windows import BackupWindow
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.timeline import can_start
from dbops.engine.states import Role, RunStatus, Status
from dbops.models import BackupRun, Instance
from dbops.queries.capacity import soon_by_cluster
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now
from dbops.queries.restore_tests import RestoreStatus, restores

CLUSTERS_ON_A_PAGE = 25
#: Extra weight in the sort order for a cluster in which no rebuild can start.
BLOCKED_TROUBLE = 5
#: The timeline begins this much before now, at a full hour, and is a day long.
STRIP_PAST = timedelta(hours=6)
STRIP = timedelta(hours=24)


class Show(StrEnum):
    """Filter of clusters."""

    ALL = "all"
    TROUBLE = "trouble"
    BLOCKED = "blocked"
    RUNNING = "running"


class LastBackup(NamedTuple):
    """The end of a cluster's newest successful backup, by dbops or external."""

    instance: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One cluster in the list. ``window`` is the next due backup, ``last_backup`` the newest successful one, or ``None``.

    ``restores`` has the restore test state of each source, the worst first. ``limit`` is the first limit reached within 90 days.
    """

    agenda: Agenda
    window: BackupWindow | None
    last_backup: LastBackup | None = None
    restores: tuple[RestoreStatus, ...] = ()
    limit: CapacityLimit | None = None

    @property
    def untested(self) -> tuple[RestoreStatus, ...]:
        """Return the sources whose restore test failed, is too old or never ran, the worst first."""
        return tuple(one for one in self.restores if not one.is_good)


@dataclass(frozen=True, slots=True)
class FleetPage:
    """One page of clusters, those with problems first. ``counts`` are of the whole fleet, by filter.

    ``untested`` are the sources of the whole fleet without a recent restore test, ``near_limit`` the clusters with a limit
    within 90 days.
    """

    page: Page[ClusterNow]
    rows: tuple[FleetRow, ...]
    counts: Mapping[Show, int]
    text: str
    show: Show
    untested: int = 0
    near_limit: int = 0

    @property
    def clusters(self) -> int:
        return self.counts[Show.ALL]

    @property
    def is_filtered(self) -> bool:
        return bool(self.text) or self.show is not Show.ALL


def strip_of(now: datetime) -> Interval:
    """Return the 24 hours of a timeline."""
    start = (now - STRIP_PAST).replace(minute=0, second=0, microsecond=0)
    return Interval(start, start + STRIP)


def fleet(
    now: datetime, *, text: str = "", show: Show = Show.ALL, number: str | int = 1, with_backups: bool = True
) -> FleetPage:
    """Return one page of the fleet. Twenty queries at most, however large it is.

    Args:
        text: looked for in the names of clusters and instances.
        show: only matching clusters.
        with_backups: whether to read the last backup and the next limit of each cluster.
    """
    everything = [_judged(cluster) for cluster in clusters_now(now)]
    known = restores(now)
    page = Paginator(_wanted(everything, text, show), CLUSTERS_ON_A_PAGE).get_page(number)
    shown = list(page.object_list)
    backups = _last_backups(cluster.pk for cluster in shown) if with_backups else {}
    limits = soon_by_cluster(now) if with_backups else {}
    return FleetPage(
        page=page,
        rows=tuple(_row(agenda, known, backups, limits) for agenda in agendas(shown, strip_of(now), now)),
        counts={mark: sum(mark in one.marks for one in everything) for mark in Show},
        text=text,
        show=show,
        untested=sum(not one.is_good for found in known.values() for one in found),
        near_limit=len(limits),
    )


def matching(now: datetime, *, text: str = "", show: Show = Show.ALL) -> list[ClusterNow]:
    """Return all clusters on the pages of ``fleet``, in their order. Eight queries."""
    return _wanted([_judged(cluster) for cluster in clusters_now(now)], text, show)


def _wanted(everything: Iterable["_Judged"], text: str, show: Show) -> list[ClusterNow]:
    wanted = [one for one in everything if show in one.marks and _matches(one.cluster, text.casefold())]
    return [one.cluster for one in sorted(wanted, key=lambda one: (-one.trouble, one.cluster.name))]


def _row(
    agenda: Agenda,
    known: Mapping[int, list[RestoreStatus]],
    backups: Mapping[int, LastBackup],
    limits: Mapping[int, CapacityLimit],
) -> FleetRow:
    cluster = agenda.cluster.pk
    window = min(agenda.snapshot.windows, key=lambda window: window.starts_at, default=None)
    return FleetRow(agenda, window, backups.get(cluster), tuple(known.get(cluster, ())), limits.get(cluster))


def _last_backups(clusters: Iterable[int]) -> dict[int, LastBackup]:
    """Return the newest successful backup of each cluster that has one. One query: a look into an index for each instance."""
    good = BackupRun.objects.filter(instance=OuterRef("pk"), status=RunStatus.SUCCEEDED, started_at__isnull=False)
    newest = Subquery(good.exclude(finished_at=None).order_by("-started_at").values("finished_at")[:1])
    rows = Instance.objects.filter(cluster__in=list(clusters)).order_by().annotate(backup_at=newest)
    found: dict[int, LastBackup] = {}
    for cluster, name, at in rows.values_list("cluster_id", "name", "backup_at"):
        if at is not None and (cluster not in found or at > found[cluster].at):
            found[cluster] = LastBackup(name, at)
    return found


class _Judged(NamedTuple):
    """One cluster, its eligibility, and its weight: a greater one comes earlier."""

    cluster: ClusterNow
    marks: frozenset[Show]
    trouble: int


def _judged(cluster: ClusterNow) -> _Judged:
    ill, can_start_now = trouble(cluster), cluster.is_tidb or can_start(cluster.snapshot, METHODS[DEFAULT_METHOD])
    marks = {
        Show.ALL: True,
        Show.TROUBLE: ill > 0,
        Show.BLOCKED: not can_start_now,
        Show.RUNNING: bool(cluster.running),
    }
    said = frozenset(mark for mark, is_so in marks.items() if is_so)
    return _Judged(cluster, said, ill + BLOCKED_TROUBLE * (not can_start_now and bool(cluster.members)))


def _matches(cluster: ClusterNow, text: str) -> bool:
    return not text or text in cluster.name.casefold() or any(text in item.name.casefold() for item in cluster.members)


def trouble(cluster: ClusterNow) -> int:
    """Return the weight of a cluster's problems; 0 is healthy."""
    if not cluster.members:
        return 0
    if cluster.is_tidb:
        return 100 * any(member.state != "healthy" for member in cluster.members)
    primaries = [member for member in cluster.members if member.role is Role.PRIMARY]
    primary_ill = not primaries or any(member.state != "healthy" for member in primaries)
    ill = len(cluster.replicas) - len(cluster.healthy_replicas)
    lost = any(running.status == Status.LOST for running in cluster.running)
    return 100 * primary_ill + 50 * lost + 10 * min(ill, 4)
