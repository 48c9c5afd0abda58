"""Read a cluster's page, only from tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet

from dbops.database import clock
from dbops.engine.facts.instance import InstanceFacts, ReplicationFacts, ServerFacts
from dbops.engine.facts.summary import judge, summarize
from dbops.engine.flavors.tidb import OWN_MEANS, REASON
from dbops.engine.phrases import joined, phrase
from dbops.engine.states import ACTIVE, REPLICAS, Role, Status, StepState
from dbops.models import Cluster, Hold, Instance, Rebuild, RebuildStep
from dbops.queries.rebuilds.row_comparisons import Differing, differing

RECENT_REBUILDS = 8
#: Rebuild buttons at the top of a cluster's page; the table has one for each instance.
BUTTONS = 6

#: States of a replica that serves: data that differs is then its greatest problem.
LIVE_STATES = ("healthy", "warning", "lagging")

# The order in which a cluster's instances are listed.
ROLE_ORDER = {Role.PRIMARY: 0, Role.BACKUP: 1, Role.REPLICA: 2, Role.TIDB: 3}


@dataclass(frozen=True, slots=True)
class ActiveRebuild:
    """An active rebuild, as other pages mention it."""

    pk: int
    status: str
    target: str
    source: str
    step_title: str
    percent: float | None
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One instance on a page. ``None`` means unknown. ``refusals`` say why its rebuild cannot be requested.

    ``differing``: rows of its data differ, as the comparison after its rebuild found.
    """

    instance: Instance
    facts: InstanceFacts | None
    state: str
    state_text: str
    is_fresh: bool
    age_seconds: float | None
    held_as: str
    held_by: int | None
    rebuild: ActiveRebuild | None
    refusals: tuple[str, ...] = ()
    differing: Differing | None = None

    @property
    def server(self) -> ServerFacts | None:
        return self.facts.server if self.facts else None

    @property
    def channels(self) -> tuple[ReplicationFacts, ...]:
        return self.server.replication if self.server else ()

    @property
    def lag_seconds(self) -> float | None:
        """Return the maximum lag of all channels, ``None`` if any of them is unknown."""
        lags = [channel.lag_seconds for channel in self.channels]
        known = [lag for lag in lags if lag is not None]
        return max(known) if known and len(known) == len(lags) else None

    @property
    def is_rebuildable(self) -> bool:
        return self.instance.role in REPLICAS

    @property
    def is_tidb(self) -> bool:
        return self.instance.role == Role.TIDB


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster with its instances."""

    name: str
    rows: tuple[InstanceRow, ...]
    running: tuple[ActiveRebuild, ...]

    def of(self, instance: Instance) -> InstanceRow:
        return next(row for row in self.rows if row.instance.pk == instance.pk)

    def named(self, name: str) -> InstanceRow | None:
        return next((row for row in self.rows if row.instance.name == name), None)

    @property
    def is_tidb(self) -> bool:
        return bool(self.rows) and all(row.is_tidb for row in self.rows)

    @property
    def can_be_rebuilt(self) -> list[InstanceRow]:
        """Return the instances that a rebuild can be requested of, those with problems first; at most ``BUTTONS``."""
        rows = [row for row in self.rows if not row.refusals]
        return sorted(rows, key=lambda row: row.state == "healthy")[:BUTTONS]

    @property
    def states(self) -> dict[str, str]:
        """Return the word for each instance's state, by name."""
        return {row.instance.name: row.state for row in self.rows}


@dataclass(frozen=True, slots=True)
class RebuildHistoryRow:
    """A rebuild in a cluster's history. ``slowest`` is the step with the longest duration, ``""`` if none has ended."""

    rebuild: Rebuild
    slowest: str = ""
    slowest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """Everything on a cluster's page."""

    cluster: Cluster
    row: ClusterRow
    recent: tuple[RebuildHistoryRow, ...] = ()


@dataclass(slots=True)
class _Claims:
    """Active rebuilds, holds and data that differs, by instance."""

    by_target: dict[int, ActiveRebuild] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)
    differing: dict[int, Differing] = field(default_factory=dict)


def cluster_page(cluster: Cluster) -> ClusterPage:
    """Return one cluster with its instances and latest rebuilds. Seven queries."""
    row = cluster_row(cluster)
    recent = (
        Rebuild.objects.filter(target__cluster=cluster)
        .select_related("target", "source", "requested_by")
        .defer("plan", "checkpoint")[:RECENT_REBUILDS]
    )
    return ClusterPage(cluster=cluster, row=row, recent=tuple(_with_slowest(list(recent))))


