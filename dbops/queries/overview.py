"""The fleet page: every cluster judged, one page of them with its day."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.paginator import Page, Paginator

from dbops.engine.calendar import Interval
from dbops.engine.states import Role, Status
from dbops.engine.timeline import can_start
from dbops.queries.agenda import Agenda, agendas
from dbops.queries.clusters import ClusterNow, clusters_now

CLUSTERS_ON_A_PAGE = 25
#: The strip begins so much before now, at a full hour, and is a day long.
STRIP_PAST = timedelta(hours=6)
STRIP = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class FleetPage:
    """One page of clusters, those in trouble first. ``blocked`` counts those in the whole fleet that cannot start now."""

    page: Page[ClusterNow]
    rows: tuple[Agenda, ...]
    clusters: int
    blocked: int
    text: str
    only_blocked: bool


def strip_of(now: datetime) -> Interval:
    """Return the 24 hours around now that a strip shows."""
    start = (now - STRIP_PAST).replace(minute=0, second=0, microsecond=0)
    return Interval(start, start + STRIP)


def fleet(now: datetime, *, text: str = "", only_blocked: bool = False, number: str | int = 1) -> FleetPage:
    """Return one page of the fleet. Fifteen queries at most, however large it is.

    Args:
        text: looked for in the names of clusters and instances.
        only_blocked: leave out the clusters in which a rebuild could start now.
    """
    everything = [(cluster, can_start(cluster.picture)) for cluster in clusters_now(now)]
    wanted = [
        (cluster, free)
        for cluster, free in everything
        if not (only_blocked and free) and _matches(cluster, text.casefold())
    ]
    wanted.sort(key=lambda pair: (-trouble(*pair), pair[0].name))
    page = Paginator([cluster for cluster, _ in wanted], CLUSTERS_ON_A_PAGE).get_page(number)
    return FleetPage(
        page=page,
        rows=tuple(agendas(list(page.object_list), strip_of(now), now)),
        clusters=len(everything),
        blocked=sum(not free for _, free in everything),
        text=text,
        only_blocked=only_blocked,
    )


def _matches(cluster: ClusterNow, text: str) -> bool:
    return not text or text in cluster.name.casefold() or any(text in item.name.casefold() for item in cluster.members)


def trouble(cluster: ClusterNow, can_start_now: bool) -> int:
    """Return how early this cluster must be looked at: greater is earlier."""
    if not cluster.members:
        return 0
    primaries = [member for member in cluster.members if member.role is Role.PRIMARY]
    primary_ill = not primaries or any(member.state != "healthy" for member in primaries)
    ill = len(cluster.replicas) - len(cluster.healthy_replicas)
    lost = any(running.status == Status.LOST for running in cluster.running)
    return 100 * primary_ill + 50 * lost + 10 * min(ill, 4) + 5 * (not can_start_now)
