"""What if: weeks reckoned by hand, and what holds of any history."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.days import amounts
from dbops.engine.availability.record import (
    Cause,
    ClusterRecord,
    OccupiedPeriod,
    PlannedMaintenance,
    StatePeriod,
    UsableBackup,
)
from dbops.engine.availability.shortages import Gap
from dbops.engine.availability.what_if import WhatIfChange, blocked, changed
from dbops.engine.schedule.calendar import clip, merge
from dbops.engine.states import BackupMethod, Role
from tests.engine.by_name import by_method, proposals, what_if_compare

from .test_record import HOUR, READS, WEEK, gaps, record, records, span, well

MICRO = 1_000_000
ONE_HOUR = timedelta(hours=1)


def daily(
    instance: str, schedule: str, at: float, hours: float, blocks: frozenset[str] = READS
) -> list[OccupiedPeriod]:
    return [
        OccupiedPeriod(
            instance, span(24 * day + at, 24 * day + at + hours), Cause.BACKUP, f"run {day}", blocks, schedule=schedule
        )
        for day in range(7)
    ]


def two_sources(*runs: OccupiedPeriod) -> ClusterRecord:
    given = record(*well("primary-1", "backup-1", "replica-1"), occupied=runs)
    return replace(
        given,
        seen=(*given.seen, StatePeriod("backup-2", Role.BACKUP, "healthy", WEEK)),
        expected=(*given.expected, ("backup-2", Role.BACKUP, WEEK)),
    )


def test_compare_removes_31_percent_when_one_of_two_sources_moves() -> None:
    """From 02:00 to 11:40 both are read, 9 h 40 min a day; from 05:00 on it is 6 h 40 min."""
    given = two_sources(*daily("backup-1", "one", 2, 14), *daily("backup-2", "two", 0, 11 + 40 / 60))
    found = what_if_compare(given, WhatIfChange("one", by=timedelta(hours=3)), WEEK, method="xbstream")
    assert found.blocked_before == 7 * (9 * 60 + 40) * 60 * MICRO
    assert found.blocked_after == 7 * (6 * 60 + 40) * 60 * MICRO
    assert round(found.removed_percent) == 31


def test_compare_counts_sixteen_hours_of_dump_a_day() -> None:
    """A rebuild from the dump cannot begin while it is written; one by the stream reads the server beside it."""
    dumps = daily("backup-1", "nightly", 0, 16, frozenset({"dump"}))
    given = replace(
        record(*well("primary-1", "backup-1", "replica-1"), occupied=tuple(dumps)),
        backups=(UsableBackup(BackupMethod.DUMP, WEEK),),
    )
    found = dict(by_method(given, WEEK, ("dump", "xbstream")))
    assert [round(100 * sum(causes.values()) / MICRO / WEEK.seconds) for causes in found.values()] == [67, 0]
    assert list(found["dump"]) == [Cause.BACKUP]
    [(_, none)] = by_method(replace(given, backups=()), WEEK, ("dump",))
    assert {cause: value / MICRO for cause, value in none.items()} == {Cause.NO_BACKUP: WEEK.seconds}


def test_compare_shortens_gaps_when_a_dump_becomes_physical() -> None:
    given = record(*well("primary-1", "backup-1", "replica-1"), occupied=tuple(daily("backup-1", "nightly", 1, 16)))
    found = what_if_compare(given, WhatIfChange("nightly", takes=2 * ONE_HOUR), WEEK, method="xbstream")
    assert (found.blocked_before, found.blocked_after) == (7 * 16 * HOUR * MICRO, 7 * 2 * HOUR * MICRO)
    beside = what_if_compare(given, WhatIfChange("nightly", blocks=frozenset()), WEEK, method="xbstream")
    assert beside.removed_percent == 100


def test_compare_keeps_maintenance_when_a_source_is_added() -> None:
    given = record(
        *well("primary-1", "backup-1", "replica-1"),
        occupied=tuple(daily("backup-1", "nightly", 1, 3)),
        planned=(PlannedMaintenance("maintenance 1", span(10, 12)),),
    )
    found = what_if_compare(given, WhatIfChange(adds_source=True), WEEK, method="xbstream")
    assert (found.blocked_before, found.blocked_after) == ((7 * 3 + 2) * HOUR * MICRO, 2 * HOUR * MICRO)


def test_changed_wraps_moved_runs_around_the_period() -> None:
    given = record(
        occupied=(OccupiedPeriod("backup-1", span(165, 167), Cause.BACKUP, "run 1", READS, schedule="late"),)
    )
    found = changed(given, WhatIfChange("late", by=2 * ONE_HOUR), WEEK)
    assert sorted(item.interval for item in found.occupied) == [span(0, 1), span(167, 168)]
    back = changed(given, WhatIfChange("late", by=-166 * ONE_HOUR), WEEK)
    assert sorted(item.interval for item in back.occupied) == [span(0, 1), span(167, 168)]


def test_proposals_sort_by_effect_then_effort() -> None:
    given = two_sources(*daily("backup-1", "one", 2, 3), *daily("backup-2", "two", 4, 3))
    hours = [WhatIfChange("two", by=number * ONE_HOUR) for number in (-1, 4, 1, 2)]
    found = proposals(given, [*hours, WhatIfChange(adds_source=True)], WEEK, method="xbstream")
    assert [(one.change.by // ONE_HOUR, one.change.adds_source) for one in found] == [
        (1, False),
        (2, False),
        (4, False),
        (0, True),
    ]
    assert {one.removed_percent for one in found} == {100.0}


def test_proposals_are_empty_when_nothing_was_blocked() -> None:
    assert (
        proposals(
            record(*well("primary-1", "backup-1", "replica-1")),
            [WhatIfChange(adds_source=True)],
            WEEK,
            method="xbstream",
        )
        == []
    )


@st.composite
def scheduled(draw: st.DrawFn) -> ClusterRecord:
    """A history whose backups belong to one of two schedules, or to none."""
    given = draw(records())
    names = st.sampled_from(["", "one", "two"])
    return replace(given, occupied=tuple(replace(item, schedule=draw(names)) for item in given.occupied))


@given(scheduled())
def test_compare_is_neutral_when_nothing_changes(given_: ClusterRecord) -> None:
    before = amounts(gaps(given_))
    for nothing in (
        WhatIfChange(),
        WhatIfChange("one"),
        WhatIfChange("missing", by=ONE_HOUR, takes=ONE_HOUR),
        WhatIfChange("one", by=WEEK.end - WEEK.start),
    ):
        found = what_if_compare(given_, nothing, WEEK, method="xbstream")
        assert found.before == before
        assert found.after == before


@given(scheduled())
def test_compare_never_worsens_with_another_source(given_: ClusterRecord) -> None:
    found = what_if_compare(given_, WhatIfChange(adds_source=True), WEEK, method="xbstream")
    assert found.blocked_after <= found.blocked_before
    for gap in (Gap.NO_SOURCE, Gap.NO_CANDIDATE):
        assert sum(v for k, v in found.after.items() if k.gap is gap) <= sum(
            v for k, v in found.before.items() if k.gap is gap
        )


@given(scheduled(), st.integers(-3000, 3000))
def test_changed_preserves_seconds_and_is_reversible(given_: ClusterRecord, minutes: int) -> None:
    by = timedelta(minutes=minutes)
    there = changed(given_, WhatIfChange("one", by=by), WEEK)
    back = changed(there, WhatIfChange("one", by=-by), WEEK)

    def of(given: ClusterRecord) -> list[list[object]]:
        return [
            sorted(
                merge(
                    clip(
                        [item.interval for item in given.occupied if item.reference == name and item.schedule == "one"],
                        WEEK,
                    )
                )
            )
            for name in sorted({item.reference for item in given_.occupied})
        ]

    assert of(back) == of(given_)
    assert blocked(amounts(gaps(there))) >= 0


@pytest.mark.parametrize("hours", [0, 5])
def test_changed_leaves_other_schedules_and_rebuilds(hours: int) -> None:
    rebuild = OccupiedPeriod("backup-1", span(1, 2), Cause.REBUILD, "rebuild 1", READS)
    given_ = record(occupied=(rebuild, *daily("backup-1", "two", 3, 1)))
    assert changed(given_, WhatIfChange("one", by=hours * ONE_HOUR), WEEK) == given_
