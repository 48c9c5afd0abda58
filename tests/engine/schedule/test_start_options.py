"""Every way to start, with its predicted start and finish, and why one is not possible."""

from typing import Any

import pytest

from dbops.engine.schedule.backup_windows import Basis, Duration, Prediction, spell
from dbops.engine.schedule.blocker import BlockerKind, Timing
from dbops.engine.schedule.snapshot import ClusterSnapshot, MaintenanceWindow
from dbops.engine.schedule.start_option_keys import StartMode, StartOption, UnavailableCause, moment_key, moment_of
from dbops.engine.schedule.start_options import chosen_option
from dbops.engine.states import RunBy
from tests.engine.by_name import start_options
from tests.engine.snapshots import HOUR, backup, hours, machines, queued, rebuild, snapshot, window


def offered(seen: ClusterSnapshot, **asked: Any) -> dict[StartMode, StartOption]:
    """Those of the asked source by their way; there is at most one of each here."""
    found = start_options(seen, **{"target": "replica-1", "source": "backup-1", **asked})
    by_way = {choice.way: choice for choice in found}
    assert len(by_way) == len(found), [choice.key for choice in found]
    return by_way


def times(choice: StartOption) -> tuple[Any, ...]:
    return (choice.starts.p50, choice.starts.p90, choice.finishes.p50, choice.finishes.p90)


def test_start_options_offer_now_when_nothing_blocks() -> None:
    found = offered(snapshot())
    assert list(found) == [StartMode.NOW, StartMode.ELSEWHERE]
    assert times(found[StartMode.NOW]) == (hours(0), hours(0), hours(2.5), hours(3))
    assert (found[StartMode.NOW].is_possible, found[StartMode.NOW].warnings) == (True, ())


def test_in_line_behind_another_rebuild() -> None:
    found = offered(snapshot(jobs=(rebuild(), queued(target="replica-3", name="rebuild 5", rebuild=5))))
    assert StartMode.NOW not in found
    soon = found[StartMode.SOON]
    assert times(soon) == (hours(4), hours(5), hours(6.5), hours(8))
    assert [(item.rebuild, item.instance, item.timing) for item in soon.blockers] == [
        (4, "backup-1", Timing.RUNNING),
        (5, "backup-1", Timing.QUEUED),
    ]
    assert all(item.text in soon.reason for item in soon.blockers)


def test_start_options_offer_another_source_as_its_own_plan() -> None:
    found = offered(snapshot(jobs=(backup(),)))
    other = found[StartMode.ELSEWHERE]
    assert (other.key, other.source, other.is_possible) == ("elsewhere:replica-2", "replica-2", True)
    assert other.starts.p50 == hours(0)
    assert (other.blockers, other.slows_reads) == ((), True)


def test_start_options_offer_after_the_running_backup() -> None:
    found = offered(snapshot(jobs=(backup(),)))[StartMode.AFTER_RUN]
    assert (found.key, found.start_after_run, found.is_possible) == ("after-run:7", 7, True)
    assert times(found) == (hours(1), hours(3), hours(3.5), hours(6))


def test_start_options_offer_after_run_without_an_estimate() -> None:
    found = offered(snapshot(jobs=(backup(duration=None),)))[StartMode.AFTER_RUN]
    assert found.is_possible
    assert (found.starts.p50, found.finishes.p50) == (None, None)
    assert found.starts.basis is Basis.NO_RUN


def test_before_and_after_tonights_window() -> None:
    found = offered(snapshot(windows=(window(5),)))
    before, after = found[StartMode.BEFORE_WINDOW], found[StartMode.AFTER_WINDOW]
    assert (before.is_possible, before.start_by, before.window_at) == (True, hours(2), hours(5))
    assert times(before) == (hours(0), hours(0), hours(2.5), hours(3))
    assert (after.is_possible, after.not_before) == (True, hours(7))
    assert times(after) == (hours(7), hours(9), hours(9.5), hours(12))
    assert before.key == "before-window:nightly@20260302T060000Z"


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"windows": (window(2),)}, UnavailableCause.TOO_SHORT),
        ({"windows": (window(4),), "jobs": (rebuild(),)}, UnavailableCause.TOO_LATE),
        ({"windows": (window(4),), "jobs": (rebuild(duration=None),)}, UnavailableCause.NO_START),
        ({"windows": (window(5),), "prediction": Prediction(None, "none")}, UnavailableCause.NO_DURATION),
        ({"windows": (window(5),), "machines": machines(problem="down")}, UnavailableCause.BLOCKED),
    ],
)
def test_why_not_before_the_window(there: dict[str, Any], why: UnavailableCause) -> None:
    found = offered(snapshot(**there))[StartMode.BEFORE_WINDOW]
    assert (found.is_possible, found.problem) == (False, why)
    assert found.reason


def test_reason_names_the_time_left_and_the_p90_when_the_window_is_too_near() -> None:
    reason = offered(snapshot(windows=(window(2),)))[StartMode.BEFORE_WINDOW].reason
    assert spell(2 * HOUR) in reason
    assert spell(3 * HOUR) in reason


def test_start_options_refuse_after_a_window_of_unknown_length() -> None:
    found = offered(snapshot(windows=(window(2, duration=None),)))[StartMode.AFTER_WINDOW]
    assert not found.is_possible
    assert (found.problem, found.not_before) == (UnavailableCause.NO_WINDOW_END, None)


def test_windows_of_other_instances_and_of_other_days_are_not_gone_round() -> None:
    there = (window(2, instance="replica-2"), window(27))
    assert StartMode.AFTER_WINDOW not in offered(snapshot(windows=there))


