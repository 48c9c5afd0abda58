"""Every cluster at one moment, from columns alone: what the fleet page judges a thousand clusters by.

Windows are left out here: what is due later never changes whether a rebuild can start now. ``dbops.queries.agenda`` adds them for
the clusters that are shown.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, CharField, Q, Value, When

from dbops.engine.backups import RUN_ACTIVE, BackupMethod, Origin, RunStatus
from dbops.engine.picture import Job, Machine, Picture, Stop, Use
from dbops.engine.states import ACTIVE, Role, Status, StepState
from dbops.engine.summary import Summary, judge
from dbops.models import BackupRun, Cluster, Hold, Instance, Maintenance, Rebuild, Step

ROLE_ORDER = {Role.PRIMARY: 0, Role.BACKUP: 1, Role.REPLICA: 2}
PURPOSES = {"source": Use.READ, "target": Use.REPLACE}
USES = {BackupMethod.DUMP: Use.DUMP, BackupMethod.PHYSICAL: Use.PHYSICAL}
STATE_COLUMNS = ("state__problem", "state__stopped", "state__lag_seconds", "read_only", "freshness")
INSTANCE_COLUMNS = ("pk", "name", "role", "cluster_id", *STATE_COLUMNS)
# Words, as Django takes each number of an expression through Python once more.
NEVER, OLD, FRESH, YES = "", "old", "fresh", "yes"
RUN_COLUMNS = ("pk", "instance_id", "origin", "method", "status", "started_at", "queued_at", "schedule__name")
REBUILD_COLUMNS = (
    "pk",
    "status",
    "priority",
    "requested_at",
    "started_at",
    "not_before",
    "waiting_for",
    "target_id",
    "source_id",
)


@dataclass(frozen=True, slots=True)
class Member:
    """One instance in short: ``state`` and ``state_text`` as the cluster's page has them."""

    pk: int
    name: str
    role: Role
    cluster: int
    state: str
    state_text: str
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class RunningRebuild:
    """A rebuild that has not ended, as other pages mention it."""

    pk: int
    status: str
    target: str
    source: str
    step_title: str
    percent: float | None
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """One cluster: its instances, its picture without windows, and the rebuilds that go on in it."""

    pk: int
    name: str
    members: tuple[Member, ...]
    picture: Picture
    running: tuple[RunningRebuild, ...]

    @property
    def replicas(self) -> list[Member]:
        return [member for member in self.members if member.role is not Role.PRIMARY]

    @property
    def healthy_replicas(self) -> list[Member]:
        return [member for member in self.replicas if member.state == "healthy"]

    @property
    def worst_lag_seconds(self) -> float | None:
        lags = (member.summary.lag_seconds for member in self.replicas if member.summary)
        return max((lag for lag in lags if lag is not None), default=None)


@dataclass(slots=True)
class _Work:
    """What goes on, by cluster."""

    jobs: dict[int, list[Job]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, list[RunningRebuild]] = field(default_factory=lambda: defaultdict(list))
    targets: dict[int, RunningRebuild] = field(default_factory=dict)
    stops: dict[int, list[Stop]] = field(default_factory=lambda: defaultdict(list))


def clusters_now(now: datetime, only: Collection[int] | None = None) -> list[ClusterNow]:
    """Return clusters by name: all of them, or those with these primary keys. Seven queries."""
    clusters, instances = Cluster.objects.all(), Instance.objects.all()
    if only is not None:
        clusters, instances = clusters.filter(pk__in=only), instances.filter(cluster__in=only)
    read_only = Case(When(state__is_read_only=True, then=Value(YES)), default=Value(""), output_field=CharField())
    marks = {"freshness": _freshness(now), "read_only": read_only}
    rows = list(instances.annotate(**marks).order_by().values_list(*INSTANCE_COLUMNS))
    places = {row[0]: (row[1], row[3]) for row in rows}
    work = _Work()
    _add_rebuilds(work, places)
    _add_runs(work, places)
    _add_stops(work, now, only)
    members = _members(rows, work)
    return [
        ClusterNow(
            pk=pk,
            name=name,
            members=tuple(members[pk]),
            picture=_picture(name, members[pk], work.jobs[pk], work.stops[pk], now),
            running=tuple(work.running[pk]),
        )
        for pk, name in clusters.order_by("name").values_list("pk", "name")
    ]


def _freshness(now: datetime) -> Case:
    """How old the facts are, judged by the database: thousands of times made into objects here would take longer than all the rest."""
    oldest = now - timedelta(seconds=settings.FACTS_FRESH_SECONDS)
    return Case(
        When(state__observed_at__gte=oldest, then=Value(FRESH)),
        When(state__observed_at__isnull=False, then=Value(OLD)),
        default=Value(NEVER),
        output_field=CharField(),
    )


