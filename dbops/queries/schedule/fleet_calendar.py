"""Read the calendar of all clusters: a day or a week, one row per cluster, in pages."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from enum import StrEnum

from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.db.models.functions import Lower
from django.db.models.lookups import Contains

from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.calendar import Interval, days
from dbops.engine.schedule.timeline import can_start
from dbops.models import Cluster, Instance
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now

CLUSTERS_ON_A_PAGE = 25


class CalendarSpan(StrEnum):
    """The period that one page shows."""

    DAY = "day"
    WEEK = "week"

    @property
    def days(self) -> int:
        return 7 if self is CalendarSpan.WEEK else 1


@dataclass(frozen=True, slots=True)
class FleetCalendar:
    """One page of the calendar. ``first`` is its first day; ``days`` are 23 or 25 hours long on a clock change."""

    page: Page[ClusterNow]
    rows: tuple[Agenda, ...]
    days: tuple[Interval, ...]
    first: date
    span: CalendarSpan
    today: date
    text: str
    is_blocked: bool
    clusters: int

    @property
    def last(self) -> date:
        return self.first + timedelta(days=self.span.days - 1)

    @property
    def before(self) -> date:
        return self.first - timedelta(days=self.span.days)

    @property
    def after(self) -> date:
        return self.first + timedelta(days=self.span.days)

    @property
    def is_now(self) -> bool:
        return self.first <= self.today <= self.last

    @property
    def changed_hours(self) -> int:
        """Return the hours of a day with a clock change; 0 if there is none."""
        return next((hours for one in self.days if (hours := round(one.seconds / 3600)) != 24), 0)


def fleet_calendar(
    now: datetime,
    zone: tzinfo,
    *,
    first: date | None = None,
    span: CalendarSpan = CalendarSpan.DAY,
    text: str = "",
    is_blocked: bool = False,
    number: str | int = 1,
) -> FleetCalendar:
    """Return one page of clusters by name. Thirty queries at most, however large the fleet is.

    Args:
        first: the first day; ``None`` means today.
        text: looked for in the names of clusters and instances.
        is_blocked: only clusters in which no rebuild can start now.
    """
    today = now.astimezone(zone).date()
    begin = first or today
    shown = days(begin, span.days, zone)
    page = _page(now, text, is_blocked, number)
    clusters = list(page.object_list)
    return FleetCalendar(
        page=page,
        rows=tuple(agendas(clusters, Interval(shown[0].start, shown[-1].end), now)),
        days=tuple(shown),
        first=begin,
        span=span,
        today=today,
        text=text,
        is_blocked=is_blocked,
        clusters=Cluster.objects.count(),
    )


def _page(now: datetime, text: str, is_blocked: bool, number: str | int) -> Page[ClusterNow]:
    """Return one page of the matching clusters. Only the filter for blocked clusters evaluates all of them."""
    keys = _keys(text)
    if is_blocked:
        blocked = [
            one
            for one in clusters_now(now, only=keys if text else None)
            if not can_start(one.snapshot, METHODS[DEFAULT_METHOD])
        ]
        return Paginator(blocked, CLUSTERS_ON_A_PAGE).get_page(number)
    page = Paginator(keys, CLUSTERS_ON_A_PAGE).get_page(number)
    shown = clusters_now(now, only=list(page.object_list))
    return Page(shown, page.number, page.paginator)  # type: ignore[arg-type]  # counts without listing


def _keys(text: str) -> list[int]:
    """Return the primary keys of the matching clusters, by name."""
    found = Cluster.objects.order_by("name")
    if text:
        # `icontains` would not do: it is case-sensitive with MariaDB's binary collation.
        named = Instance.objects.filter(Contains(Lower("name"), text.lower())).order_by().values("cluster")
        found = found.filter(Q(Contains(Lower("name"), text.lower())) | Q(pk__in=named))
    return list(found.values_list("pk", flat=True))
