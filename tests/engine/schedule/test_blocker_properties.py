"""Properties of blockers and eligibility for any cluster."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.methods import METHODS
from dbops.engine.schedule.backup_windows import BackupWindow, Duration, Prediction, window_at
from dbops.engine.schedule.eligibility import EligibilityState
from dbops.engine.schedule.occupancy import reservations_of
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceStatus, InstanceUse, MaintenanceWindow
from dbops.engine.states import BackupMethod, Role, RunBy
from tests.engine.by_name import blockers, eligibility_of
from tests.engine.snapshots import NOW, hours, snapshot

NAMES = ("backup-1", "backup-2", "replica-1", "replica-2")
STREAMS = st.sampled_from(["xbstream", "clone"])
within_days = st.floats(min_value=-48, max_value=48, allow_nan=False).map(hours)
past = st.floats(min_value=-48, max_value=0, allow_nan=False).map(hours)


@st.composite
def durations(draw: st.DrawFn) -> Duration | None:
    if draw(st.integers(0, 4)) == 0:
        return None
    likely = draw(st.floats(min_value=1, max_value=2e5))
    return Duration(likely, likely + draw(st.floats(min_value=0, max_value=1e5)), draw(st.integers(0, 20)))


@st.composite
def jobs(draw: st.DrawFn) -> ActiveJob:
    number = draw(st.integers(1, 10**6))
    is_rebuild = draw(st.booleans())
    one, other = draw(st.permutations(NAMES))[:2]
    use = draw(st.sampled_from([InstanceUse.DUMP, InstanceUse.PHYSICAL]))
    started = draw(st.none() | past)
    return ActiveJob(
        name=f"job {number}",
        claims=((one, InstanceUse.READ), (other, InstanceUse.REPLACE)) if is_rebuild else ((one, use),),
        started_at=started,
        queued_at=draw(past),
        not_before=None if started else draw(st.none() | within_days),
        priority=draw(st.integers(-1, 2)),
        duration=draw(durations()),
        is_managed=draw(st.booleans()),
        is_lost=draw(st.integers(0, 5)) == 0,
        run=None if is_rebuild else number,
        rebuild=number if is_rebuild else None,
    )


@st.composite
def due_windows(draw: st.DrawFn) -> BackupWindow:
    return window_at(
        draw(within_days),
        instance=draw(st.sampled_from(NAMES)),
        schedule=f"schedule {draw(st.integers(0, 5))}",
        method=draw(st.sampled_from(list(BackupMethod))),
        run_by=draw(st.sampled_from(list(RunBy))),
        duration=draw(durations()),
    )


@st.composite
def maintenances(draw: st.DrawFn) -> MaintenanceWindow:
    starts = draw(within_days)
    ends = draw(st.none() | st.floats(min_value=0.1, max_value=48).map(lambda more: starts + timedelta(hours=more)))
    return MaintenanceWindow(starts, ends, "new disks")


@st.composite
def machine_states(draw: st.DrawFn) -> tuple[InstanceStatus, ...]:
    ill = draw(st.sampled_from(["", "", "", "down"]))
    lag = draw(st.sampled_from([0.0, 0.0, 30.0, 4000.0, None]))
    return (
        InstanceStatus("primary-1", Role.PRIMARY),
        InstanceStatus("backup-1", Role.BACKUP, problem=ill, lag_seconds=lag),
        *(InstanceStatus(name, Role.BACKUP if "backup" in name else Role.REPLICA) for name in NAMES[1:]),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    return snapshot(
        machines=draw(machine_states()),
        jobs=tuple(draw(st.lists(jobs(), max_size=5))),
        windows=tuple(draw(st.lists(due_windows(), max_size=5))),
        stops=tuple(draw(st.lists(maintenances(), max_size=2))),
        prediction=Prediction(draw(durations()), "drawn"),
    )


def latest(moment: datetime | None) -> float:
    """Unknown is later than every time."""
    return moment.timestamp() if moment else float("inf")


@given(snapshots(), STREAMS)
def test_eligibility_now_means_no_hold(seen: ClusterSnapshot, method: str) -> None:
    found = eligibility_of(seen, target="replica-1", method=method)
    if found.answer is EligibilityState.NOW:
        held = {name for job in seen.jobs if job.started_at for name, _ in job.claims}
        assert not held & {"replica-1", found.source}


@given(snapshots(), STREAMS)
def test_eligibility_is_never_free_before_a_running_job_ends(seen: ClusterSnapshot, method: str) -> None:
    found = eligibility_of(seen, target="replica-1", method=method)
    for stay in reservations_of(seen):
        if stay.instance in ("replica-1", found.source) and stay.job.started_at:
            assert latest(found.free.p50) >= latest(stay.end.p50) >= NOW.timestamp()
            assert latest(found.free.p90) >= latest(stay.end.p90)


@given(snapshots(), st.sampled_from(list(METHODS)), st.floats(min_value=0, max_value=60).map(hours))
def test_blocker_ends_are_never_before_the_requested_moment(
    seen: ClusterSnapshot, method: str, moment: datetime
) -> None:
    for blocker in blockers(seen, target="replica-1", source="backup-1", method=method, moment=moment):
        if blocker.until.p50:
            assert blocker.until.p90 is not None
            assert moment <= blocker.until.p50 <= blocker.until.p90


@given(snapshots(), st.sampled_from(list(METHODS)))
def test_eligibility_p90_is_never_before_p50(seen: ClusterSnapshot, method: str) -> None:
    free = eligibility_of(seen, target="replica-1", method=method).free
    assert (free.p50 is None) == (free.p90 is None)
    assert NOW.timestamp() <= latest(free.p50) <= latest(free.p90)


@given(
    snapshots(),
    st.lists(jobs(), max_size=3),
    st.lists(due_windows(), max_size=3),
    st.lists(maintenances(), max_size=2),
    st.sampled_from(list(METHODS)),
)
def test_eligibility_is_never_earlier_with_more_blockers(
    seen: ClusterSnapshot,
    more_jobs: list[ActiveJob],
    more_windows: list[BackupWindow],
    more_stops: list[MaintenanceWindow],
    method: str,
) -> None:
    before = eligibility_of(seen, target="replica-1", method=method).free
    more = replace(
        seen,
        jobs=(*seen.jobs, *more_jobs),
        windows=(*seen.windows, *more_windows),
        stops=(*seen.stops, *more_stops),
    )
    after = eligibility_of(more, target="replica-1", method=method).free
    assert latest(after.p50) >= latest(before.p50)
    assert latest(after.p90) >= latest(before.p90)


@given(snapshots(), st.sampled_from(list(METHODS)))
def test_eligibility_agrees_with_its_parts(seen: ClusterSnapshot, method: str) -> None:
    found = eligibility_of(seen, target="replica-1", method=method)
    assert (found.answer is EligibilityState.NOW) == (not found.blockers)
    assert (found.answer is EligibilityState.UNTIL) == bool(found.blockers and found.free.p50)
    if found.answer is EligibilityState.NOW:
        assert found.free.p50 == NOW
    if found.blockers:
        assert found.by in (*found.blockers, *found.later)
