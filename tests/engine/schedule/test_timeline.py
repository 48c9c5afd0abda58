"""The timeline: past runs, expected windows, and free slots as the blockers say."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.schedule.backup_windows import Duration
from dbops.engine.schedule.calendar import Interval, merge
from dbops.engine.schedule.eligibility import EligibilityState, sources_of
from dbops.engine.schedule.snapshot import InstanceStatus, MaintenanceWindow
from dbops.engine.schedule.timeline import BarKind, Timeline, TimelineBar
from dbops.engine.states import Role, RunBy
from tests.engine.by_name import blockers, can_start, eligibility_of, timeline
from tests.engine.snapshots import HOUR, MACHINES, backup, hours, queued, rebuild, snapshot, window

DAY = Interval(hours(-6), hours(18))


def spans(intervals: object) -> list[tuple[float, float]]:
    return [
        tuple((moment - hours(0)).total_seconds() / HOUR for moment in (item.start, item.end))
        for item in intervals  # type: ignore[attr-defined]
    ]


def blocked(line: Timeline) -> list[tuple[float, float]]:
    return spans(item.interval for item in line.blocked)


def ran(start: float, end: float, instance: str = "backup-1", **values: object) -> TimelineBar:
    return TimelineBar(BarKind.BACKUP, instance, Interval(hours(start), hours(end)), "nightly", "succeeded", **values)


def test_timeline_is_free_when_nothing_runs() -> None:
    line = timeline(snapshot(), [], DAY)
    assert spans(line.free) == [(-6, 18)]
    assert spans(line.free_ahead) == [(0, 18)]
    assert line.bars == ()


def test_timeline_blocks_past_runs() -> None:
    line = timeline(snapshot(), [ran(-8, -4), ran(-3, -2)], DAY)
    assert blocked(line) == [(-6, -4), (-3, -2)]
    assert spans(line.free) == [(-4, -3), (-2, 18)]


def test_timeline_is_free_when_a_second_source_was_free() -> None:
    both = (*MACHINES, InstanceStatus("backup-2", Role.BACKUP))
    line = timeline(snapshot(machines=both), [ran(-5, -2), ran(-3, -1, "backup-2")], DAY)
    assert blocked(line) == [(-3, -2)]


def test_timeline_blocks_until_p50_and_perhaps_until_p90() -> None:
    line = timeline(snapshot(jobs=(backup(),)), [], DAY)
    assert blocked(line) == [(-1, 0), (0, 1)]
    assert spans(line.perhaps) == [(1, 3)]
    assert spans(line.free_ahead) == [(3, 18)]
    [bar] = line.bars
    assert (bar.instance, bar.status, spans([bar.interval, bar.tail])) == ("backup-1", "running", [(-1, 1), (1, 3)])


def test_timeline_blocks_the_likely_part_of_a_window() -> None:
    line = timeline(snapshot(windows=(window(2),)), [], DAY)
    assert blocked(line) == [(2, 4)]
    assert spans(line.perhaps) == [(4, 6)]
    assert "nightly" in line.blocked[0].why
    assert "backup-1" in line.blocked[0].why


def test_timeline_blocks_to_the_edge_when_the_end_is_unknown() -> None:
    line = timeline(snapshot(jobs=(backup(duration=None),)), [], DAY)
    assert line.free_ahead == []
    assert line.bars[0].is_open


def test_maintenance_blocks_every_source() -> None:
    stop = TimelineBar(BarKind.MAINTENANCE, "", Interval(hours(-2), hours(4)), "disks")
    line = timeline(snapshot(stops=(MaintenanceWindow(hours(-2), hours(4), "disks", "olga"),)), [stop], DAY)
    assert merge(item.interval for item in line.blocked) == [Interval(hours(-2), hours(4))]


def test_timeline_is_never_free_without_a_source() -> None:
    line = timeline(snapshot(machines=MACHINES[:2]), [], DAY)
    assert line.free == ()


def test_timeline_part_has_only_that_day() -> None:
    line = timeline(snapshot(windows=(window(2), window(26))), [ran(-5, -4)], Interval(hours(-6), hours(42)))
    day = line.part(Interval(hours(18), hours(42)))
    assert [bar.interval.start for bar in day.bars] == [hours(26)]
    assert blocked(day) == [(26, 28)]
    assert spans(day.free) == [(18, 26), (30, 42)]


durations = st.none() | st.builds(
    lambda likely, more: Duration(likely * 60.0, (likely + more) * 60.0, 5), st.integers(1, 600), st.integers(0, 300)
)
windows = st.builds(
    lambda at, duration, run_by: window(at / 4, duration=duration, run_by=run_by),
    st.integers(-8, 80),
    durations,
    st.sampled_from(RunBy),
)
jobs = st.one_of(
    st.builds(lambda at, duration: backup(started_at=hours(-at / 4), duration=duration), st.integers(0, 20), durations),
    st.builds(lambda at: rebuild(started_at=hours(-at / 4)), st.integers(0, 20)),
    st.just(queued()),
)
stops = st.builds(
    lambda at, length: MaintenanceWindow(hours(at / 4), None if length is None else hours((at + length) / 4), "disks"),
    st.integers(-20, 60),
    st.none() | st.integers(1, 20),
)
pasts = st.builds(lambda at, length: ran(-at / 4, -at / 4 + length / 4), st.integers(1, 30), st.integers(0, 12))
snapshots = st.builds(
    lambda windows, jobs, stops: snapshot(windows=tuple(windows), jobs=tuple(jobs), stops=tuple(stops)),
    st.lists(windows, max_size=4),
    st.lists(jobs, max_size=2),
    st.lists(stops, max_size=2),
)


@given(snapshots, st.lists(pasts, max_size=3), st.integers(-6 * 60, 18 * 60 - 1))
def test_timeline_agrees_with_blockers(found: object, history: list[TimelineBar], minute: int) -> None:
    """Free, blocked and perhaps are the whole of it without overlap; at no free moment something stops a rebuild."""
    line = timeline(found, history, DAY)
    likely = merge(item.interval for item in line.blocked)
    parts = [*likely, *line.perhaps, *line.free]
    assert sum(part.seconds for part in parts) == DAY.seconds
    assert merge(parts) == [DAY]
    moment = hours(0) + timedelta(minutes=minute)
    if moment >= found.now:
        assert any(item.holds(moment) for item in likely) == _stopped(found, moment, late=False)
        free = any(item.holds(moment) for item in line.free)
        assert not (free and _stopped(found, moment, late=True))


@given(snapshots)
def test_timeline_starts_with_the_current_eligibility(found: object) -> None:
    is_now = eligibility_of(found).answer is EligibilityState.NOW
    first = timeline(found, [], Interval(hours(0), hours(12))).blocked[:1]
    assert can_start(found) == is_now
    assert is_now == (not first or first[0].interval.start > hours(0))


def _stopped(found: object, moment: datetime, *, late: bool) -> bool:
    return all(
        any(item.stops for item in blockers(found, source=source, moment=moment, late=late))
        for source in sources_of(found)
    )


def test_timeline_omits_free_slots_below_a_minute() -> None:
    short = Interval(hours(2), hours(2) + timedelta(seconds=20))
    line = timeline(snapshot(windows=(window(1), window(3))), [], DAY)
    shortened = Timeline(
        line.within, line.now, line.bars, line.blocked, line.perhaps, (short, Interval(hours(9), hours(18)))
    )
    assert spans(shortened.free_ahead) == [(9, 18)]
