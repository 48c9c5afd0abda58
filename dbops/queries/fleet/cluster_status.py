"""Read the status of every cluster from columns only, fast enough for a thousand clusters.

Backup windows are left out: they never change whether a rebuild can start now. ``dbops.queries.fleet.agenda`` adds them for the
displayed clusters.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Case, CharField, Value, When

from dbops.engine.facts.age import TOLERANCE_SECONDS
from dbops.engine.facts.summary import Summary, judge
from dbops.engine.phrases import phrase
from dbops.engine.schedule.snapshot import ClusterSnapshot, InstanceStatus
from dbops.engine.states import ACTIVE, REPLICAS, Role, Status, StepState
from dbops.loaders.cluster_snapshots import active_work, differences, instance_status
from dbops.models import Cluster, Instance, Rebuild, RebuildStep
from dbops.queries.fleet.cluster import LIVE_STATES
from dbops.queries.rebuilds.row_comparisons import Differing, differing

ROLE_ORDER = {Role.PRIMARY: 0, Role.BACKUP: 1, Role.REPLICA: 2, Role.TIDB: 3}
STATE_COLUMNS = ("state__problem", "state__stopped", "state__lag_seconds", "read_only", "freshness")
INSTANCE_COLUMNS = ("pk", "name", "role", "cluster_id", *STATE_COLUMNS)
# Text, because Django converts each number of an expression in Python once more.
NEVER, OLD, FRESH, YES = "", "old", "fresh", "yes"


class MemberStatus(NamedTuple):
    """One instance in short: ``state`` and ``state_text`` as on the cluster's page. A tuple, because a page needs thousands."""

    pk: int
    name: str
    role: Role
    state: str
    state_text: str
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class RunningRebuild:
    """An active rebuild, as other pages mention it."""

    pk: int
    status: str
    target: str
    source: str
    step_title: str
    percent: float | None
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """One cluster: its instances, its snapshot without windows, and its active rebuilds."""

    pk: int
    name: str
    members: tuple[MemberStatus, ...]
    snapshot: ClusterSnapshot
    running: tuple[RunningRebuild, ...]

    @property
    def replicas(self) -> list[MemberStatus]:
        return [member for member in self.members if member.role in REPLICAS]

    @property
    def is_tidb(self) -> bool:
        return self.snapshot.is_tidb

    @property
    def healthy_replicas(self) -> list[MemberStatus]:
        return [member for member in self.replicas if member.state == "healthy"]

    @property
    def worst_lag_seconds(self) -> float | None:
        lags = (member.summary.lag_seconds for member in self.replicas if member.summary)
        return max((lag for lag in lags if lag is not None), default=None)


def clusters_now(now: datetime, only: Collection[int] | None = None) -> list[ClusterNow]:
    """Return clusters by name: all of them, or those with these primary keys. Nine queries."""
    clusters, instances = Cluster.objects.all(), Instance.objects.all()
    if only is not None:
        clusters, instances = clusters.filter(pk__in=only), instances.filter(cluster__in=only)
    read_only = Case(When(state__is_read_only=True, then=Value(YES)), default=Value(""), output_field=CharField())
    marks = {"freshness": _freshness(now), "read_only": read_only}
    rows = list(instances.annotate(**marks).order_by().values_list(*INSTANCE_COLUMNS))
    rebuilds = _rebuilds({row[0]: (row[1], row[3]) for row in rows})
    members = _members(rows, rebuilds, differing(only))
    jobs, stops = active_work(only, now=now)
    unlike = differences()
    return [
        ClusterNow(
            pk=pk,
            name=name,
            members=tuple(members[pk]),
            snapshot=ClusterSnapshot(
                now=now,
                cluster=name,
                machines=tuple(map(_machine, members[pk])),
                jobs=tuple(jobs[pk]),
                stops=tuple(stops[pk]),
                difference=unlike.get(pk),
            ),
            running=tuple(rebuilds[member.pk] for member in members[pk] if member.pk in rebuilds),
        )
        for pk, name in clusters.order_by("name").values_list("pk", "name")
    ]


