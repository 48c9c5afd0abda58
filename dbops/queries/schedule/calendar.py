"""Read a cluster's timeline and its seven-day calendar."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from dbops.engine.schedule.calendar import Interval, days
from dbops.engine.schedule.timeline import Timeline, TimelineBar
from dbops.models import Cluster, Maintenance
from dbops.queries.fleet.agenda import Agenda, agendas
from dbops.queries.fleet.cluster_status import clusters_now
from dbops.queries.fleet.overview import strip_of

DAYS = 7
#: The calendar starts this many days before today.
DAYS_BACK = 2


@dataclass(frozen=True, slots=True)
class Day:
    """One local day. ``hours`` is 23 or 25 on a clock change."""

    on: date
    timeline: Timeline
    is_today: bool

    @property
    def hours(self) -> int:
        return round(self.timeline.within.seconds / 3600)


@dataclass(frozen=True, slots=True)
class CalendarPage:
    agenda: Agenda
    days: tuple[Day, ...]
    before: date
    after: date
    is_now: bool

    @property
    def bars(self) -> list[TimelineBar]:
        """Return all bars, each once."""
        return list(self.agenda.timeline.bars)


def agenda_of(cluster: Cluster, now: datetime, within: Interval | None = None) -> Agenda:
    """Return a cluster's agenda, by default of the day around now."""
    [found] = agendas(clusters_now(now, only=[cluster.pk]), within or strip_of(now), now)
    return found


def week_ahead(agenda: Agenda, now: datetime, zone: tzinfo) -> tuple[Day, ...]:
    """Return the seven days from today of a loaded cluster. Thirteen queries at most."""
    today = now.astimezone(zone).date()
    week = days(today, DAYS, zone)
    [found] = agendas([agenda.cluster], Interval(week[0].start, week[-1].end), now)
    return _days_of(found, today, week, today)


def calendar(cluster: Cluster, now: datetime, zone: tzinfo, first: date | None = None) -> CalendarPage:
    """Return seven days of a cluster, by default from two days ago."""
    today = now.astimezone(zone).date()
    begin = first or today - timedelta(days=DAYS_BACK)
    week = days(begin, DAYS, zone)
    agenda = agenda_of(cluster, now, Interval(week[0].start, week[-1].end))
    return CalendarPage(
        agenda=agenda,
        days=_days_of(agenda, begin, week, today),
        before=begin - timedelta(days=DAYS),
        after=begin + timedelta(days=DAYS),
        is_now=begin <= today < begin + timedelta(days=DAYS),
    )


def _days_of(agenda: Agenda, begin: date, week: list[Interval], today: date) -> tuple[Day, ...]:
    dates = [begin + timedelta(days=number) for number in range(len(week))]
    return tuple(Day(on, agenda.timeline.part(within), on == today) for on, within in zip(dates, week, strict=True))


def maintenances(cluster: Cluster, now: datetime) -> list[Maintenance]:
    """Return current and announced maintenance, earliest first."""
    rows = Maintenance.objects.filter(cluster=cluster).exclude(ends_at__lte=now)
    return list(rows.order_by("starts_at"))
