"""Compute the impact of a rebuild: source, due backups, queue, redundancy."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.backup_windows import BackupWindow
from dbops.engine.schedule.conflicts import Activity, MethodTraits
from dbops.engine.schedule.occupancy import order_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot
from dbops.engine.schedule.start_option_keys import StartOption
from dbops.engine.schedule.window_blockers import BLIND_HOURS
from dbops.engine.states import REPLICAS

#: The source's replication is paused from the first to the last of these steps.
PAUSED_STEPS = ("pause", "stream", "release")
HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class DurationRange:
    """An expected duration in seconds. ``None``: unknown."""

    p50_seconds: float | None
    p90_seconds: float | None


@dataclass(frozen=True, slots=True)
class Collision:
    """A backup that is due during the rebuild. ``is_likely``: due before the p50 end, not only before the p90 end."""

    window: BackupWindow
    is_likely: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The number of replicas of the cluster, backup instances included: all, healthy now, and healthy during the rebuild."""

    replicas: tuple[str, ...]
    healthy: tuple[str, ...]
    healthy_during: tuple[str, ...]

    @property
    def is_lost(self) -> bool:
        """Whether no replica remains that could replace the primary."""
        return not self.healthy_during


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of a rebuild. ``is_blind``: its duration is unknown, so backups of the next ``BLIND_HOURS`` count.

    ``reads_server``: false if the rebuild reads a finished backup. ``reading``: how long the source is read. If ``pauses`` is set,
    the source's replication is paused for the same time.
    """

    source: str
    pauses: bool
    pause_reason: str
    reading: DurationRange
    reads_server: bool
    collisions: tuple[Collision, ...]
    before: tuple[ActiveJob, ...]
    behind: tuple[ActiveJob, ...]
    redundancy: Redundancy
    is_blind: bool
    is_start_known: bool


def impact(
    plan: Plan,
    snapshot: ClusterSnapshot,
    choice: StartOption | None,
    states: Mapping[str, str],
    *,
    method: MethodTraits,
) -> Impact:
    """Return the impact of a rebuild with this plan.

    Args:
        choice: the start option; its predicted times decide which backups overlap.
        states: of the cluster's instances by name, as ``engine.facts.summary.judge`` names them.
    """
    before, behind = _line(plan, snapshot, choice)
    return Impact(
        source=plan.source.name,
        pauses=plan.pause_source,
        pause_reason=plan.pause_reason,
        reading=reading(plan),
        reads_server=plan.archive is None,
        collisions=_collisions(plan, snapshot, choice, method),
        before=before,
        behind=behind,
        redundancy=_redundancy(plan, snapshot, states),
        is_blind=choice is None or choice.finishes.p90 is None,
        is_start_known=choice is not None and choice.starts.p50 is not None,
    )


def reading(plan: Plan) -> DurationRange:
    """Return how long the source is read, and paused if the plan says so: the sum of its steps.

    The sum of the p90 values is an upper limit of the p90.
    """
    steps = [step for step in plan.steps if step.name in PAUSED_STEPS]
    likely = [step.predicted_seconds for step in steps]
    late = [step.predicted_p90_seconds for step in steps]
    return DurationRange(_sum(likely), _sum(late))


def _sum(seconds: list[float | None]) -> float | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if known and len(known) == len(seconds) else None


def _collisions(
    plan: Plan, snapshot: ClusterSnapshot, choice: StartOption | None, method: MethodTraits
) -> tuple[Collision, ...]:
    """Return the first backup of each schedule on the used instances that becomes due between start and end."""
    if choice is None or choice.starts.p50 is None:
        return ()
    start, end = choice.starts.p50, choice.finishes.p50
    limit = choice.finishes.p90 or start + timedelta(hours=BLIND_HOURS)
    met: dict[str, Collision] = {}
    for window in sorted(snapshot.windows, key=lambda item: item.starts_at):
        if window.instance in _used(plan) and start < window.starts_at < limit and window.schedule not in met:
            is_likely = end is not None and window.starts_at < end
            met[window.schedule] = Collision(window, is_likely, _meaning(plan, window, method))
    return tuple(met.values())


def _used(plan: Plan) -> set[str]:
    """Return the instances that a rebuild uses; the source is not one of them if a finished backup is read."""
    return {plan.target.name} if plan.archive else {plan.source.name, plan.target.name}


def _meaning(plan: Plan, window: BackupWindow, method: MethodTraits) -> str:
    if window.instance == plan.target.name:
        work = Activity.AHEAD_TARGET
    else:
        work = Activity.AHEAD_MANAGED if window.is_managed else Activity.AHEAD_EXTERNAL
    found = method.conflicts.get(work)
    return found.reason if found else ""


def _line(
    plan: Plan, snapshot: ClusterSnapshot, choice: StartOption | None
) -> tuple[tuple[ActiveJob, ...], tuple[ActiveJob, ...]]:
    """Return the jobs that already wait for source or target: before this rebuild, and behind it."""
    used = _used(plan)
    waiting = [job for job in snapshot.jobs if not job.started_at and used & {name for name, _ in job.claims}]
    begins = (choice.not_before if choice else None) or snapshot.now
    own = ActiveJob(name="", claims=(), started_at=None, queued_at=begins)
    in_order = sorted(waiting, key=order_of)
    # A job that may not start before this rebuild is overtaken, whatever its queue position.
    may_start = [job for job in in_order if (job.not_before or begins) <= begins and not job.needs_approval]
    before = tuple(job for job in may_start if order_of(job) < order_of(own))
    return before, tuple(job for job in in_order if job not in before)


def _redundancy(plan: Plan, snapshot: ClusterSnapshot, states: Mapping[str, str]) -> Redundancy:
    replicas = tuple(machine.name for machine in snapshot.machines if machine.role in REPLICAS)
    healthy = tuple(name for name in replicas if states.get(name) == HEALTHY)
    return Redundancy(replicas, healthy, tuple(name for name in healthy if name != plan.target.name))
