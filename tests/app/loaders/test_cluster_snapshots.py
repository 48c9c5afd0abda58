"""From rows to the engine's pictures."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.schedule.eligibility import EligibilityState
from dbops.engine.schedule.snapshot import InstanceUse
from dbops.engine.states import BackupMethod, RunBy, RunOrigin, RunStatus, Status
from dbops.loaders.cluster_snapshots import HORIZON, snapshot_of, snapshots
from dbops.models import BackupRun, BackupSchedule, Hold, Instance, Maintenance, Rebuild
from tests.app.factories import make_channel, make_facts, make_rebuild, make_trio, make_unreachable, set_facts
from tests.engine.by_name import eligibility_of
from tests.said import names

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
GIB = 1024**3
ANYTHING = ".+"


def make_schedule(instance: Instance, name: str = "nightly", **values: Any) -> BackupSchedule:
    given: dict[str, Any] = {"method": BackupMethod.DUMP, "run_by": RunBy.DBOPS, "cron": "0 2 * * *"} | values
    return BackupSchedule.objects.create(instance=instance, name=name, **given)


def make_run(instance: Instance, **values: Any) -> BackupRun:
    """A managed dump that began an hour ago and holds its instance; keywords change it."""
    given: dict[str, Any] = {
        "uid": uuid.uuid4().hex,
        "origin": RunOrigin.MANAGED,
        "method": BackupMethod.DUMP,
        "status": RunStatus.RUNNING,
        "started_at": timezone.now() - HOUR,
    } | values
    run = BackupRun.objects.create(instance=instance, **given)
    if run.status == RunStatus.RUNNING and run.origin == RunOrigin.MANAGED:
        Hold.objects.create(instance=instance, backup_run=run, purpose="backup", taken_at=timezone.now())
    return run


def make_past(schedule: BackupSchedule, *hours_long: float, **values: Any) -> None:
    ends = timezone.now() - 24 * HOUR
    for taken in hours_long:
        make_run(
            schedule.instance,
            schedule=schedule,
            status=RunStatus.SUCCEEDED,
            started_at=ends - taken * HOUR,
            finished_at=ends,
            **values,
        )
        ends -= 24 * HOUR


def hold(rebuild: Rebuild) -> None:
    for instance, purpose in ((rebuild.source, "source"), (rebuild.target, "target")):
        Hold.objects.create(instance=instance, rebuild=rebuild, purpose=purpose, taken_at=timezone.now())


def test_snapshot_of_a_healthy_cluster_allows_a_rebuild() -> None:
    primary, _, replica = make_trio()
    seen = snapshot_of(primary.cluster)
    assert [(item.name, item.problem, item.stopped, item.lag_seconds) for item in seen.machines[:1]] == [
        ("backup-1", "", "", 0.0)
    ]
    assert (seen.jobs, seen.windows, seen.stops, seen.difference) == ((), (), (), None)
    assert eligibility_of(seen, target=replica.name).answer is EligibilityState.NOW


@pytest.mark.parametrize(
    ("facts", "problem", "stopped"),
    [
        (lambda: make_unreachable(text="Connection refused"), "Connection refused", ""),
        (
            lambda: make_facts(observed_at=timezone.now() - HOUR),
            ANYTHING,
            "",
        ),
        (lambda: make_facts(replication=()), "", ANYTHING),
        (lambda: make_facts(replication=(make_channel(sql_running="No", last_sql_error="1062"),)), "", "1062"),
        (lambda: make_facts(replication=(make_channel(sql_running="No"),)), "", r".*\bYes\b.*\bNo\b.*"),
    ],
)
def test_snapshot_has_the_problem_of_an_instance(facts: Any, problem: str, stopped: str) -> None:
    _, backup, _ = make_trio()
    set_facts(backup, facts())
    machine = snapshot_of(backup.cluster).machine("backup-1")
    assert machine is not None
    assert re.fullmatch(problem, machine.problem)
    assert re.fullmatch(stopped, machine.stopped)


@pytest.mark.parametrize("lag", [None, 0.0, 12.5])
def test_snapshot_lag_is_a_number_or_unknown(lag: float | None) -> None:
    _, backup, _ = make_trio()
    set_facts(backup, make_facts(replication=(make_channel(lag_seconds=lag),)))
    machine = snapshot_of(backup.cluster).machine("backup-1")
    assert machine is not None
    assert machine.lag_seconds == lag


def test_snapshot_has_no_source_before_the_first_probe() -> None:
    _, backup, _ = make_trio()
    backup.state.delete()
    assert eligibility_of(snapshot_of(backup.cluster)).answer is EligibilityState.UNKNOWN


def test_snapshot_has_only_the_rebuild_when_an_instance_is_replaced() -> None:
    _, backup, replica = make_trio()
    hold(make_rebuild(target=backup, source=replica))
    set_facts(backup, make_unreachable())
    seen = snapshot_of(backup.cluster)
    machine = seen.machine("backup-1")
    assert machine is not None
    assert machine.problem == ""
    assert [blocker.effect for blocker in eligibility_of(seen).blockers] == ["waits"]


def test_snapshot_expects_a_managed_run_by_its_schedule() -> None:
    _, backup, _ = make_trio()
    schedule = make_schedule(backup, expected_seconds=60)
    make_past(schedule, 3, 3, 5)
    run = make_run(backup, schedule=schedule)
    (job,) = snapshot_of(backup.cluster).jobs
    assert job.duration is not None
    assert (job.duration.p50_seconds, job.duration.p90_seconds, job.duration.runs) == (3 * 3600, 5 * 3600, 3)
    assert (job.claims, job.run) == ((("backup-1", InstanceUse.DUMP),), run.pk)
    assert names(job.name, run.pk, "nightly")


def test_snapshot_uses_the_expected_duration_without_runs() -> None:
    _, backup, replica = make_trio()
    make_run(backup, schedule=make_schedule(backup, expected_seconds=7200))
    make_run(replica)
    jobs = {job.claims[0][0]: job for job in snapshot_of(backup.cluster).jobs}
    assert jobs["replica-1"].duration is None
    expected = jobs["backup-1"].duration
    assert expected is not None
    assert (expected.p50_seconds, expected.runs) == (7200, 0)


def test_snapshot_ignores_durations_of_failed_runs() -> None:
    _, backup, _ = make_trio()
    schedule = make_schedule(backup)
    ended = timezone.now() - HOUR
    for status in (RunStatus.FAILED, RunStatus.CANCELLED):
        make_run(backup, schedule=schedule, status=status, started_at=ended - HOUR, finished_at=ended)
    assert snapshot_of(backup.cluster).windows[0].ends_p50 is None


def test_snapshot_expects_an_external_run_by_similar_runs() -> None:
    _, backup, _ = make_trio()
    ended = timezone.now() - 24 * HOUR
    seen = {"origin": RunOrigin.OBSERVED, "method": BackupMethod.PHYSICAL}
    make_run(backup, **seen, status=RunStatus.ENDED, started_at=ended - 2 * HOUR, finished_at=ended)
    make_run(backup, **seen)
    answer = eligibility_of(snapshot_of(backup.cluster), target="replica-1")
    assert answer.answer is EligibilityState.UNTIL
    assert answer.free.p50 is not None
    assert abs(answer.free.p50 - (timezone.now() + HOUR)) < timedelta(minutes=1)


def test_snapshot_windows_use_the_zone_of_the_schedule() -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, time_zone="Europe/Berlin", expected_seconds=3600)
    make_schedule(backup, "off", is_enabled=False)
    make_schedule(backup, "never", cron="0 0 31 2 *")
    now = datetime.fromisoformat("2026-03-28T20:30:00+00:00")
    found = snapshot_of(backup.cluster, now=now).windows
    # The clocks go forward that night: the hour from 2 to 3 is not there.
    assert [item.starts_at.isoformat() for item in found] == ["2026-03-29T01:00:00+00:00", "2026-03-30T00:00:00+00:00"]
    assert found[0].ends_p50 == found[0].starts_at + HOUR
    assert all(now < item.starts_at <= now + HORIZON for item in found)


def test_snapshot_omits_windows_of_an_unreadable_schedule() -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, cron="at dawn")
    assert snapshot_of(backup.cluster).windows == ()


def test_snapshot_has_queued_and_running_rebuilds_with_claims() -> None:
    _, backup, replica = make_trio()
    running = make_rebuild(target=replica, source=backup)
    hold(running)
    (job,) = snapshot_of(backup.cluster).jobs
    assert set(job.claims) == {("backup-1", InstanceUse.READ), ("replica-1", InstanceUse.REPLACE)}
    assert job.started_at == running.started_at
    Hold.objects.all().delete()
    Rebuild.objects.update(status=Status.QUEUED, started_at=None, priority=3)
    (job,) = snapshot_of(backup.cluster).jobs
    assert set(job.claims) == {("backup-1", InstanceUse.READ), ("replica-1", InstanceUse.REPLACE)}
    assert (job.started_at, job.priority) == (None, 3)


def test_snapshot_predicts_by_own_rebuilds_or_fleet_speed() -> None:
    _, backup, replica = make_trio()
    _, other_backup, _ = make_trio("legacy")
    now = timezone.now()
    make_rebuild(
        target=replica,
        source=backup,
        status=Status.SUCCEEDED,
        started_at=now - 5 * HOUR,
        finished_at=now - 3 * HOUR,
        checkpoint={"stream.bytes": 740 * GIB},
    )
    own = snapshot_of(backup.cluster).predicted("backup-1").duration
    other = snapshot_of(other_backup.cluster).predicted("legacy-backup-1")
    assert own is not None
    assert (own.p50_seconds, own.runs) == (4 * 3600, 1)  # twice the bytes, twice the time
    assert other.duration is not None
    assert other.duration.p50_seconds == 4 * 3600
    assert other.reason != snapshot_of(backup.cluster).predicted("backup-1").reason


def test_snapshot_is_blocked_until_maintenance_ends() -> None:
    _, backup, _ = make_trio()
    now = timezone.now()
    Maintenance.objects.create(cluster=backup.cluster, starts_at=now - 2 * HOUR, ends_at=now - HOUR, reason="over")
    ends = now + HOUR
    Maintenance.objects.create(
        cluster=backup.cluster, starts_at=now - HOUR, ends_at=ends, reason="disks", created_by="olga"
    )
    answer = eligibility_of(snapshot_of(backup.cluster))
    assert [stop.reason for stop in snapshot_of(backup.cluster).stops] == ["disks"]
    assert answer.free.p50 == ends


def test_snapshots_of_all_clusters_take_the_queries_of_one(django_assert_num_queries: Any) -> None:
    trios = [make_trio(name) for name in ("shop", "legacy", "third")]
    for _, backup, _ in trios:
        make_past(make_schedule(backup, f"nightly-{backup.pk}"), 2, 3)
    make_run(trios[1][1])
    hold(make_rebuild(target=trios[2][2], source=trios[2][1]))
    now = timezone.now()
    with django_assert_num_queries(11):
        every = snapshots(now=now)
    for primary, _, _ in trios:
        with django_assert_num_queries(11):
            alone = snapshot_of(primary.cluster, now=now)
        assert every[primary.cluster_id] == alone
    assert [eligibility_of(every[trio[0].cluster_id]).answer for trio in trios] == [
        EligibilityState.NOW,
        EligibilityState.UNKNOWN,
        EligibilityState.UNKNOWN,
    ]


def test_snapshot_keeps_an_external_window_until_met_missed_or_late() -> None:
    _, backup, _ = make_trio()
    now = datetime(2026, 3, 2, 1, 10, tzinfo=UTC)
    due = datetime(2026, 3, 2, 0, 50, tzinfo=UTC)
    values = {"run_by": RunBy.EXTERNAL, "cron": "50 0 * * *", "late_after_seconds": 3600}
    schedule = make_schedule(backup, **values)
    make_schedule(backup, "ours", **values | {"run_by": RunBy.DBOPS})
    make_schedule(backup, "bad", **values | {"cron": "whenever"})

    def unseen(minutes: float = 0) -> list[tuple[str, datetime]]:
        found = snapshot_of(backup.cluster, now=now + timedelta(minutes=minutes)).unseen
        return [(window.schedule, window.starts_at) for window in found]

    assert unseen(-21) == []
    assert unseen(-20) == unseen() == unseen(39) == [("nightly", due)]
    assert unseen(41) == []
    run = make_run(backup, origin=RunOrigin.OBSERVED, schedule=schedule, due_at=due - 24 * HOUR)
    assert unseen() == [("nightly", due)]
    BackupRun.objects.filter(pk=run.pk).update(due_at=due)
    assert unseen() == []
