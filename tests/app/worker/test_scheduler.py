"""Rebuilds and backups in the same lines, over real rows: reasons in bulk, start conditions, and a number of queries that stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.schedule.scheduler import decide
from dbops.engine.states import RunOrigin, RunStatus, Status
from dbops.lifecycle import backup_runs, cleanups, rebuild_driver, rebuild_requests, starts
from dbops.lifecycle.backup_runs import run_again
from dbops.lifecycle.leases import Update
from dbops.models import BackupRun, Hold, Instance, Maintenance, Rebuild, RebuildEvent
from dbops.worker import scheduler
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_cluster, make_instance, make_operator, make_rebuild, make_trio
from tests.said import names, numbers

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


def queued(trio: Any, **values: Any) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED, **values)


def fresh(row: Any) -> Any:
    return type(row).objects.get(pk=row.pk)


def test_scheduler_starts_a_backup_and_locks_its_instance(trio: Any) -> None:
    run = make_run(make_schedule(trio[1]))
    assert scheduler.start_what_can() == []
    assert (fresh(run).status, fresh(run).flags) == ("running", [])
    assert list(Hold.objects.values_list("instance", "backup_run", "purpose")) == [(trio[1].pk, run.pk, "backup")]


def test_due_backup_waits_for_a_rebuild_and_is_late(trio: Any) -> None:
    rebuild = queued(trio)
    assert scheduler.start_what_can() == [rebuild.pk]
    schedule = make_schedule(trio[1], late_after_seconds=60)
    run = make_run(schedule, due_at=timezone.now() - timedelta(minutes=10))
    scheduler.start_what_can()
    waits = fresh(run)
    assert (waits.status, waits.flags) == ("queued", ["late"])
    assert names(waits.waiting_for, "backup-1", f"rebuild {rebuild.pk}")
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.finish(lease, Status.SUCCEEDED, "done")
    scheduler.start_what_can()
    assert (fresh(run).status, fresh(run).flags) == ("running", ["late"])
    assert any(600 <= number < 700 for number in numbers(fresh(run).events.latest("pk").text)), (
        "seconds after it was due"
    )


def test_rebuild_starts_when_the_backup_ends(trio: Any) -> None:
    run = make_run(make_schedule(trio[1]), RunStatus.RUNNING)
    rebuild = queued(trio)
    assert scheduler.start_what_can() == []
    assert names(fresh(rebuild).waiting_for, "backup-1", f"backup run {run.pk}")
    lease = backup_runs.take_lease(run.pk)
    assert lease is not None
    backup_runs.finish(lease, RunStatus.SUCCEEDED, "done", Update())
    assert scheduler.start_what_can() == [rebuild.pk]


def test_backup_of_the_target_delays_a_rebuild(trio: Any) -> None:
    run = make_run(make_schedule(trio[2]), RunStatus.RUNNING)
    rebuild = queued(trio)
    assert scheduler.start_what_can() == []
    assert names(fresh(rebuild).waiting_for, "replica-1", f"backup run {run.pk}")


def test_urgent_rebuild_passes_a_waiting_backup(trio: Any) -> None:
    run = make_run(make_schedule(trio[1]), queued_at=timezone.now() - timedelta(hours=2))
    urgent = queued(trio, priority=1)
    assert scheduler.start_what_can() == [urgent.pk]
    assert names(fresh(run).waiting_for, "backup-1", f"rebuild {urgent.pk}")


def test_later_rebuild_waits_behind_a_queued_backup(trio: Any) -> None:
    run = make_run(make_schedule(trio[1]), queued_at=timezone.now() - timedelta(hours=2))
    rebuild = queued(trio)
    assert scheduler.start_what_can() == []
    assert (fresh(run).status, fresh(rebuild).status) == ("running", "queued")


def test_rebuild_with_a_start_time_blocks_nothing_until_then(trio: Any) -> None:
    moment = timezone.now() + timedelta(hours=3)
    rebuild = queued(trio, not_before=moment, priority=9)
    run = make_run(make_schedule(trio[1]))
    assert scheduler.start_what_can() == []
    assert fresh(run).status == "running"
    assert f"{moment:%Y-%m-%d %H:%M} UTC" in fresh(rebuild).waiting_for


def test_rebuild_queued_during_a_pass_is_not_started_by_it(trio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps a row from starting is read after the row: one that was not there yet has no wishes that were missed."""
    cluster = trio[0].cluster
    others = [make_instance(f"later-{number}", cluster=cluster) for number in range(2)]
    before, moment = scheduler.unmet_conditions, timezone.now() + timedelta(hours=3)
    made: list[Rebuild] = []

    def in_between(*now: Any) -> dict[int, str]:
        if not made:
            values = {"status": Status.QUEUED, "not_before": moment}
            made.append(make_rebuild(target=others[0], source=others[1], **values))
        return before(*now)

    monkeypatch.setattr(scheduler, "unmet_conditions", in_between)
    first = queued(trio)
    assert scheduler.start_what_can() == [first.pk]
    assert fresh(made[0]).status == "queued"
    assert scheduler.start_what_can() == []
    assert f"{moment:%Y-%m-%d %H:%M} UTC" in fresh(made[0]).waiting_for


