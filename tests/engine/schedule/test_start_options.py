"""Every way to start, with its predicted start and finish, and why one is not possible."""

from typing import Any

import pytest

from dbops.engine.backup_states import RunBy
from dbops.engine.schedule.backup_windows import Duration, Prediction
from dbops.engine.schedule.blocker import Kind
from dbops.engine.schedule.snapshot import Picture, Stop
from dbops.engine.schedule.start_option_keys import Choice, Way, moment_key, moment_of
from dbops.engine.schedule.start_options import choices, chosen
from tests.engine.snapshots import HOUR, backup, hours, machines, picture, queued, rebuild, window


def offered(seen: Picture, **asked: Any) -> dict[Way, Choice]:
    """Those of the asked source by their way; there is at most one of each here."""
    found = choices(seen, **{"target": "replica-1", "source": "backup-1", **asked})
    by_way = {choice.way: choice for choice in found}
    assert len(by_way) == len(found), [choice.key for choice in found]
    return by_way


def times(choice: Choice) -> tuple[Any, ...]:
    return (choice.starts.p50, choice.starts.p90, choice.finishes.p50, choice.finishes.p90)


def test_now_where_nothing_stops_it() -> None:
    found = offered(picture())
    assert list(found) == [Way.NOW, Way.ELSEWHERE]
    assert times(found[Way.NOW]) == (hours(0), hours(0), hours(2.5), hours(3))
    assert (found[Way.NOW].is_possible, found[Way.NOW].warnings) == (True, ())


def test_in_line_behind_another_rebuild() -> None:
    found = offered(picture(jobs=(rebuild(), queued(target="replica-3", name="rebuild 5", rebuild=5))))
    assert Way.NOW not in found
    soon = found[Way.SOON]
    assert times(soon) == (hours(4), hours(5), hours(6.5), hours(8))
    assert soon.reason.endswith(
        "Rebuild 4 reads backup-1. Rebuild 5 waits in line before this one, and is to read backup-1."
    )


def test_another_source_is_a_plan_of_its_own() -> None:
    found = offered(picture(jobs=(backup(),)))
    other = found[Way.ELSEWHERE]
    assert (other.key, other.source, other.is_possible) == ("elsewhere:replica-2", "replica-2", True)
    assert other.starts.p50 == hours(0)
    assert other.title == "Now from replica-2"
    assert "serves reads" in other.reason


def test_when_the_running_backup_ends() -> None:
    found = offered(picture(jobs=(backup(),)))[Way.AFTER_RUN]
    assert (found.key, found.after_run, found.is_possible) == ("after-run:7", 7, True)
    assert times(found) == (hours(1), hours(3), hours(3.5), hours(6))


def test_the_end_of_a_run_that_nobody_can_say_is_waited_for_all_the_same() -> None:
    found = offered(picture(jobs=(backup(duration=None),)))[Way.AFTER_RUN]
    assert found.is_possible
    assert (found.starts.p50, found.finishes.p50) == (None, None)
    assert found.starts.words == "none like it has ended yet, so nobody knows how long it takes"


def test_before_and_after_tonights_window() -> None:
    found = offered(picture(windows=(window(5),)))
    before, after = found[Way.BEFORE_WINDOW], found[Way.AFTER_WINDOW]
    assert (before.is_possible, before.start_by, before.window_at) == (True, hours(2), hours(5))
    assert times(before) == (hours(0), hours(0), hours(2.5), hours(3))
    assert (after.is_possible, after.not_before) == (True, hours(7))
    assert times(after) == (hours(7), hours(9), hours(9.5), hours(12))
    assert before.key == "before-window:nightly@20260302T060000Z"


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"windows": (window(2),)}, "There are 2 h 00 min left, and 1 of 10 takes longer than 3 h 00 min."),
        ({"windows": (window(4),), "jobs": (rebuild(),)}, "It would start too late"),
        ({"windows": (window(4),), "jobs": (rebuild(duration=None),)}, "Nobody can say whether it could start in time"),
        (
            {"windows": (window(5),), "prediction": Prediction(None, "No rebuild has succeeded here yet.")},
            "Nobody can say whether it would end in time. No rebuild has succeeded here yet.",
        ),
    ],
)
def test_why_not_before_the_window(there: dict[str, Any], why: str) -> None:
    found = offered(picture(**there))[Way.BEFORE_WINDOW]
    assert not found.is_possible
    assert why in found.reason


def test_after_a_window_of_unknown_length_is_not_promised() -> None:
    found = offered(picture(windows=(window(2, duration=None),)))[Way.AFTER_WINDOW]
    assert not found.is_possible
    assert "Once it runs, choose to start when it ends." in found.reason
    assert found.not_before is None


def test_windows_of_other_instances_and_of_other_days_are_not_gone_round() -> None:
    there = (window(2, instance="replica-2"), window(27))
    assert Way.AFTER_WINDOW not in offered(picture(windows=there))


