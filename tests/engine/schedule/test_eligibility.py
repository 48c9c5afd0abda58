"""Eligibility, and the expected start of a queued rebuild."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.schedule.backup_windows import Basis, Duration
from dbops.engine.schedule.blocker import BlockerKind, Remedy, Timing
from dbops.engine.schedule.conflicts import Effect
from dbops.engine.schedule.eligibility import EligibilityState, expected_start
from dbops.engine.schedule.occupancy import reservations_of
from dbops.engine.schedule.snapshot import ActiveJob
from dbops.engine.states import Role, RunBy
from tests.engine.by_name import blockers, can_start, eligibility_of
from tests.engine.snapshots import HOUR, MACHINES, NOW, backup, hours, queued, rebuild, snapshot, window


def test_eligibility_is_now_when_nothing_blocks() -> None:
    answer = eligibility_of(snapshot(windows=(window(),)), target="replica-1")
    assert (answer.answer, answer.source, answer.free.p50) == (EligibilityState.NOW, "backup-1", NOW)
    assert [item.kind for item in answer.warnings] == [BlockerKind.WINDOW_AHEAD]


def test_until_by() -> None:
    answer = eligibility_of(snapshot(jobs=(backup(),)), target="replica-1")
    assert (answer.answer, answer.free.p50, answer.free.p90) == (EligibilityState.UNTIL, hours(1), hours(3))
    assert answer.by is not None
    assert (answer.by.run, answer.by.instance, answer.by.timing) == (7, "backup-1", Timing.RUNNING)


def test_eligibility_is_unknown_when_an_end_is_unknown() -> None:
    answer = eligibility_of(snapshot(jobs=(backup(duration=None),)))
    assert (answer.answer, answer.free.p50) == (EligibilityState.UNKNOWN, None)
    assert answer.free.basis is Basis.NO_RUN


@pytest.mark.parametrize("names", [(), ("primary-1",), ("primary-1", "replica-1")])
def test_eligibility_is_no_source_without_a_source(names: tuple[str, ...]) -> None:
    seen = snapshot(machines=tuple(item for item in MACHINES if item.name in names))
    assert eligibility_of(seen).answer is EligibilityState.NO_SOURCE
    assert eligibility_of(seen, target="replica-1").answer is EligibilityState.NO_SOURCE


def test_eligibility_adds_up_the_queue() -> None:
    second = queued(target="replica-3", name="rebuild 5", rebuild=5)
    answer = eligibility_of(snapshot(jobs=(second, rebuild())), target="replica-1")
    assert (answer.free.p50, answer.free.p90) == (hours(1.5 + 2.5), hours(2 + 3))


def test_queue_orders_by_priority_before_age() -> None:
    """The long one goes first, so the urgent short one in another line does not wait for it."""
    long = queued(target="a", name="rebuild 5", rebuild=5, duration=Duration(9 * HOUR, 9 * HOUR, 1))
    urgent = queued(target="replica-1", name="rebuild 6", rebuild=6, priority=5, queued_at=NOW)
    (found,) = (
        item for item in blockers(snapshot(jobs=(long, urgent)), target="replica-1", source=None) if item.rebuild == 6
    )
    assert found.until.p50 == hours(2.5)


def test_queue_skips_an_unapproved_rebuild() -> None:
    """The scheduler skips it: its source is free, and jobs behind it in the queue do not wait for its start time."""
    unapproved = queued(needs_approval=True, priority=9)
    answer = eligibility_of(snapshot(jobs=(unapproved,)), target="replica-1")
    assert (answer.answer, answer.blockers, answer.warnings) == (EligibilityState.NOW, (), ())
    assert can_start(snapshot(jobs=(unapproved,)))
    assert eligibility_of(snapshot(jobs=(unapproved,)), source="replica-2").answer is EligibilityState.NOW, (
        "nothing replaces it yet"
    )
    behind = queued(target="replica-3", name="rebuild 5", rebuild=5)
    answer = eligibility_of(snapshot(jobs=(unapproved, behind)), target="replica-1")
    assert (answer.free.p50, [item.rebuild for item in answer.blockers]) == (hours(2.5), [5])
    found = {
        stay.instance: stay for stay in reservations_of(snapshot(jobs=(unapproved, behind))) if stay.job is unapproved
    }
    assert set(found) == {"backup-1", "replica-2"}, "it is in both queues nevertheless"
    assert {stay.end.p50 for stay in found.values()} == {None}


def test_eligibility_of_the_target_waits_for_its_unapproved_rebuild() -> None:
    answer = eligibility_of(snapshot(jobs=(queued(needs_approval=True),)), target="replica-2")
    assert answer.answer is EligibilityState.UNKNOWN
    (found,) = answer.blockers
    assert (found.kind, found.effect) == (BlockerKind.TARGET_BUSY, Effect.BLOCKS)
    assert (found.timing, found.rebuild, found.instance) == (Timing.UNAPPROVED, 4, "replica-2")
    assert (found.until.basis, found.remedy) == (Basis.APPROVAL, Remedy.DECIDE_APPROVAL)


def test_eligibility_includes_a_window_that_begins_before_it_is_free() -> None:
    answer = eligibility_of(
        snapshot(jobs=(rebuild(),), windows=(window(1.2, run_by=RunBy.EXTERNAL),)), target="replica-1"
    )
    assert answer.free.p50 == hours(3.2)
    assert [(item.timing, item.instance) for item in answer.later] == [(Timing.EXPECTED, "backup-1")]
    assert answer.by == answer.later[0]


def test_eligibility_uses_the_earliest_backup_instance() -> None:
    second = replace(MACHINES[1], name="backup-2")
    answer = eligibility_of(snapshot(machines=(*MACHINES, second), jobs=(backup(),)), target="replica-1")
    assert (answer.answer, answer.source) == (EligibilityState.NOW, "backup-2")


def test_eligibility_uses_replicas_without_a_backup_instance() -> None:
    without = tuple(item for item in MACHINES if item.role is not Role.BACKUP)
    assert eligibility_of(snapshot(machines=without), target="replica-1").source == "replica-2"


def test_eligibility_names_the_last_blocker_to_end() -> None:
    jobs = (backup(), backup(name="backup run 8", run=8, duration=Duration(6 * HOUR, 7 * HOUR, 3)))
    answer = eligibility_of(snapshot(jobs=jobs), target="replica-1")
    assert answer.by is not None
    assert answer.by.run == 8
    assert answer.free.p50 == hours(5)


# A queued rebuild's own start


def expected(*jobs: ActiveJob, **there: Any) -> Any:
    shown = snapshot(jobs=jobs, **there)
    own = shown.queued(9)
    end = expected_start(shown, own).at if own else None
    return (end.p50, end.p90) if end else None


def own(**changes: Any) -> ActiveJob:
    return queued(**{"target": "replica-1", "name": "rebuild 9", "rebuild": 9, "queued_at": NOW, **changes})


def test_expected_start_follows_all_earlier_jobs() -> None:
    behind = queued(name="rebuild 10", rebuild=10, queued_at=hours(1))
    assert expected(own()) == (NOW, NOW)
    assert expected(own(), rebuild(), behind) == (hours(1.5), hours(2))
    assert expected(own(), rebuild(), queued(name="rebuild 5", rebuild=5)) == (hours(4), hours(5))
    assert expected(own(priority=1), rebuild(), queued(name="rebuild 5", rebuild=5)) == (hours(1.5), hours(2))


def test_expected_start_respects_the_requested_start() -> None:
    assert expected(own(not_before=hours(6)), rebuild()) == (hours(6), hours(6))
    assert expected(own(start_after_run=7), backup("replica-2")) == (hours(1), hours(3))
    assert expected(own(start_after_run=7), backup("replica-2", duration=None)) == (None, None)
    assert expected(own(start_after_run=8), backup("replica-2")) == (NOW, NOW)


def test_expected_start_is_none_for_a_running_rebuild() -> None:
    assert expected(own(started_at=NOW)) is None