@pytest.mark.parametrize("end", [RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.MISSED, RunStatus.CANCELLED])
def test_rebuild_after_a_run_waits_for_any_end(trio: Any, end: RunStatus) -> None:
    primary = trio[0]
    run = make_run(make_schedule(primary), RunStatus.RUNNING)  # not an instance that the rebuild wants
    rebuild = queued(trio, start_after_run=run)
    assert scheduler.start_what_can() == []
    assert names(fresh(rebuild).waiting_for, f"backup run {run.pk}")
    BackupRun.objects.update(status=end)
    assert scheduler.start_what_can() == [rebuild.pk]
    assert names(RebuildEvent.objects.latest("pk").text, f"backup run {run.pk}", end)


@pytest.mark.parametrize("how", ["finish", "give up", "cancel", "expire"])
def test_stopped_backup_is_queued_again_after_any_end(trio: Any, how: str) -> None:
    schedule = make_schedule(trio[1])
    status = {"finish": Status.RUNNING, "give up": Status.LOST}.get(how, Status.QUEUED)
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=status, requeue_schedule=schedule)
    if how == "finish":
        lease = rebuild_driver.take_lease(rebuild.pk)
        assert lease is not None
        rebuild_driver.finish(lease, Status.FAILED, "it failed")
    elif how == "give up":
        assert cleanups.force_fail(rebuild, "olga")
    else:
        end = Status.CANCELLED if how == "cancel" else Status.EXPIRED
        assert rebuild_requests.end_queued(rebuild, end, "ended")
    run = BackupRun.objects.get()
    assert (run.schedule, run.status, run.due_at) == (schedule, "queued", None)
    assert any(names(event.text, schedule.name, f"backup run {run.pk}") for event in rebuild.events.all())
    run_again(rebuild)
    assert BackupRun.objects.count() == 1


def test_stopped_backup_is_not_queued_twice_or_for_external_schedules(trio: Any) -> None:
    schedule = make_schedule(trio[1])
    waiting = make_run(schedule)
    rebuild = queued(trio, requeue_schedule=schedule)
    rebuild_requests.end_queued(rebuild, Status.CANCELLED, "ended")
    assert list(BackupRun.objects.all()) == [waiting]
    other = queued(trio, requeue_schedule=make_schedule(trio[1], "theirs", run_by="external"))
    rebuild_requests.end_queued(other, Status.CANCELLED, "ended")
    assert BackupRun.objects.count() == 1


def maintain(source: Instance) -> str:
    Maintenance.objects.create(cluster=source.cluster, starts_at=timezone.now(), reason="new disks")
    return "maintenance of shop: new disks"


def dump(source: Instance) -> str:
    values = {"origin": RunOrigin.OBSERVED, "schedule": None}
    run = BackupRun.objects.create(
        uid="of-others",
        instance=source,
        status=RunStatus.RUNNING,
        method="physical",
        started_at=timezone.now(),
        **values,
    )
    return f"external backup run {run.pk} of backup-1"


@pytest.mark.parametrize("begin", [maintain, dump])
def test_run_that_begins_after_the_decision_prevents_a_start(
    trio: Any, monkeypatch: pytest.MonkeyPatch, begin: Any
) -> None:
    rebuild, reasons = queued(trio), []

    def decides(*given: Any, **more: Any) -> Any:
        if not reasons:
            reasons.append(begin(trio[1]))
        return decide(*given, **more)

    monkeypatch.setattr("dbops.worker.scheduler.decide", decides)
    assert scheduler.start_what_can() == []
    waits = fresh(rebuild)
    assert (waits.status, waits.waiting_for, waits.started_at) == ("queued", reasons[0], None)
    assert not Hold.objects.exists()
    assert not rebuild.events.filter(text__startswith="Started").exists()
    Maintenance.objects.all().delete()
    BackupRun.objects.all().delete()
    assert scheduler.start_what_can() == [rebuild.pk]


def fill(count: int, sources: int) -> None:
    """Queue so many rebuilds over so many sources, each held by a backup that runs."""
    cluster = make_cluster("large")
    make_operator("otto")
    held = [make_instance(f"source-{number}", cluster=cluster) for number in range(sources)]
    for source in held:
        make_run(make_schedule(source, source.name), RunStatus.RUNNING)
    for number in range(count):
        target = make_instance(f"target-{number}", cluster=cluster)
        make_rebuild(target=target, source=held[number % sources], status=Status.QUEUED)


def queries_of_a_pass() -> int:
    with CaptureQueriesContext(connection) as queries:
        assert scheduler.start_what_can() == []
    return len(queries)


@pytest.mark.parametrize(("count", "sources"), [(3, 2), (40, 8)])
def test_scheduler_pass_takes_eleven_queries(db: None, count: int, sources: int) -> None:
    fill(count, sources)
    scheduler.start_what_can()
    assert queries_of_a_pass() == 11


def test_reasons_are_written_in_bulk_and_logged_once(db: None) -> None:
    fill(30, 2)
    first = queries_of_a_pass()
    assert first == 11 + 5  # a savepoint and its end, the rows as they are, the reasons, the lines of the histories
    assert queries_of_a_pass() == 11
    assert RebuildEvent.objects.filter(text__startswith="Waiting:").count() == 30
    assert set(Rebuild.objects.values_list("revision", flat=True)) == {2}


def test_older_view_replaces_no_newer_reason(trio: Any) -> None:
    rebuild = queued(trio, waiting_for="newest")
    starts.write_waits(Rebuild, {rebuild.pk: ("old", "older view")})
    assert fresh(rebuild).waiting_for == "newest"
    assert not rebuild.events.exists()
