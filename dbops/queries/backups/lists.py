"""Read lists of backup runs with a constant number of queries."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import F, Q, QuerySet, TextField
from django.db.models.functions import Cast, Coalesce

from dbops.database import clock
from dbops.engine.backups.flags import RunFlag
from dbops.engine.facts.backups import BackupProcess, FoundSchedule, Reads
from dbops.engine.facts.instance import from_record
from dbops.engine.states import RUN_ACTIVE, RunStatus
from dbops.models import BackupRun, BackupSchedule, Cluster, InstanceState

T = TypeVar("T")

RUNS_ON_A_PAGE = 50
DAYS_SHOWN = 7
#: Flags and statuses that a list can be filtered by.
FLAGS = (*RunFlag, RunStatus.FAILED, RunStatus.MISSED)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of a list. ``bytes_so_far`` says that ``bytes`` is of a running backup."""

    run: BackupRun
    bytes: int | None
    bytes_so_far: bool

    @property
    def moment(self) -> datetime | None:
        """Return the start time, or the due time of a run that never started."""
        return self.run.started_at or self.run.due_at or self.run.queued_at

    @property
    def command(self) -> str:
        known: dict[str, Any] = self.run.evidence or {}
        return str(known.get("command") or known.get("statement") or known.get("reported_command") or "")

    @property
    def because(self) -> str:
        return str((self.run.evidence or {}).get("because") or "")


@dataclass(frozen=True, slots=True)
class HostNote:
    """A backup or schedule found on a host that no run was recorded for."""

    host: str
    instances: tuple[str, ...]
    item: Any


@dataclass(frozen=True, slots=True)
class Notes:
    """``unclear``: running backups of unknown instances; ``found``: crontab and timer lines without a schedule."""

    unclear: tuple[HostNote, ...]
    found: tuple[HostNote, ...]


def runs(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    cluster: str = "",
    instances: Collection[int] | None = None,
    flag: str = "",
) -> QuerySet[BackupRun]:
    """Return runs that overlap a period, newest first. One query.

    Args:
        instances: primary keys; ``None`` means all.
        flag: one of ``FLAGS``; anything else that is not empty finds nothing.
    """
    rows = BackupRun.objects.select_related("instance__cluster", "schedule")
    rows = rows.annotate(moment=Coalesce("started_at", "due_at", "queued_at"))
    if since:
        rows = rows.filter(Q(status__in=RUN_ACTIVE) | Q(finished_at__gte=since))
    if until:
        rows = rows.filter(moment__lt=until)
    if cluster:
        rows = rows.filter(instance__cluster__name=cluster)
    if instances is not None:
        rows = rows.filter(instance__in=instances)
    if flag in set(RunFlag):
        rows = rows.annotate(flags_text=Cast("flags", TextField())).filter(flags_text__contains=f'"{flag}"')
    elif flag:
        rows = rows.filter(status=flag)
    return rows.order_by(F("moment").desc(nulls_last=True), "-pk")


def listed(*, cluster: str, flag: str, number: str | int) -> Page[RunRow]:
    """Return one page of the runs of the last ``DAYS_SHOWN`` days. Two queries."""
    rows = runs(since=clock.now() - timedelta(days=DAYS_SHOWN), cluster=cluster, flag=flag).defer("checkpoint", "error")
    page = Paginator(rows, RUNS_ON_A_PAGE).get_page(number)
    return Page(rows_of(page.object_list), page.number, page.paginator)  # type: ignore[arg-type]  # counts without listing


def rows_of(found: Iterable[BackupRun]) -> list[RunRow]:
    """Return runs as rows of a list."""
    return [_row(run) for run in found]


def _row(run: BackupRun) -> RunRow:
    if run.bytes_written is not None:
        return RunRow(run, run.bytes_written, False)
    return RunRow(run, (run.progress or {}).get("bytes"), True)


def cluster_names() -> list[str]:
    """Return the names of clusters, for a filter. One query."""
    return list(Cluster.objects.values_list("name", flat=True))


def notes() -> Notes:
    """Return running backups of unknown instances and schedules found on hosts. Two queries."""
    states = InstanceState.objects.annotate(text=Cast("record", TextField()))
    interesting = Q(text__contains='"reads": "unclear"') | Q(text__contains='"found_schedules": [{')
    rows = (
        states.filter(interesting).select_related("instance__host").order_by("instance__host__name", "instance__name")
    )
    hosts: dict[str, list[InstanceState]] = {}
    for state in rows:
        hosts.setdefault(state.instance.host.name, []).append(state)
    kept = BackupSchedule.objects.values_list("instance__host__name", "cron")
    followed = set(kept) if hosts else set()
    unclear = [note for host, found in hosts.items() for note in _unclear(host, found)]
    proposals = [note for host, found in hosts.items() for note in _found(host, found, followed)]
    return Notes(tuple(unclear), tuple(proposals))


def _unclear(host: str, states: list[InstanceState]) -> Iterator[HostNote]:
    """Return the processes that no instance of their host accounts for."""
    processes = [process for state in states for process in _parts(state, "backup_processes", BackupProcess)]
    clear = {item.key for item in processes if item.reads != Reads.UNCLEAR or item.is_ours}
    open_ones = {item.key: item for item in processes if item.key not in clear}
    names = tuple(state.instance.name for state in states)
    return (HostNote(host, names, item) for item in open_ones.values())


def _found(host: str, states: list[InstanceState], followed: set[tuple[str, str]]) -> Iterator[HostNote]:
    found = {item: None for state in states for item in _parts(state, "found_schedules", FoundSchedule)}
    names = tuple(state.instance.name for state in states)
    return (HostNote(host, names, item) for item in found if (host, item.timing) not in followed)


def _parts(state: InstanceState, name: str, kind: type[T]) -> list[T]:
    return [from_record(kind, item) for item in (state.record or {}).get(name) or ()]
