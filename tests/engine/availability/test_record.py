"""Gaps counted by hand, and what must hold of any: causes add up, periods may be cut anywhere, and more probes change nothing."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.availability.gaps import seconds, seconds_by_cause
from dbops.engine.availability.record import (
    Cause,
    ClusterRecord,
    OccupiedPeriod,
    PlannedMaintenance,
    RebuildPhase,
    StatePeriod,
    UsableBackup,
)
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.schedule.calendar import Interval, day, free, merge
from dbops.engine.states import BackupMethod, Role
from tests.engine.by_name import parts

T0 = datetime(2026, 3, 23, tzinfo=UTC)
HOUR = 3600
WEEK = Interval(T0, T0 + timedelta(days=7))
TRIO = {"primary-1": Role.PRIMARY, "backup-1": Role.BACKUP, "replica-1": Role.REPLICA}
READS = frozenset({"xbstream", "clone"})


def any_gap(found: Iterable[Shortage], *, planned: bool = True) -> list[Interval]:
    """Return the time with any gap, each moment once; ``planned`` counts announced maintenance too."""
    counted = (part for part in found if part.gap is not Gap.NOT_OBSERVED and (planned or not part.planned))
    return merge(part.interval for part in counted)


def span(start: float, end: float) -> Interval:
    """From hour to hour of the week."""
    return Interval(T0 + timedelta(hours=start), T0 + timedelta(hours=end))


def seen(instance: str, *states: tuple[str, float, float]) -> tuple[StatePeriod, ...]:
    return tuple(StatePeriod(instance, TRIO[instance], state, span(start, end)) for state, start, end in states)


def well(*names: str) -> tuple[StatePeriod, ...]:
    return tuple(item for name in names for item in seen(name, ("healthy", 0, 168)))


def record(*given: StatePeriod, **values: object) -> ClusterRecord:
    return ClusterRecord(given, tuple((name, role, WEEK) for name, role in TRIO.items()), **values)  # type: ignore[arg-type]


def gaps_of(found: list[Shortage], gap: Gap) -> list[tuple[float, float, Cause, str]]:
    return [
        (
            (part.interval.start - T0).total_seconds() / HOUR,
            (part.interval.end - T0).total_seconds() / HOUR,
            part.cause,
            part.reference,
        )
        for part in found
        if part.gap is gap
    ]


def gaps(given: ClusterRecord, within: Interval = WEEK, method: str = "xbstream") -> list[Shortage]:
    return parts(given, within, method=method)


class TestByHand:
    def test_gaps_are_empty_for_a_healthy_week(self) -> None:
        assert gaps(record(*well(*TRIO))) == []

    def test_gaps_split_a_lost_replica_by_cause_until_its_return(self) -> None:
        given = record(
            *well("primary-1", "backup-1"),
            *seen("replica-1", ("healthy", 0, 20), ("unreachable", 20, 30.5), ("healthy", 30.5, 168)),
            occupied=(
                OccupiedPeriod("backup-1", span(22, 26), Cause.BACKUP, "run 4", READS),
                OccupiedPeriod("backup-1", span(26, 28), Cause.REBUILD, "rebuild 7", READS, pauses=True),
            ),
            phases=(
                RebuildPhase(7, "replica-1", "backup-1", Cause.WINDOW, span(23, 26)),
                RebuildPhase(7, "replica-1", "backup-1", Cause.STREAM, span(26, 28)),
                RebuildPhase(7, "replica-1", "backup-1", Cause.PREPARE, span(28, 29)),
                RebuildPhase(7, "replica-1", "backup-1", Cause.CATCH_UP, span(29, 30.5)),
            ),
        )
        found = gaps(given)
        assert gaps_of(found, Gap.SHORT) == [
            (20, 23, Cause.DETECTION, "replica-1"),
            (23, 26, Cause.WINDOW, "rebuild 7"),
            (26, 28, Cause.STREAM, "rebuild 7"),
            (28, 29, Cause.PREPARE, "rebuild 7"),
            (29, 30.5, Cause.CATCH_UP, "rebuild 7"),
        ]
        assert gaps_of(found, Gap.NOT_REBUILDABLE) == [
            (22, 26, Cause.BACKUP, "run 4"),
            (26, 28, Cause.REBUILD, "rebuild 7"),
        ]
        assert gaps_of(found, Gap.PAUSED) == [(26, 28, Cause.REBUILD, "rebuild 7")]
        assert gaps_of(found, Gap.NO_CANDIDATE) == []
        assert seconds(found, Gap.SHORT) == 10.5 * HOUR
        assert any_gap(found) == [span(20, 30.5)], "what overlaps counts once"

    def test_gaps_include_not_rebuildable_when_the_only_source_is_down(self) -> None:
        given = record(*well("primary-1", "replica-1"), *seen("backup-1", ("healthy", 0, 5), ("stopped", 5, 168)))
        found = gaps(given)
        for gap in (Gap.NO_SOURCE, Gap.NOT_REBUILDABLE):
            assert gaps_of(found, gap) == [(5, 168, Cause.SOURCE_DOWN, "backup-1")]
        assert gaps_of(found, Gap.SHORT) == [(5, 168, Cause.DETECTION, "backup-1")]

    def test_gaps_use_a_replica_as_source_without_a_backup_instance(self) -> None:
        given = record(*well("primary-1", "replica-1"))
        given = replace(given, expected=tuple(item for item in given.expected if item[0] != "backup-1"))
        assert gaps(given) == []

    def test_gaps_count_the_primary_candidate_as_last_healthy_replica(self) -> None:
        given = record(
            *well("primary-1"),
            *seen("replica-1", ("stopped", 0, 168)),
            *seen("backup-1", ("healthy", 0, 100), ("lagging", 100, 168)),
        )
        assert gaps_of(gaps(given), Gap.NO_CANDIDATE) == [(100, 168, Cause.DETECTION, "backup-1")]

    def test_gaps_report_unprobed_time_as_not_observed(self) -> None:
        given = record(*well("primary-1", "replica-1"), *seen("backup-1", ("healthy", 0, 5), ("healthy", 9, 168)))
        found = gaps(given)
        assert gaps_of(found, Gap.NOT_OBSERVED) == [(5, 9, Cause.NOT_PROBED, "backup-1")]
        assert {part.gap for part in found} == {Gap.NOT_OBSERVED}
        assert any_gap(found) == []

    def test_gaps_report_short_when_the_unobserved_state_cannot_matter(self) -> None:
        given = record(*well("primary-1"), *seen("replica-1", ("stopped", 0, 168)))
        found = gaps(given)
        assert seconds(found, Gap.SHORT) == 168 * HOUR
        assert {part.missing for part in found if part.gap is Gap.SHORT} == {1}

    def test_gaps_report_not_observed_before_the_first_probe(self) -> None:
        given = replace(
            record(*seen("replica-1", ("healthy", 24, 168))), expected=(("replica-1", Role.REPLICA, span(24, 168)),)
        )
        assert gaps_of(gaps(given), Gap.NOT_OBSERVED) == [(0, 24, Cause.NOT_PROBED, "")]

    def test_gaps_count_a_target_from_its_first_probe(self) -> None:
        given = replace(record(), expected=(("replica-1", Role.REPLICA, span(24, 24)),), wanted=2)
        assert {part.gap for part in gaps(given)} == {Gap.NOT_OBSERVED}

    def test_fewer_replicas_may_be_enough(self) -> None:
        given = record(*well("primary-1", "backup-1"), *seen("replica-1", ("stopped", 0, 168)), wanted=1)
        assert seconds(gaps(given), Gap.SHORT) == 0

    def test_maintenance_is_marked_and_stays_visible(self) -> None:
        given = record(
            *well("primary-1", "backup-1"),
            *seen("replica-1", ("healthy", 0, 10), ("unreachable", 10, 14), ("healthy", 14, 168)),
            planned=(PlannedMaintenance("maintenance 3", span(9, 12), "olga", "new disks"),),
        )
        found = gaps(given)
        assert [(part.interval, part.planned) for part in found if part.gap is Gap.SHORT] == [
            (span(10, 12), "maintenance 3"),
            (span(12, 14), ""),
        ]
        assert gaps_of(found, Gap.NOT_REBUILDABLE) == [(9, 12, Cause.MAINTENANCE, "maintenance 3")]
        assert any_gap(found) == [span(9, 14)]
        assert any_gap(found, planned=False) == [span(12, 14)]

    def test_gaps_label_planned_time_without_changing_amounts(self) -> None:
        given = record(
            *well("primary-1", "backup-1"),
            *seen("replica-1", ("healthy", 0, 10), ("unreachable", 10, 14), ("healthy", 14, 168)),
            occupied=(OccupiedPeriod("backup-1", span(11, 13), Cause.BACKUP, "run 4", READS),),
            planned=(PlannedMaintenance("maintenance 3", span(9, 12), "olga", "new disks", was_marked=True),),
        )
        found = gaps(given)
        for gap, told_as in (
            (Gap.SHORT, [(span(10, 12), "maintenance 3", Cause.DETECTION), (span(12, 14), "", Cause.DETECTION)]),
            (Gap.NOT_REBUILDABLE, [(span(11, 12), "maintenance 3", Cause.BACKUP), (span(12, 13), "", Cause.BACKUP)]),
        ):
            assert [(part.interval, part.planned, part.cause) for part in found if part.gap is gap] == told_as
        without = gaps(replace(given, planned=()))
        for gap in Gap:
            assert seconds_by_cause(found, gap) == seconds_by_cause(without, gap)

    def test_gaps_add_retry_time_after_a_failed_rebuild(self) -> None:
        given = record(
            *well("primary-1", "backup-1"),
            *seen("replica-1", ("stopped", 0, 168)),
            phases=(
                RebuildPhase(1, "replica-1", "backup-1", Cause.STREAM, span(10, 11)),
                RebuildPhase(1, "replica-1", "backup-1", Cause.RETRY, span(11, 20)),
                RebuildPhase(2, "replica-1", "backup-1", Cause.QUEUE, span(20, 21)),
            ),
        )
        assert [cause for _, _, cause, _ in gaps_of(gaps(given), Gap.SHORT)] == [
            Cause.DETECTION,
            Cause.STREAM,
            Cause.RETRY,
            Cause.QUEUE,
            Cause.DETECTION,
        ]

    def test_gaps_need_a_dump_when_the_server_is_busy(self) -> None:
        dump = OccupiedPeriod("backup-1", span(1, 17), Cause.BACKUP, "run 1", READS)
        given = record(*well(*TRIO), occupied=(dump,), backups=(UsableBackup(BackupMethod.DUMP, span(17, 168)),))
        assert gaps_of(gaps(given, method="dump"), Gap.NOT_REBUILDABLE) == [(0, 17, Cause.NO_BACKUP, "")]
        assert gaps_of(gaps(given), Gap.NOT_REBUILDABLE) == [(1, 17, Cause.BACKUP, "run 1")]

    def test_sixteen_hours_of_dump_a_day_leave_a_third_of_the_week(self) -> None:
        dumps = tuple(
            OccupiedPeriod("backup-1", span(24 * number, 24 * number + 16), Cause.BACKUP, f"run {number}", READS)
            for number in range(7)
        )
        found = gaps(record(*well(*TRIO), occupied=dumps))
        assert seconds(found, Gap.NOT_REBUILDABLE) / WEEK.seconds == 16 / 24

    def test_gaps_use_the_real_length_of_a_dst_day(self) -> None:
        sunday = day(datetime(2026, 3, 29, tzinfo=UTC).date(), ZoneInfo("Europe/Berlin"))
        given = record(*well("primary-1", "backup-1"), *seen("replica-1", ("stopped", 0, 168)))
        assert seconds(gaps(given, sunday), Gap.SHORT) == 23 * HOUR


HOURS = st.integers(0, 168)
SPANS = st.tuples(HOURS, HOURS).map(lambda pair: span(min(pair), max(pair) + 1))
STATES = st.sampled_from(["healthy", "stopped", "unreachable", "lagging"])


@st.composite
def lives(draw: st.DrawFn, name: str) -> tuple[StatePeriod, ...]:
    """Periods of one instance: they do not overlap, and may leave time out."""
    cuts = sorted(draw(st.sets(HOURS, min_size=2, max_size=8)))
    found = []
    for start, end in zip(cuts, cuts[1:], strict=False):
        if draw(st.integers(0, 4)):
            found.append(StatePeriod(name, TRIO[name], draw(STATES), span(start, end)))
    return tuple(found)


@st.composite
def records(draw: st.DrawFn) -> ClusterRecord:
    causes = st.sampled_from([Cause.BACKUP, Cause.REBUILD])
    occupied = st.builds(
        OccupiedPeriod,
        st.sampled_from(["backup-1", "replica-1"]),
        SPANS,
        causes,
        st.just("run 1"),
        st.just(READS),
        st.booleans(),
    )
    phases = st.builds(
        RebuildPhase,
        st.integers(1, 3),
        st.just("replica-1"),
        st.just("backup-1"),
        st.sampled_from(list(Cause)[:10]),
        SPANS,
    )
    return record(
        *(item for name in TRIO for item in draw(lives(name))),
        occupied=tuple(draw(st.lists(occupied, max_size=4))),
        phases=tuple(draw(st.lists(phases, max_size=4))),
        planned=tuple(draw(st.lists(st.builds(PlannedMaintenance, st.just("maintenance 1"), SPANS), max_size=2))),
        wanted=draw(st.sampled_from([None, 0, 1, 2, 3])),
    )


@given(records())
def test_causes_sum_to_the_whole_without_overlap(given: ClusterRecord) -> None:
    found = gaps(given)
    for gap in Gap:
        row = [part for part in found if part.gap is gap]
        assert sum(seconds_by_cause(found, gap).values()) == seconds(found, gap)
        assert sum(item.seconds for item in merge(part.interval for part in row)) == seconds(found, gap)
        assert all(part.interval.within(WEEK) == part.interval for part in row)


@given(records(), HOURS)
def test_gaps_are_equal_for_any_cut_of_the_period(given: ClusterRecord, hour: int) -> None:
    whole = gaps(given)
    halves = gaps(given, span(0, hour)) + gaps(given, span(hour, 168))
    for gap in Gap:
        assert seconds_by_cause(halves, gap) == seconds_by_cause(whole, gap)
    assert merge(any_gap(halves)) == any_gap(whole)


@given(records(), st.sampled_from(list(TRIO)))
def test_gaps_never_grow_when_unprobed_time_is_seen_healthy(given: ClusterRecord, name: str) -> None:
    blind = free((item.interval for item in given.seen if item.instance == name), WEEK)
    looked = replace(given, seen=given.seen + tuple(StatePeriod(name, TRIO[name], "healthy", item) for item in blind))
    before, after = gaps(given), gaps(looked)
    for gap in set(Gap) - {Gap.NOT_OBSERVED}:
        covered = [part.interval for part in before if part.gap in (gap, Gap.NOT_OBSERVED)]
        assert free(covered, WEEK) == free([*covered, *(part.interval for part in after if part.gap is gap)], WEEK), (
            "what is short afterwards was short or not observed before"
        )
        assert seconds(after, gap) <= seconds(before, gap) + seconds(before, Gap.NOT_OBSERVED)
    assert seconds(after, Gap.NOT_OBSERVED) <= seconds(before, Gap.NOT_OBSERVED)
