"""Replay the history of a cluster with one change."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.what_if import WhatIfChange, WhatIfOutcome, by_method, compare, proposals
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.phrases import phrase
from dbops.engine.planning.method import Method
from dbops.engine.schedule.backup_windows import LEARNED_RUNS, Duration, learn
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import BackupMethod, RunBy, RunOrigin, RunStatus
from dbops.loaders.availability_records import blocked_methods, records
from dbops.models import BackupRun, BackupSchedule, Cluster
from dbops.queries.availability.overview import MICROSECONDS, Sum, period_of, sums

#: Hours by which a schedule can move; twelve earlier and twelve later are the same time of day.
HOURS = range(-11, 13)
#: Changes that are tried for the best one; each takes a sweep over the whole period.
TRIED_HOURS = (-9, -6, -3, 3, 6, 9, 12)
#: Maximum number of schedules that are tried, those that ran the longest.
TRIED_SCHEDULES = 4


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """The requested change and period."""

    schedule: str = ""
    hours: int = 0
    as_physical: bool = False
    adds_source: bool = False


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """The duration of one gap, as recorded and with the change."""

    before: Sum
    after: Sum


@dataclass(frozen=True, slots=True)
class BlockedShare:
    """The blocked time of a period by one method, with each cause and its seconds, longest first."""

    method: str
    text: str
    of_seconds: float
    causes: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.causes)

    @property
    def percent(self) -> float:
        return 100 * self.seconds / self.of_seconds


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``outcome`` and ``rows`` are of the requested change; ``best`` are the best changes, best first.

    ``physical`` is the duration of a physical backup, or ``None``.
    """

    period: Interval
    asked: WhatIfRequest
    schedules: tuple[BackupSchedule, ...]
    physical: Duration | None
    outcome: WhatIfOutcome
    rows: tuple[WhatIfRow, ...]
    best: tuple[WhatIfOutcome, ...]
    ways: tuple[BlockedShare, ...]

    @property
    def blocked_seconds(self) -> float:
        return self.outcome.blocked_before / MICROSECONDS


def what_if(cluster: Cluster, now: datetime, asked: WhatIfRequest, *, days: int) -> WhatIf:
    """Return a period as recorded and with the change. Fifteen queries, and one sweep per tried change."""
    period = period_of(days, now)
    record = records([cluster.pk], period, now)[cluster.pk]
    schedules = tuple(
        BackupSchedule.objects.filter(instance__cluster=cluster).select_related("instance").order_by("name")
    )
    physical = _physical(cluster)
    outcome = compare(record, _change(asked, schedules, physical), period, method=METHODS[DEFAULT_METHOD])
    before, after = sums(outcome.before, period), sums(outcome.after, period)
    return WhatIf(
        period=period,
        asked=asked,
        schedules=schedules,
        physical=physical,
        outcome=outcome,
        rows=tuple(WhatIfRow(*pair) for pair in zip(before, after, strict=True)),
        best=tuple(
            proposals(record, list(_tried(record, schedules, physical)), period, method=METHODS[DEFAULT_METHOD])
        ),
        ways=tuple(_ways(cluster, record, period)),
    )


def _ways(cluster: Cluster, record: ClusterRecord, period: Interval) -> Iterable[BlockedShare]:
    others = _made_by_others(cluster, period)
    for method, found in by_method(record, period, _compared_methods()):
        causes = ((_why(cause, method, others), value / MICROSECONDS) for cause, value in found.items())
        yield BlockedShare(method.name, method.short, period.seconds, tuple(causes))


def _compared_methods() -> list[Method]:
    """Return the methods that read a finished backup, then the default one."""
    return [method for name, method in reversed(METHODS.items()) if method.reads.backup or name == DEFAULT_METHOD]


def _made_by_others(cluster: Cluster, period: Interval) -> Counter[BackupMethod]:
    """Return the number of external backups of a period, by kind. One query."""
    rows = BackupRun.objects.filter(instance__cluster=cluster, finished_at__gte=period.start, started_at__lt=period.end)
    by_others = rows.filter(status__in=(RunStatus.SUCCEEDED, RunStatus.ENDED)).exclude(origin=RunOrigin.MANAGED)
    return Counter(BackupMethod(method) for method in by_others.order_by().values_list("method", flat=True))


def _why(cause: Cause, method: Method, others: Counter[BackupMethod]) -> str:
    """Return a cause as text. For a missing backup it mentions external backups, which don't count."""
    kind = method.reads.backup
    if cause is not Cause.NO_BACKUP or kind is None:
        return str(cause)
    one = method.reads.value
    text = phrase("no complete {one} made by dbops", one=one)
    if count := others[kind]:
        text = phrase(
            "{text} (external, not counted: {count}; dbops can’t tell whether they are complete)",
            text=text,
            count=count,
        )
    return text


def _change(asked: WhatIfRequest, schedules: Iterable[BackupSchedule], physical: Duration | None) -> WhatIfChange:
    found = next((one for one in schedules if one.name == asked.schedule), None)
    if found is None:
        return WhatIfChange(adds_source=asked.adds_source)
    by = timedelta(hours=asked.hours)
    if asked.as_physical and physical:
        return _as_physical(found, physical, by=by, adds_source=asked.adds_source)
    return WhatIfChange(found.name, by=by, adds_source=asked.adds_source)


def _as_physical(
    schedule: BackupSchedule, physical: Duration, *, by: timedelta = timedelta(), adds_source: bool = False
) -> WhatIfChange:
    blocks = blocked_methods(BackupMethod.PHYSICAL.value, schedule.run_by == RunBy.DBOPS)
    return WhatIfChange(schedule.name, by, timedelta(seconds=physical.p50_seconds), blocks, adds_source)


def _tried(
    record: ClusterRecord, schedules: Iterable[BackupSchedule], physical: Duration | None
) -> Iterable[WhatIfChange]:
    took: dict[str, float] = defaultdict(float)
    for item in record.occupied:
        if item.cause is Cause.BACKUP and item.schedule:
            took[item.schedule] += item.interval.seconds
    longest = sorted((one for one in schedules if took[one.name]), key=lambda one: -took[one.name])
    for schedule in longest[:TRIED_SCHEDULES]:
        yield from (WhatIfChange(schedule.name, by=timedelta(hours=hours)) for hours in TRIED_HOURS)
        if physical and schedule.method == BackupMethod.DUMP:
            yield _as_physical(schedule, physical)
    yield WhatIfChange(adds_source=True)


def _physical(cluster: Cluster) -> Duration | None:
    """Return the duration of a cluster's last physical backups. One query."""
    rows = BackupRun.objects.filter(
        instance__cluster=cluster,
        method=BackupMethod.PHYSICAL,
        status=RunStatus.SUCCEEDED,
        started_at__isnull=False,
        finished_at__isnull=False,
    )
    times = rows.order_by("-finished_at").values_list("started_at", "finished_at")[:LEARNED_RUNS]
    return learn([(end - start).total_seconds() for start, end in times if start and end])
