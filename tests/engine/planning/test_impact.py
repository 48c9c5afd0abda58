"""Impact of a rebuild on source, backups, queue and redundancy."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.methods import FOLLOW_UPS, METHODS, conflict_table
from dbops.engine.planning.impact import DurationRange, Impact
from dbops.engine.planning.step_estimates import StepHistory
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.backup_windows import Prediction
from dbops.engine.schedule.conflicts import Activity
from dbops.engine.schedule.snapshot import ClusterSnapshot
from dbops.engine.schedule.start_options import chosen_option
from dbops.engine.states import RunBy
from tests.engine.backups.test_archives import archive, world
from tests.engine.builders import GIB, inputs, source_with
from tests.engine.by_name import build_plan, conflict_of, impact_of, start_options
from tests.engine.snapshots import hours, queued, rebuild, snapshot, window

ALL_HEALTHY = dict.fromkeys(("primary-1", "backup-1", "replica-1", "replica-2"), "healthy")


def of(seen: ClusterSnapshot, plan: Plan | None = None, key: str = "soon", **states: str) -> Impact:
    plan = plan or build_plan(inputs())
    offered = start_options(seen, target="replica-1", source="backup-1")
    names = {name.replace("_", "-"): state for name, state in states.items()}
    return impact_of(plan, seen, chosen_option(offered, key), {**ALL_HEALTHY, **names})


def planned(**changes: Any) -> Plan:
    history = StepHistory(
        bytes_per_second={"stream": (GIB / 10, GIB / 20, GIB / 10)},
        seconds={"pause": (1.0, 2.0, 1.0), "release": (3.0, 3.0, 3.0)},
    )
    return build_plan(inputs(history=history, **changes))


def test_impact_pauses_the_source_during_the_read() -> None:
    found = of(snapshot(), planned(source=source_with(binlog_format="STATEMENT")))
    assert found.pauses
    assert "statement-based" in found.pause_reason
    assert found.reading == DurationRange(pytest.approx(104.0), pytest.approx(205.0))


def test_impact_has_no_pause_estimate_without_history() -> None:
    assert of(snapshot()).reading == DurationRange(None, None)
    few = build_plan(inputs(history=StepHistory(seconds=dict.fromkeys(("pause", "stream", "release"), (9.0,)))))
    assert of(snapshot(), few).reading == DurationRange(27.0, None)


def test_impact_has_a_reason_when_the_source_keeps_replicating() -> None:
    found = of(snapshot())
    assert not found.pauses
    assert found.pause_reason


def test_impact_lists_backups_due_during_the_rebuild() -> None:
    soon, late = window(2.0), window(2.75, schedule="weekly", run_by=RunBy.EXTERNAL)
    elsewhere, after = window(1.0, instance="replica-2", schedule="other"), window(4.0, schedule="morning")
    found = of(snapshot(windows=(late, soon, elsewhere, after))).collisions
    assert [(item.window.schedule, item.is_likely) for item in found] == [("nightly", True), ("weekly", False)]
    works = (Activity.AHEAD_MANAGED, Activity.AHEAD_EXTERNAL)
    assert [item.meaning for item in found] == [conflict_table()[work]["xbstream"].reason for work in works]


def test_impact_lists_a_backup_of_the_target() -> None:
    [found] = of(snapshot(windows=(window(1.0, instance="replica-1"),))).collisions
    assert found.meaning == conflict_table()[Activity.AHEAD_TARGET]["xbstream"].reason


def test_impact_covers_a_day_when_the_duration_is_unknown() -> None:
    blind = snapshot(windows=(window(9.0), window(25.0, schedule="late")), prediction=Prediction(None, "unknown"))
    found = of(blind)
    assert found.is_blind
    assert [item.window.schedule for item in found.collisions] == ["nightly"]
    assert not found.collisions[0].is_likely


def test_impact_lists_each_schedule_once() -> None:
    assert len(of(snapshot(windows=(window(1.0), window(2.0)))).collisions) == 1


def test_impact_lists_jobs_before_and_behind() -> None:
    older = queued(target="replica-3", name="rebuild 5", rebuild=5)
    lower = queued(target="replica-3", name="rebuild 6", rebuild=6, priority=-1)
    later = queued(target="replica-3", name="rebuild 7", rebuild=7, not_before=hours(9))
    elsewhere = queued(target="replica-3", source="replica-2", name="rebuild 8", rebuild=8)
    found = of(snapshot(jobs=(rebuild(), older, lower, later, elsewhere)))
    assert [job.rebuild for job in found.before] == [5]
    assert [job.rebuild for job in found.behind] == [7, 6]
    unapproved = of(snapshot(jobs=(replace(older, needs_approval=True),)))
    assert (unapproved.before, [job.rebuild for job in unapproved.behind]) == ((), [5]), "it is passed"


def test_redundancy_counts_the_others() -> None:
    found = of(snapshot(), replica_2="lagging").redundancy
    assert found.replicas == ("backup-1", "replica-1", "replica-2")
    assert found.healthy == ("backup-1", "replica-1")
    assert found.healthy_during == ("backup-1",)
    assert not found.is_lost
    assert of(snapshot(), replica_2="stopped", backup_1="lagging").redundancy.is_lost


def test_impact_has_no_collisions_when_the_start_is_unknown() -> None:
    busy = snapshot(jobs=(rebuild(duration=None),), windows=(window(1.0),))
    found = of(busy)
    assert not found.is_start_known
    assert found.collisions == ()


def test_impact_judges_a_follow_up_as_the_method_that_copies() -> None:
    plan = build_plan(inputs())
    copies = of(snapshot(windows=(window(1.0),)), plan).collisions[0].meaning
    assert copies
    for method in FOLLOW_UPS:
        assert of(snapshot(windows=(window(1.0),)), replace(plan, method=method)).collisions[0].meaning == copies


def test_cell_knows_every_method_and_refuses_others() -> None:
    for method in (*METHODS, *FOLLOW_UPS):
        assert conflict_of(method, Activity.NO_SOURCE) is not None
    with pytest.raises(KeyError):
        conflict_of("xbstraem", Activity.NO_SOURCE)


def test_impact_of_an_archive_ignores_the_source_server() -> None:
    plan = build_plan(world(archive()), "archive")
    found = of(snapshot(windows=(window(2.0), window(1.0, instance="replica-1", schedule="set-ownership"))), plan)
    assert not found.reads_server
    assert [item.window.schedule for item in found.collisions] == ["set-ownership"]
    found = of(snapshot(jobs=(queued(target="replica-2", source="backup-1"),)), plan)
    assert (found.before, found.behind) == ((), ())
