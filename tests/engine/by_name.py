"""The engine's calls that take a method, by the name of the method. The default is what most tests want."""

from collections.abc import Iterable
from typing import Any

from dbops.engine.availability import gaps, what_if
from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import Shortage
from dbops.engine.methods import FOLLOW_UPS, METHODS, method_named, shareable
from dbops.engine.planning import checks, impact, method_comparison, planner
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method_comparison import MethodComparison
from dbops.engine.rebuilds import follow_ups
from dbops.engine.rebuilds.plan import Finding, Plan
from dbops.engine.rebuilds.steps.copy import shared_read
from dbops.engine.schedule import blockers as blocking
from dbops.engine.schedule import eligibility
from dbops.engine.schedule import start_options as starts
from dbops.engine.schedule import timeline as lines
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.conflicts import Activity, Conflict
from dbops.engine.schedule.eligibility import Eligibility
from dbops.engine.schedule.snapshot import ClusterSnapshot
from dbops.engine.schedule.start_option_keys import StartOption
from dbops.engine.schedule.timeline import Timeline, TimelineBar

USUAL = "xbstream"


def build_plan(inputs: PlanInputs, method: str = USUAL) -> Plan:
    return planner.build_plan(inputs, METHODS[method])


def run_checks(inputs: PlanInputs, method: str = USUAL) -> tuple[Finding, ...]:
    return checks.run_checks(inputs, METHODS[method].checks)


def compare(inputs: PlanInputs) -> tuple[MethodComparison, ...]:
    return method_comparison.compare(inputs, METHODS.values())


def impact_of(plan: Plan, *args: Any) -> impact.Impact:
    return impact.impact(plan, *args, method=method_named(plan.method))


def plan_follow_up(plan: Plan, option: follow_ups.FollowUpOption, *primary: Any) -> Plan:
    return follow_ups.plan_follow_up(plan, option, FOLLOW_UPS[option.method].steps, *primary)


def why_not_shared(plan: Plan, leader: Plan, tools: Iterable[str]) -> str:
    return shared_read.why_not_shared(plan, leader, list(tools), shareable())


def conflict_of(method: str, work: Activity) -> Conflict | None:
    return method_named(method).conflicts.get(work)


def blockers(snapshot: ClusterSnapshot, *, method: str = USUAL, **asked: Any) -> tuple[Blocker, ...]:
    return blocking.blockers(snapshot, method=METHODS[method], **asked)


def eligibility_of(snapshot: ClusterSnapshot, *, method: str = USUAL, **asked: Any) -> Eligibility:
    return eligibility.eligibility_of(snapshot, method=METHODS[method], **asked)


def start_options(snapshot: ClusterSnapshot, *, method: str = USUAL, **asked: Any) -> tuple[StartOption, ...]:
    return starts.start_options(snapshot, method=METHODS[method], **asked)


def timeline(
    snapshot: ClusterSnapshot, history: Iterable[TimelineBar], within: Interval, *, method: str = USUAL
) -> Timeline:
    return lines.timeline(snapshot, history, within, method=METHODS[method])


def can_start(snapshot: ClusterSnapshot) -> bool:
    return lines.can_start(snapshot, METHODS[USUAL])


def parts(record: ClusterRecord, within: Interval, *, method: str = USUAL) -> list[Shortage]:
    return gaps.parts(record, within, method=METHODS[method])


def what_if_compare(*args: Any, method: str = USUAL) -> what_if.WhatIfOutcome:
    return what_if.compare(*args, method=METHODS[method])


def proposals(*args: Any, method: str = USUAL) -> list[what_if.WhatIfOutcome]:
    return what_if.proposals(*args, method=METHODS[method])


def by_method(record: ClusterRecord, period: Interval, names: Iterable[str]) -> list[tuple[str, dict[Cause, int]]]:
    found = what_if.by_method(record, period, [METHODS[name] for name in names])
    return [(method.name, causes) for method, causes in found]