def _with_slowest(rebuilds: list[Rebuild]) -> Iterator[RebuildHistoryRow]:
    ended = RebuildStep.objects.filter(
        rebuild__in=rebuilds, started_at__isnull=False, finished_at__isnull=False
    ).order_by()
    slowest: dict[int, tuple[float, str]] = {}
    for pk, title, started, finished in ended.values_list("rebuild", "title", "started_at", "finished_at"):
        if started and finished:
            taken = (finished - started).total_seconds()
            slowest[pk] = max(slowest.get(pk, (0.0, "")), (taken, title))
    for rebuild in rebuilds:
        seconds, title = slowest.get(rebuild.pk, (None, ""))
        yield RebuildHistoryRow(rebuild, title, seconds)


def cluster_row(cluster: Cluster) -> ClusterRow:
    """Return a cluster's instances, each judged with all of them in view. Five queries."""
    return _cluster_row(cluster, list(_instances().filter(cluster=cluster)), _claims(), clock.now())


def _instances() -> QuerySet[Instance]:
    return Instance.objects.select_related("host", "cluster", "state").order_by("name")


def _claims() -> _Claims:
    claims = _Claims()
    active = Rebuild.objects.filter(status__in=ACTIVE).select_related("target", "source").defer("plan", "checkpoint")
    steps = {
        step.rebuild_id: step
        for step in RebuildStep.objects.filter(rebuild__status__in=ACTIVE, state=StepState.RUNNING).order_by("position")
    }
    for rebuild in active:
        step = steps.get(rebuild.pk)
        progress = step.progress if step else {}
        running = ActiveRebuild(
            pk=rebuild.pk,
            status=rebuild.status,
            target=rebuild.target.name,
            source=rebuild.source.name,
            step_title=step.title if step else rebuild.waiting_for,
            percent=progress.get("percent"),
            eta_seconds=progress.get("eta_seconds"),
        )
        claims.by_target[rebuild.target_id] = running
    claims.holds = {hold.instance_id: hold for hold in Hold.objects.all()}
    claims.differing = differing()
    return claims


def _cluster_row(cluster: Cluster, members: list[Instance], claims: _Claims, now: datetime) -> ClusterRow:
    rows = [_row(instance, claims, now) for instance in members]
    rows = [_with_refusals(row, rows) for row in rows]
    rows.sort(key=lambda row: (ROLE_ORDER[Role(row.instance.role)], row.instance.name))
    running = tuple(row.rebuild for row in rows if row.rebuild)
    return ClusterRow(name=cluster.name, rows=tuple(rows), running=running)


def _row(instance: Instance, claims: _Claims, now: datetime) -> InstanceRow:
    state = getattr(instance, "state", None)
    facts = state.facts() if state else None
    age = state.age_seconds(now) if state else None
    is_fresh = age is not None and age <= settings.FACTS_MAX_AGE_SECONDS
    running, hold = claims.by_target.get(instance.pk), claims.holds.get(instance.pk)
    summary = summarize(facts) if facts else None
    word, text = judge(summary, Role(instance.role), is_fresh=is_fresh)
    unlike = claims.differing.get(instance.pk)
    if unlike and word in LIVE_STATES:
        word, text = "warning", unlike.text
    if running and running.status != Status.QUEUED:
        word, text = "rebuilding", phrase("rebuild {running} is {status}", running=running.pk, status=running.status)
    return InstanceRow(
        instance=instance,
        facts=facts,
        state=word,
        state_text=text,
        is_fresh=is_fresh,
        age_seconds=age,
        held_as=hold.purpose if hold else "",
        held_by=hold.rebuild_id if hold else None,
        rebuild=running,
        differing=unlike,
    )


def _with_refusals(row: InstanceRow, rows: list[InstanceRow]) -> InstanceRow:
    if row.is_tidb:
        return replace(
            row, refusals=(phrase("Not offered: {reason}. {own_means}", reason=REASON, own_means=OWN_MEANS),)
        )
    refusals: list[str] = []
    if not row.is_rebuildable:
        refusals.append(phrase("The primary cannot be rebuilt: a rebuild would delete its data."))
    if row.rebuild:
        refusals.append(
            phrase("Rebuild {rebuild} of this instance is {status}.", rebuild=row.rebuild.pk, status=row.rebuild.status)
        )
    elif row.held_by:
        refusals.append(phrase("Held by rebuild {held_by} ({held_as}).", held_by=row.held_by, held_as=row.held_as))
    sources = [other for other in rows if _may_be_source(other) and other.instance.pk != row.instance.pk]
    if not sources:
        refusals.append(phrase("This cluster has no backup or replica instance that could be the source."))
    elif not any(_can_be_read(other) for other in sources):
        # Each instance's own row has the cause.
        states = joined(
            (phrase("{instance} is {state}", instance=other.instance.name, state=other.state) for other in sources),
            ", ",
        )
        refusals.append(phrase("No source responds: {states}.", states=states))
    return replace(row, refusals=tuple(refusals))


def _may_be_source(row: InstanceRow) -> bool:
    return row.instance.role in REPLICAS


def _can_be_read(row: InstanceRow) -> bool:
    return row.facts is not None and row.facts.is_reachable and row.state != "rebuilding"
