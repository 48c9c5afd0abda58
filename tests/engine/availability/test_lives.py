"""Phases of rebuilds and their use of instances, as intervals."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.rebuild_intervals import RebuildIntervals, StepInterval, occupied, phases
from dbops.engine.availability.record import Cause, OccupiedPeriod, RebuildPhase
from dbops.engine.schedule.calendar import Interval, merge
from dbops.engine.states import Status

T0 = datetime(2026, 11, 1, tzinfo=UTC)
READS = frozenset({"xbstream", "clone"})


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def span(start: float, end: float) -> Interval:
    return Interval(at(start), at(end))


LIFE = RebuildIntervals(
    number=7,
    target="replica-1",
    source="backup-1",
    status=Status.SUCCEEDED,
    requested_at=at(0),
    started_at=at(60),
    finished_at=at(120),
    pauses=True,
    steps=(
        StepInterval("open-access", at(60), at(61)),
        StepInterval("pause", at(62), at(63)),
        StepInterval("stream", at(63), at(90)),
        StepInterval("release", at(90), at(91)),
        StepInterval("prepare", at(91), at(100)),
        StepInterval("catch-up", at(102), at(118)),
    ),
)
NOW = at(1000)


def told(found: list[RebuildPhase], number: int = 7) -> list[tuple[float, float, Cause]]:
    return sorted(
        ((part.interval.start - T0).total_seconds() / 60, (part.interval.end - T0).total_seconds() / 60, part.cause)
        for part in found
        if part.rebuild == number
    )


def test_phases_label_time_between_steps_as_other_steps() -> None:
    assert told(phases([LIFE], [], NOW)) == [
        (0, 60, Cause.QUEUE),
        (60, 63, Cause.OTHER_STEPS),
        (63, 90, Cause.STREAM),
        (90, 91, Cause.OTHER_STEPS),
        (91, 100, Cause.PREPARE),
        (100, 102, Cause.OTHER_STEPS),
        (102, 118, Cause.CATCH_UP),
        (118, 120, Cause.OTHER_STEPS),
    ]


def test_phases_are_approval_until_the_decision() -> None:
    uses = [OccupiedPeriod("backup-1", span(-30, 40), Cause.BACKUP, "run 1", READS)]
    agreed = replace(LIFE, needs_approval=True, decided_at=at(25))
    assert told(phases([agreed], uses, NOW))[:3] == [
        (0, 25, Cause.APPROVAL),
        (25, 40, Cause.WINDOW),
        (40, 60, Cause.QUEUE),
    ]
    waits = replace(agreed, decided_at=None, started_at=None, finished_at=None, status=Status.QUEUED, steps=())
    assert told(phases([waits], uses, at(50))) == [(0, 50, Cause.APPROVAL)]
    given_up = replace(waits, finished_at=at(30), status=Status.CANCELLED)
    assert told(phases([given_up], uses, NOW)) == [(0, 30, Cause.APPROVAL)]


def test_phases_name_the_use_of_the_source_when_queued() -> None:
    uses = [
        OccupiedPeriod("backup-1", span(-30, 20), Cause.BACKUP, "run 1", READS),
        OccupiedPeriod("backup-1", span(15, 50), Cause.REBUILD, "rebuild 3", READS),
        OccupiedPeriod("backup-9", span(0, 60), Cause.BACKUP, "run 2", READS),
        OccupiedPeriod("backup-1", span(50, 55), Cause.BACKUP, "run 3", frozenset()),
    ]
    assert told(phases([LIFE], uses, NOW))[:3] == [
        (0, 20, Cause.WINDOW),
        (20, 50, Cause.LINE),
        (50, 60, Cause.QUEUE),
    ]


def test_occupied_frees_the_source_at_release_and_the_target_at_the_end() -> None:
    found = {(item.instance, item.pauses): item.interval for item in occupied([LIFE], NOW, READS)}
    assert found == {
        ("replica-1", False): span(60, 120),
        ("backup-1", False): span(60, 91),
        ("backup-1", True): span(62, 91),
    }
    references = {item.reference for item in occupied([LIFE], NOW, READS)}
    assert references == {"rebuild 7"}
    assert {getattr(one, "pattern", "") for one in references} == {"rebuild {number}"}


def test_occupied_omits_the_source_when_rolling_back() -> None:
    """It holds its target alone: the source stays free, and a backup there is nothing that it waits for."""
    rolled_back = replace(LIFE, reads_source=False, steps=(StepInterval("find-old-data", at(60), at(61)),))
    assert {(item.instance, item.interval) for item in occupied([rolled_back], NOW, READS)} == {
        ("replica-1", span(60, 120))
    }
    uses = [
        OccupiedPeriod("backup-1", span(-30, 20), Cause.BACKUP, "run 1", READS),
        OccupiedPeriod("replica-1", span(0, 50), Cause.REBUILD, "rebuild 3", READS),
    ]
    assert told(phases([rolled_back], uses, NOW))[:2] == [(0, 50, Cause.LINE), (50, 60, Cause.QUEUE)]


def test_occupied_has_no_pause_when_the_plan_pauses_nothing() -> None:
    assert not any(item.pauses for item in occupied([replace(LIFE, pauses=False)], NOW, READS))


def test_phases_end_now_when_the_rebuild_is_running() -> None:
    going = replace(
        LIFE, status=Status.RUNNING, finished_at=None, steps=(*LIFE.steps[:2], StepInterval("stream", at(63), None))
    )
    assert {item.interval.end for item in occupied([going], at(80), READS)} == {at(80)}
    assert told(phases([going], [], at(80)))[-1] == (63, 80, Cause.STREAM)


def test_phases_add_retry_time_after_a_failed_rebuild() -> None:
    failed = replace(LIFE, status=Status.FAILED)
    again = replace(
        LIFE, number=8, status=Status.SUCCEEDED, requested_at=at(200), started_at=at(201), finished_at=at(260), steps=()
    )
    assert told(phases([failed, again], [], NOW))[-1] == (120, 200, Cause.RETRY)
    assert told(phases([failed], [], NOW))[-1] == (120, 1000, Cause.RETRY)
    assert Cause.RETRY not in {phase.cause for phase in phases([LIFE, again], [], NOW)}


def test_phases_have_no_retry_when_cancelled_in_the_queue() -> None:
    never = replace(LIFE, status=Status.CANCELLED, started_at=None, finished_at=at(30), steps=())
    assert told(phases([never], [], NOW)) == [(0, 30, Cause.QUEUE)]
    assert occupied([never], NOW, READS) == []


MINUTES = st.integers(-60, 180)


@given(st.lists(st.tuples(MINUTES, MINUTES, st.sampled_from([Cause.BACKUP, Cause.REBUILD])), max_size=6))
def test_phases_cover_a_rebuild_exactly_once(given_uses: list[tuple[int, int, Cause]]) -> None:
    uses = [
        OccupiedPeriod("backup-1", span(min(a, b), max(a, b) + 1), cause, f"rebuild {100 + number}", READS)
        for number, (a, b, cause) in enumerate(given_uses)
    ]
    found = [phase.interval for phase in phases([LIFE], uses, NOW)]
    assert merge(found) == [span(0, 120)]
    assert sum(interval.seconds for interval in found) == 120 * 60
