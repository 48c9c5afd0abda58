"""What differs between two plans, and that it counts exactly where the fingerprint does."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.planning.plan_diff import ChangeFormat, PlanChange, ShownPlan, changes
from dbops.engine.rebuilds.plan import Finding, Plan, PlannedCommand
from dbops.engine.states import Severity
from tests.engine.builders import GIB, NOW, datadir, facts, inputs, link, member, server, source_with, target_with
from tests.engine.by_name import build_plan


def changed(then: Plan, now: Plan) -> dict[str, PlanChange]:
    found = changes(ShownPlan(then), ShownPlan(now))
    by_key = {change.key: change for change in found}
    assert len(by_key) == len({change.what for change in found}) == len(found)
    return by_key


def warning(code: str = "target.clients", seen: str = "shop@10.0.1.7") -> Finding:
    return Finding(code, Severity.WARNING, "No client is connected to the target", seen)


@pytest.fixture
def plan() -> Plan:
    return build_plan(inputs())


def test_changes_are_empty_for_the_same_plan(plan: Plan) -> None:
    assert changes(ShownPlan(plan), ShownPlan(build_plan(inputs()))) == ()


def test_shown_plan_survives_json(plan: Plan) -> None:
    seen = ShownPlan(plan, "Now", NOW, None)
    assert from_record(ShownPlan, to_record(seen)) == seen


@pytest.mark.parametrize(
    "later",
    [
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, server=server(99)))),
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(99)))),
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=GIB)))),
        lambda: inputs(target=target_with(version="10.11.20")),
        lambda: inputs(target=member("replica-1", "replica", 13, facts=replace(facts(13), server=None))),
        lambda: inputs(source=member("backup-1", "backup", 12, ssh_port=2222)),
        lambda: inputs(source=source_with(binlog_format="STATEMENT")),
        lambda: inputs(source=source_with(replication=(link(lag_seconds=3.0),))),
        lambda: inputs(source=source_with(redo_bytes_per_second=2000.0)),
        lambda: inputs(keep_old_data=True),
        lambda: inputs(run_id="other"),
    ],
)
def test_changes_count_exactly_when_the_fingerprint_differs(plan: Plan, later: Any) -> None:
    now = build_plan(later())
    assert any(change.counts for change in changed(plan, now).values()) == (now.fingerprint != plan.fingerprint)


def test_changes_have_then_and_now(plan: Plan) -> None:
    directory = replace(datadir(13), identity="99:1", path="/data/mysql")
    now = build_plan(inputs(target=member("replica-1", "replica", 13, facts=facts(13, datadir=directory))))
    found = changed(plan, now)
    identity = found["target.datadir_identity"]
    assert (identity.then, identity.now, identity.counts) == ("13:1", "99:1", True)
    assert found["target.datadir"].now == "/data/mysql"
    command = next(change for change in found.values() if change.unit is ChangeFormat.COMMAND)
    assert "/var/lib/mysql" in str(command.then)
    assert "/data/mysql" in str(command.now)


def test_changes_include_a_server_that_stopped_answering(plan: Plan) -> None:
    now = build_plan(inputs(target=member("replica-1", "replica", 13, facts=replace(facts(13), server=None))))
    found = changed(plan, now)
    assert (found["target.is_answering"].then, found["target.is_answering"].now) == ("yes", "no")
    assert found["target.version"].now is None


def test_findings_that_come_and_go_count_and_numbers_alone_do_not(plan: Plan) -> None:
    calm, noisy = replace(plan, findings=()), replace(plan, findings=(warning(),))
    came = changed(calm, noisy)["finding.target.clients"]
    assert (came.then, came.now, came.counts) == (None, "warning: shop@10.0.1.7", True)
    assert changed(noisy, calm)["finding.target.clients"].counts
    others = changed(noisy, replace(plan, findings=(warning(seen="2 connections"),)))
    assert not others["finding.target.clients"].counts
    lost = replace(plan, findings=(warning("target.errant", "0-13-7"),))
    more = changed(lost, replace(plan, findings=(warning("target.errant", "0-13-7, 0-13-8"),)))
    assert all(change.counts for change in more.values()), "what is lost for good counts by its words"


def test_changes_list_the_worst_finding_first(plan: Plan) -> None:
    bad = Finding("target.room", Severity.REFUSAL, "There is room", "none")
    found = list(changed(replace(plan, findings=()), replace(plan, findings=(warning(), bad))))
    assert found[:2] == ["finding.target.room", "finding.target.clients"]


def test_steps_and_commands_that_come_and_go(plan: Plan) -> None:
    fewer = replace(plan, steps=plan.steps[1:])
    first = plan.steps[0].name
    assert f"step.{first}.removed" in changed(plan, fewer)
    assert f"step.{first}.added" in changed(fewer, plan)
    longer = replace(plan.steps[1], commands=(*plan.steps[1].commands, PlannedCommand("backup-1", "true")))
    more = changed(plan, replace(plan, steps=(plan.steps[0], longer, *plan.steps[2:])))
    [added] = more.values()
    assert added.key == f"command.{longer.name}.{len(longer.commands)}"
    assert (added.then, added.now) == (None, "[backup-1] true")
    turned = replace(plan, steps=tuple(reversed(plan.steps)))
    assert list(changed(plan, turned)) == ["steps"]


def test_changes_list_uncounted_values_last(plan: Plan) -> None:
    now = replace(plan, bytes_to_copy=GIB, predicted_seconds=60.0, keep_old_data=True)
    assert [(change.key, change.counts) for change in changes(ShownPlan(plan), ShownPlan(now))] == [
        ("keep_old_data", True),
        ("bytes_to_copy", False),
        ("predicted_seconds", False),
    ]


def test_changes_include_the_start_and_its_times(plan: Plan) -> None:
    then = ShownPlan(plan, "Now", NOW, NOW + timedelta(hours=1))
    minutes = ShownPlan(plan, "Now", NOW + timedelta(minutes=4), NOW + timedelta(minutes=64))
    assert changes(then, minutes) == (), "time has passed since the page was shown, and that is all"
    later = changes(then, ShownPlan(plan, "As soon as it can", NOW + timedelta(hours=3), None))
    assert [(change.key, change.counts) for change in later] == [
        ("start", True),
        ("starts_at", False),
        ("finishes_at", False),
    ]
    assert later[2].now is None