def test_start_options_offer_stop_run_when_stoppable() -> None:
    seen = snapshot(jobs=(backup(),))
    assert StartMode.STOP_RUN not in offered(seen)
    found = offered(seen, stoppable={7})[StartMode.STOP_RUN]
    assert (found.is_possible, found.stops_run, found.start_after_run, found.requeue_schedule) == (
        True,
        7,
        7,
        "nightly",
    )
    assert times(found) == (hours(0), hours(0), hours(2.5), hours(3))
    assert spell(HOUR) in found.reason


def test_start_options_refuse_stop_run_when_something_else_blocks() -> None:
    seen = snapshot(jobs=(backup(), rebuild("replica-3", "replica-1", duration=Duration(9 * HOUR, 9 * HOUR, 1))))
    found = offered(seen, stoppable={7})[StartMode.STOP_RUN]
    assert not found.is_possible
    assert found.problem is UnavailableCause.BUSY
    assert [(item.rebuild, item.instance) for item in found.blockers] == [(4, "replica-1")]
    assert found.reason == found.blockers[0].text


def test_stop_run_repeats_only_a_run_with_a_schedule() -> None:
    found = offered(snapshot(jobs=(backup(schedule=""),)), stoppable={7})[StartMode.STOP_RUN]
    assert (found.is_possible, found.problem) == (False, UnavailableCause.NO_SCHEDULE)


def test_start_options_offer_only_another_source_when_blocked() -> None:
    seen = snapshot(machines=machines(problem="the server does not answer"), windows=(window(5),))
    found = offered(seen)
    assert {way for way, choice in found.items() if choice.is_possible} == {StartMode.ELSEWHERE}
    soon = found[StartMode.SOON]
    assert (soon.problem, [item.kind for item in soon.blockers]) == (
        UnavailableCause.BLOCKED,
        [BlockerKind.SOURCE_DOWN],
    )
    assert soon.blockers[0].reason in soon.reason


def test_start_options_refuse_starts_during_maintenance() -> None:
    seen = snapshot(
        stops=(MaintenanceWindow(hours(-1), hours(1), "new disks"), MaintenanceWindow(hours(-2), hours(0.5), "cables")),
        windows=(window(5),),
    )
    found = offered(seen)
    assert {way for way, choice in found.items() if choice.is_possible} == {
        StartMode.AFTER_MAINTENANCE,
        StartMode.AFTER_WINDOW,
    }
    after = found[StartMode.AFTER_MAINTENANCE]
    assert (after.not_before, after.key) == (hours(1), "after-maintenance:20260302T020000Z")
    assert times(after) == (hours(1), hours(1), hours(3.5), hours(4))


def test_maintenance_without_an_end_refuses_all() -> None:
    found = offered(snapshot(stops=(MaintenanceWindow(hours(-1), None, "new disks"),), windows=(window(5),)))
    assert StartMode.AFTER_MAINTENANCE not in found
    assert not any(choice.is_possible for choice in found.values())


def test_start_options_name_what_runs_alongside() -> None:
    found = offered(snapshot(jobs=(backup(),), windows=(window(2, schedule="weekly", run_by=RunBy.EXTERNAL),)))
    assert [item.kind for item in found[StartMode.AFTER_RUN].warnings] == [BlockerKind.WINDOW_AHEAD]
    assert found[StartMode.AFTER_WINDOW].warnings == ()


def test_chosen_option_finds_the_key_while_offered() -> None:
    busy = start_options(snapshot(jobs=(backup(),)), target="replica-1", source="backup-1")
    free = start_options(snapshot(), target="replica-1", source="backup-1")
    for given, now, found in (
        ("after-run:7", busy, StartMode.AFTER_RUN),
        ("after-run:7", free, None),
        ("soon", busy, StartMode.SOON),
        ("soon", free, StartMode.NOW),
        ("now", free, StartMode.NOW),
        ("now", busy, None),
        ("", free, None),
    ):
        choice = chosen_option(now, given)
        assert (choice.way if choice else None) == found, given


def test_chosen_option_is_none_when_not_possible() -> None:
    found = start_options(snapshot(windows=(window(2),)), target="replica-1", source="backup-1")
    key = next(choice.key for choice in found if choice.way is StartMode.BEFORE_WINDOW)
    assert chosen_option(found, key) is None


def test_at_a_time_that_a_person_names() -> None:
    key = moment_key(hours(6))
    assert (key, moment_of(key)) == ("at:20260302T070000Z", hours(6))
    found = offered(snapshot(), moment=moment_of(key))[StartMode.AT]
    assert (found.key, found.is_possible, found.not_before) == (key, True, hours(6))
    assert times(found) == (hours(6), hours(6), hours(8.5), hours(9))


def test_start_option_at_a_time_within_a_backup_waits_for_its_end() -> None:
    found = offered(snapshot(windows=(window(5),)), moment=hours(6))[StartMode.AT]
    assert [(item.timing, item.instance) for item in found.blockers] == [(Timing.EXPECTED, "backup-1")]
    assert found.blockers[0].text in found.reason
    assert times(found)[:2] == (hours(7), hours(9))


@pytest.mark.parametrize(
    ("number", "why"), [(-1, UnavailableCause.PASSED), (0, UnavailableCause.PASSED), (31, UnavailableCause.TOO_FAR)]
)
def test_start_option_at_a_time_must_be_near_and_ahead(number: float, why: UnavailableCause) -> None:
    found = offered(snapshot(), moment=hours(number))[StartMode.AT]
    assert (found.is_possible, found.problem) == (False, why)


@pytest.mark.parametrize("key", ["", "now", "at:", "at:tomorrow", "at:20269901T000000Z", "after-run:7"])
def test_moment_of_is_none_for_a_bad_key(key: str) -> None:
    assert moment_of(key) is None