def test_a_run_may_be_stopped_where_that_is_possible_and_is_run_again() -> None:
    seen = picture(jobs=(backup(),))
    assert Way.STOP_RUN not in offered(seen)
    found = offered(seen, stoppable={7})[Way.STOP_RUN]
    assert (found.is_possible, found.stops_run, found.after_run, found.runs_again) == (True, 7, 7, "nightly")
    assert times(found) == (hours(0), hours(0), hours(2.5), hours(3))
    assert found.reason.startswith("1 h 00 min of backup are thrown away.")


def test_stopping_one_thing_is_not_offered_as_a_start_where_another_is_in_the_way() -> None:
    seen = picture(jobs=(backup(), rebuild("replica-3", "replica-1", duration=Duration(9 * HOUR, 9 * HOUR, 1))))
    found = offered(seen, stoppable={7})[Way.STOP_RUN]
    assert not found.is_possible
    assert found.reason == "Rebuild 4 reads replica-1."


def test_a_run_without_a_schedule_cannot_be_run_again() -> None:
    found = offered(picture(jobs=(backup(schedule=""),)), stoppable={7})[Way.STOP_RUN]
    assert "belongs to no schedule" in found.reason


def test_what_blocks_refuses_every_way_but_another_source() -> None:
    seen = picture(machines=machines(problem="the server does not answer"), windows=(window(5),))
    found = offered(seen)
    assert {way for way, choice in found.items() if choice.is_possible} == {Way.ELSEWHERE}
    assert "The running server is what is copied." in found[Way.SOON].reason


def test_maintenance_refuses_what_would_start_within_it() -> None:
    seen = picture(
        stops=(Stop(hours(-1), hours(1), "new disks"), Stop(hours(-2), hours(0.5), "cables")), windows=(window(5),)
    )
    found = offered(seen)
    assert {way for way, choice in found.items() if choice.is_possible} == {Way.AFTER_MAINTENANCE, Way.AFTER_WINDOW}
    after = found[Way.AFTER_MAINTENANCE]
    assert (after.not_before, after.key) == (hours(1), "after-maintenance:20260302T020000Z")
    assert times(after) == (hours(1), hours(1), hours(3.5), hours(4))


def test_maintenance_without_an_end_refuses_all() -> None:
    found = offered(picture(stops=(Stop(hours(-1), None, "new disks"),), windows=(window(5),)))
    assert Way.AFTER_MAINTENANCE not in found
    assert not any(choice.is_possible for choice in found.values())


def test_each_way_says_what_it_would_run_beside() -> None:
    found = offered(picture(jobs=(backup(),), windows=(window(2, schedule="weekly", run_by=RunBy.EXTERNAL),)))
    assert [item.kind for item in found[Way.AFTER_RUN].warnings] == [Kind.WINDOW_AHEAD]
    assert [item.text for item in found[Way.AFTER_WINDOW].warnings] == []


def test_a_choice_is_found_again_by_its_key_while_it_is_offered() -> None:
    busy = choices(picture(jobs=(backup(),)), target="replica-1", source="backup-1")
    free = choices(picture(), target="replica-1", source="backup-1")
    for given, now, found in (
        ("after-run:7", busy, Way.AFTER_RUN),
        ("after-run:7", free, None),
        ("soon", busy, Way.SOON),
        ("soon", free, Way.NOW),
        ("now", free, Way.NOW),
        ("now", busy, None),
        ("", free, None),
    ):
        choice = chosen(now, given)
        assert (choice.way if choice else None) == found, given


def test_what_is_not_possible_cannot_be_chosen() -> None:
    found = choices(picture(windows=(window(2),)), target="replica-1", source="backup-1")
    key = next(choice.key for choice in found if choice.way is Way.BEFORE_WINDOW)
    assert chosen(found, key) is None


def test_at_a_time_that_a_person_names() -> None:
    key = moment_key(hours(6))
    assert (key, moment_of(key)) == ("at:20260302T070000Z", hours(6))
    found = offered(picture(), moment=moment_of(key))[Way.AT]
    assert (found.key, found.is_possible, found.not_before) == (key, True, hours(6))
    assert times(found) == (hours(6), hours(6), hours(8.5), hours(9))


def test_a_named_time_within_a_backup_is_told_of_and_waits_for_its_end() -> None:
    found = offered(picture(windows=(window(5),)), moment=hours(6))[Way.AT]
    assert "The backup nightly of backup-1 is expected to run then." in found.reason
    assert times(found)[:2] == (hours(7), hours(9))


@pytest.mark.parametrize(("number", "why"), [(-1, "has passed"), (0, "has passed"), (31, "hours ahead")])
def test_a_named_time_lies_ahead_and_not_too_far(number: float, why: str) -> None:
    found = offered(picture(), moment=hours(number))[Way.AT]
    assert not found.is_possible
    assert why in found.reason


@pytest.mark.parametrize("key", ["", "now", "at:", "at:tomorrow", "at:20269901T000000Z", "after-run:7"])
def test_a_key_that_names_no_moment(key: str) -> None:
    assert moment_of(key) is None
