"""Every method for one rebuild, side by side: whether it is possible and why not, how long, how old its data, and what the source pays."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.errors import DbopsError, Refused
from dbops.engine.flavors import flavor_for
from dbops.engine.planning.impact import reading
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method import Method
from dbops.engine.planning.planner import build_plan
from dbops.engine.planning.step_estimates import STEP_BY_AGE
from dbops.engine.rebuilds.plan import Plan


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """One method as its plan of now shows it.

    ``why_not`` is empty where it is possible. ``predicted_seconds`` are of all steps, ``None`` where one of them is not known.
    ``rests_on`` says whose rebuilds by this method they are from: ``own_rebuilds`` of this cluster, ``other_rebuilds`` of others.
    ``data_of`` is when the data that is copied was current, ``None`` for
    a running server's; ``behind`` how many transactions the primary has written since, ``None`` where that is not known;
    ``catch_up_seconds`` how long it rolls forward. ``pause_seconds`` is how long the source's replication stands still where
    ``pauses_source``, ``None`` where that is not known.
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
    """Return every method as its plan of now shows it, in the order given. Pure."""
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
    """Say whose rebuilds a plan's predicted time is from, ``""`` where it is not known.

    A step that this cluster's own do not tell is told by the others.
    """
    if plan.predicted_seconds is None:
        return ""
    own, others = _most_runs(plan, of_others=False), _most_runs(plan, of_others=True)
    of_others = f"{_counted(others)} of other clusters"
    if not own:
        return f"from {of_others}"
    return f"from {_counted(own)} of this cluster" + (f", in part from {of_others}" if others else "")


def _most_runs(plan: Plan, *, of_others: bool) -> int:
    return max((step.predicted_runs for step in plan.steps if step.is_of_others is of_others), default=0)


def _counted(rebuilds: int) -> str:
    return f"{rebuilds} rebuild{'' if rebuilds == 1 else 's'}"


def _behind(inputs: PlanInputs, plan: Plan) -> int | None:
    """Return how many transactions the primary has that the copy will not have."""
    primary, archive = inputs.primary.server if inputs.primary else None, plan.archive
    if primary is None or archive is None or not archive.gtid:
        return None
    try:
        flavor = flavor_for(archive.version, archive.flavor)
        return flavor.gtid_count_missing(primary.gtid_binlog or primary.gtid_executed, archive.gtid)
    except DbopsError:  # positions of different kinds: the plan's checks tell of it
        return None