def wanted_replicas() -> dict[int, int | None]:
    """Return how many healthy replicas each cluster shall have, ``None`` for all of them. One query."""
    return dict(Cluster.objects.order_by().values_list("pk", "wanted_replicas"))


def _freshness(now: datetime) -> Case:
    """Return the age of facts, computed by the database: thousands of datetime objects would take longer than all the rest."""
    oldest, newest = now - timedelta(seconds=settings.FACTS_MAX_AGE_SECONDS), now + timedelta(seconds=TOLERANCE_SECONDS)
    return Case(
        When(state__observed_at__range=(oldest, newest), then=Value(FRESH)),
        When(state__observed_at__isnull=False, then=Value(OLD)),
        default=Value(NEVER),
        output_field=CharField(),
    )


def _members(
    rows: Iterable[tuple[Any, ...]], rebuilds: Mapping[int, RunningRebuild], unlike: Mapping[int, Differing]
) -> dict[int, list[MemberStatus]]:
    roles = {item.value: item for item in Role}
    # Most instances are alike: each kind is judged once.
    judged: dict[tuple[Any, ...], tuple[str, str, Summary | None]] = {}
    found: dict[int, list[MemberStatus]] = defaultdict(list)
    for pk, name, word, cluster, *read in rows:
        kind = (word, *read)
        if (known := judged.get(kind)) is None:
            known = judged[kind] = _judged(roles[word], *read)
        state, text, summary = known
        if pk in unlike and state in LIVE_STATES:
            state, text = "warning", unlike[pk].text
        rebuild = rebuilds.get(pk)
        if rebuild and rebuild.status != Status.QUEUED:
            state, text = (
                "rebuilding",
                phrase("rebuild {rebuild} is {status}", rebuild=rebuild.pk, status=rebuild.status),
            )
        found[cluster].append(MemberStatus(pk, name, roles[word], state, text, summary))
    for members in found.values():
        members.sort(key=lambda member: (ROLE_ORDER[member.role], member.name))
    return found


def _judged(
    role: Role, problem: str, stopped: str, lag_seconds: float | None, read_only: str, freshness: str
) -> tuple[str, str, Summary | None]:
    summary = Summary(problem, stopped, lag_seconds, bool(read_only)) if freshness != NEVER else None
    return (*judge(summary, role, is_fresh=freshness == FRESH), summary)


def _machine(member: MemberStatus) -> InstanceStatus:
    summary = member.summary
    if member.state == "rebuilding":
        return InstanceStatus(member.name, member.role)  # its facts do not count during its rebuild
    return instance_status(
        member.name,
        member.role,
        problem=member.state_text if member.state in ("unknown", "unreachable") else "",
        stopped=summary.stopped if summary else "",
        lag_seconds=summary.lag_seconds if summary else None,
    )


def _rebuilds(places: Mapping[int, tuple[str, int]]) -> dict[int, RunningRebuild]:
    """Return the active rebuilds, by primary key of the target."""
    active = Rebuild.objects.filter(status__in=ACTIVE)
    steps = {
        rebuild: (title, progress)
        for rebuild, title, progress in RebuildStep.objects.filter(rebuild__in=active, state=StepState.RUNNING)
        .order_by("position")
        .values_list("rebuild_id", "title", "progress")
    }
    found = {}
    for pk, status, target, source, waiting_for in active.order_by("pk").values_list(
        "pk", "status", "target_id", "source__name", "waiting_for"
    ):
        if target not in places:
            continue
        title, progress = steps.get(pk, (waiting_for, {}))
        found[target] = RunningRebuild(
            pk=pk,
            status=status,
            target=places[target][0],
            source=source,
            step_title=title,
            percent=progress.get("percent"),
            eta_seconds=progress.get("eta_seconds"),
        )
    return found