def _members(rows: Iterable[tuple[Any, ...]], work: _Work) -> dict[int, list[Member]]:
    roles = {item.value: item for item in Role}
    found: dict[int, list[Member]] = defaultdict(list)
    for pk, name, word, cluster, problem, stopped, lag, read_only, freshness in rows:
        role = roles[word]
        summary = Summary(problem, stopped, lag, bool(read_only)) if freshness else None
        state, text = judge(summary, role, is_fresh=freshness == FRESH)
        rebuild = work.targets.get(pk)
        if rebuild and rebuild.status != Status.QUEUED:
            state, text = "rebuilding", f"rebuild {rebuild.pk} is {rebuild.status}"
        found[cluster].append(Member(pk, name, role, cluster, state, text, summary))
    for members in found.values():
        members.sort(key=lambda member: (ROLE_ORDER[member.role], member.name))
    return found


def _picture(name: str, members: list[Member], jobs: list[Job], stops: list[Stop], now: datetime) -> Picture:
    return Picture(now=now, cluster=name, machines=tuple(map(_machine, members)), jobs=tuple(jobs), stops=tuple(stops))


def _machine(member: Member) -> Machine:
    summary = member.summary
    cannot = member.state in ("unknown", "unreachable")
    return Machine(
        name=member.name,
        role=member.role,
        problem=member.state_text if cannot else "",
        stopped=summary.stopped if summary and member.role is not Role.PRIMARY else "",
        lag_seconds=summary.lag_seconds if summary else None,
    )


def _add_rebuilds(work: _Work, places: dict[int, tuple[str, int]]) -> None:
    active = Rebuild.objects.filter(status__in=ACTIVE)
    steps = {
        rebuild: (title, progress)
        for rebuild, title, progress in Step.objects.filter(rebuild__in=active, state=StepState.RUNNING)
        .order_by("position")
        .values_list("rebuild_id", "title", "progress")
    }
    holds: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for rebuild, instance, purpose in Hold.objects.exclude(rebuild=None).values_list(
        "rebuild_id", "instance_id", "purpose"
    ):
        holds[rebuild].append((instance, purpose))
    for row in active.order_by("pk").values(*REBUILD_COLUMNS):
        if row["target_id"] not in places:
            continue
        target, cluster = places[row["target_id"]]
        title, progress = steps.get(row["pk"], (row["waiting_for"], {}))
        running = RunningRebuild(
            pk=row["pk"],
            status=row["status"],
            target=target,
            source=places.get(row["source_id"], ("?", 0))[0],
            step_title=title,
            percent=progress.get("percent"),
            eta_seconds=progress.get("eta_seconds"),
        )
        work.running[cluster].append(running)
        work.targets[row["target_id"]] = running
        claims = holds[row["pk"]] or [(row["source_id"], "source"), (row["target_id"], "target")]
        work.jobs[cluster].append(
            Job(
                name=f"rebuild {row['pk']}",
                claims=tuple((places[pk][0], PURPOSES[purpose]) for pk, purpose in claims if pk in places),
                started_at=None if row["status"] == Status.QUEUED else row["started_at"],
                queued_at=row["requested_at"],
                not_before=row["not_before"],
                priority=row["priority"],
                is_lost=row["status"] == Status.LOST,
                can_be_stopped=True,
                rebuild=row["pk"],
            )
        )


def _add_runs(work: _Work, places: dict[int, tuple[str, int]]) -> None:
    rows = BackupRun.objects.filter(status__in=RUN_ACTIVE).order_by("pk").values_list(*RUN_COLUMNS)
    for pk, instance, origin, method, status, started_at, queued_at, schedule in rows:
        if instance not in places:
            continue
        name, cluster = places[instance]
        is_managed = origin == Origin.MANAGED
        work.jobs[cluster].append(
            Job(
                name=f"backup run {pk}" + (f" ({schedule})" if schedule else ""),
                claims=((name, USES[BackupMethod(method)]),),
                started_at=started_at,
                queued_at=queued_at,
                is_managed=is_managed,
                is_lost=status == RunStatus.LOST,
                can_be_stopped=is_managed,
                schedule=schedule or "",
                run=pk,
            )
        )


def _add_stops(work: _Work, now: datetime, only: Collection[int] | None) -> None:
    stops = Maintenance.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now))
    if only is not None:
        stops = stops.filter(cluster__in=only)
    for stop in stops:
        work.stops[stop.cluster_id].append(Stop(stop.starts_at, stop.ends_at, stop.reason, stop.created_by))
