"""Compare the methods for one rebuild: availability, duration, age of the data, and load on the source."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.errors import DbopsError, Refused
from dbops.engine.flavors import flavor_for
from dbops.engine.phrases import phrases
from dbops.engine.planning.impact import reading
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method import Method
from dbops.engine.planning.planner import build_plan
from dbops.engine.planning.step_estimates import STEP_BY_AGE
from dbops.engine.rebuilds.plan import Plan


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """One method, as its current plan describes it.

    ``why_not`` is empty if the method is available. ``predicted_seconds``: of all steps, ``None`` if one of them is unknown.
    ``rests_on``: the origin of the prediction, ``own_rebuilds`` of this cluster or ``other_rebuilds``. ``data_of``: when the copied data
    was current, ``None`` for a running server. ``behind``: how many transactions the primary has written since, ``None`` if unknown.
    ``catch_up_seconds``: how long the copy catches up. ``pause_seconds``: how long the source's replication pauses if ``pauses_source``,
    ``None`` if unknown.
    """

    method: str
    summary: str
    reads_server: bool
    why_not: tuple[str, ...]
    predicted_seconds: float | None = None
    bytes_to_copy: int | None = None
    pauses_source: bool = False
    pause_reason: str = ""
    data_of: datetime | None = None
    behind: int | None = None
    rests_on: str = ""
    pause_seconds: float | None = None
    catch_up_seconds: float | None = None
    own_rebuilds: int = 0
    other_rebuilds: int = 0

    @property
    def is_possible(self) -> bool:
        return not self.why_not


def compare(inputs: PlanInputs, methods: Iterable[Method]) -> tuple[MethodComparison, ...]:
    """Return every method as its current plan describes it, in the given order."""
    return tuple(_compared(inputs, method) for method in methods)


def _compared(inputs: PlanInputs, method: Method) -> MethodComparison:
    about = (method.name, method.summary, method.reads_source)
    try:
        plan = build_plan(inputs, method)
    except Refused as error:
        return MethodComparison(*about, (error.cause,))
    return MethodComparison(
        *about,
        tuple(finding.seen for finding in plan.refusals),
        own_rebuilds=_most_runs(plan, of_others=False),
        other_rebuilds=_most_runs(plan, of_others=True),
        predicted_seconds=plan.predicted_seconds,
        bytes_to_copy=plan.bytes_to_copy,
        pauses_source=plan.pause_source,
        pause_reason=plan.pause_reason,
        data_of=plan.archive.taken_at if plan.archive else None,
        behind=_behind(inputs, plan),
        rests_on=rests_on(plan),
        pause_seconds=reading(plan).p50_seconds if plan.pause_source else None,
        catch_up_seconds=next((step.predicted_seconds for step in plan.steps if step.name == STEP_BY_AGE), None),
    )


def rests_on(plan: Plan) -> str:
    """Return whose rebuilds a plan's predicted time comes from, ``""`` if unknown.

    Rebuilds of other clusters predict the steps that this cluster has not measured.
    """
    if plan.predicted_seconds is None:
        return ""
    own, others = _most_runs(plan, of_others=False), _most_runs(plan, of_others=True)
    if not own:
        return phrases("from {number} rebuild of other clusters", "from {number} rebuilds of other clusters", others)
    of_own = phrases("from {number} rebuild of this cluster", "from {number} rebuilds of this cluster", own)
    if not others:
        return of_own
    return phrases(
        "{of_own}, in part from {number} rebuild of other clusters",
        "{of_own}, in part from {number} rebuilds of other clusters",
        others,
        of_own=of_own,
    )


def _most_runs(plan: Plan, *, of_others: bool) -> int:
    return max((step.predicted_runs for step in plan.steps if step.is_of_others is of_others), default=0)


def _behind(inputs: PlanInputs, plan: Plan) -> int | None:
    """Return how many transactions of the primary the copy will lack."""
    primary, archive = inputs.primary.server if inputs.primary else None, plan.archive
    if primary is None or archive is None or not archive.gtid:
        return None
    try:
        flavor = flavor_for(archive.version, archive.flavor)
        return flavor.gtid_count_missing(primary.gtid_binlog or primary.gtid_executed, archive.gtid)
    except DbopsError:  # positions of different kinds: the plan's checks report it
        return None
