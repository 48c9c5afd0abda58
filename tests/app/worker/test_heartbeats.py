"""Workers and beat report that they live, seldom, and fail for nothing."""

import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dbops.celery import app
from dbops.models import AuditEntry, ClockStep, ProcessHeartbeat
from dbops.worker import heartbeats, tasks
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_process_has_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_last", {})


def test_task_reports_its_worker() -> None:
    before = timezone.now()
    for task in (tasks.drive_rebuild, tasks.drive_backup, tasks.reconcile, tasks.probe_due):
        ProcessHeartbeat.objects.all().delete()
        heartbeats._last.clear()
        task.before_start("id", (), {})
        assert ProcessHeartbeat.objects.get().name == "worker"
        assert ProcessHeartbeat.objects.get().at >= before


class Beat(heartbeats.ReportingScheduler):
    """Beat without a broker: ``sent`` has what it sends."""

    producer = None

    def __init__(self) -> None:
        self.sent: list[str] = []
        super().__init__(app=app)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:  # noqa: ARG002 - as Celery's
        self.sent.append(entry.name)


def test_tick_reports_beat_and_sends_each_hint_at_the_start() -> None:
    assert app.conf.beat_scheduler == "dbops.worker.heartbeats:ReportingScheduler"
    beat = Beat()
    assert 0 < beat.tick() <= min(entry["schedule"] for entry in app.conf.beat_schedule.values())
    assert sorted(beat.sent) == sorted(app.conf.beat_schedule)
    assert ProcessHeartbeat.objects.get().name == "beat"


@pytest.mark.parametrize("hours", [-1, 1])
def test_beat_keeps_its_intervals_when_the_clock_is_set(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    beat, passed = Beat(), [1000.0]
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: passed[0])
    beat.tick()
    wall = timezone.now() + timedelta(hours=hours)
    monkeypatch.setattr("django.utils.timezone.now", lambda: wall)
    beat.sent.clear()
    passed[0] += 1.0
    assert beat.tick() <= 1.0
    assert beat.sent == []
    passed[0] += 1.1
    beat.tick()
    assert sorted(beat.sent) == ["probe_due", "reconcile"]


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the test move the wall clock (``wall``) and the monotonic clock (``passed``)."""
    times = SimpleNamespace(wall=timezone.now(), passed=1000.0)
    monkeypatch.setattr("django.utils.timezone.now", lambda: times.wall)
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: times.passed)
    return times


@pytest.mark.parametrize("seconds", [-3600, -10, 10, 3600])
def test_step_of_the_clock_is_noted_once(times: Any, seconds: int) -> None:
    for name in ("beat", "worker"):
        heartbeats.report(name)
    times.passed += 5
    times.wall += timedelta(seconds=5 + seconds)
    for name in ("beat", "worker", "beat"):
        heartbeats.report(name)
    [step] = ClockStep.objects.all()
    assert step.seconds == pytest.approx(seconds)
    [entry] = AuditEntry.objects.filter(action="clock.stepped")
    assert entry.detail["seconds"] == round(step.seconds)
    assert {row.at for row in ProcessHeartbeat.objects.all()} == {times.wall}


@pytest.mark.parametrize("first", ["beat", "worker"])
def test_step_back_is_measured_by_who_looked_before(times: Any, first: str) -> None:
    """Also when the last heartbeat is nearly as old as the step is long."""
    for name in ("beat", "worker"):
        heartbeats.report(name)
    times.passed += 7
    times.wall += timedelta(seconds=7 - 10)
    for name in (first, "beat", "worker", "beat"):
        heartbeats.report(name)
    assert [step.seconds for step in ClockStep.objects.all()] == [pytest.approx(-10)]


def test_short_step_back_between_two_late_looks_is_noted_by_beat(times: Any) -> None:
    for name in ("beat", "worker"):
        heartbeats.report(name)
    times.passed += 12
    times.wall += timedelta(seconds=12 - 10)
    for name in ("worker", "beat", "worker"):
        heartbeats.report(name)
    assert [step.seconds for step in ClockStep.objects.all()] == [pytest.approx(-10)]


@pytest.mark.parametrize("part", ["note_step", "bring_back"])
def test_step_forward_is_noted_when_the_database_answers_again(
    times: Any, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fails(*_: Any) -> None:
        raise OperationalError("locked")

    heartbeats.report("beat")
    times.passed += 5
    times.wall += timedelta(seconds=5 + 10)
    with monkeypatch.context() as patched:
        patched.setattr(heartbeats.clock_steps, part, fails)
        heartbeats.report("beat")
    assert not ClockStep.objects.exists()
    for _ in range(2):
        times.passed += 5
        times.wall += timedelta(seconds=5)
        heartbeats.report("beat")
    assert ClockStep.objects.get().seconds == pytest.approx(10)


def test_step_back_is_noted_by_a_process_that_starts_after_it(times: Any) -> None:
    heartbeats.report("worker")
    heartbeats._last.clear()
    times.wall -= timedelta(hours=1)
    heartbeats.report("worker")
    assert ClockStep.objects.get().seconds == pytest.approx(-3600)


@pytest.mark.parametrize("seconds", [0, 1, -1])
def test_corrections_of_a_time_service_are_no_steps(times: Any, seconds: int) -> None:
    heartbeats.report("beat")
    times.passed += 6
    times.wall += timedelta(seconds=6 + seconds)
    heartbeats.report("beat")
    assert not ClockStep.objects.exists()


def test_report_of_another_process_in_between_is_no_step(times: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers have one row: the other reports while this one is about to."""
    ProcessHeartbeat.objects.create(name="worker", at=times.wall - timedelta(seconds=9))
    write = heartbeats._write

    def other_was_first(name: str, now: Any) -> bool:
        times.wall += timedelta(seconds=5)
        ProcessHeartbeat.objects.update_or_create(name=name, defaults={"at": times.wall})
        return write(name, now)

    monkeypatch.setattr(heartbeats, "_write", other_was_first)
    heartbeats.report("worker")
    assert not ClockStep.objects.exists()
    assert ProcessHeartbeat.objects.get().at == times.wall


def test_creation_by_another_process_is_no_step(times: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find_or_create = ProcessHeartbeat.objects.get_or_create

    def other_was_first(**words: Any) -> Any:
        times.wall += timedelta(milliseconds=20)
        ProcessHeartbeat.objects.create(name="worker", at=times.wall)
        return find_or_create(**words)

    monkeypatch.setattr(ProcessHeartbeat.objects, "get_or_create", other_was_first)
    heartbeats.report("worker")
    assert not ClockStep.objects.exists()


def test_slow_answer_of_the_database_is_no_step(times: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeats.report("beat")
    times.passed += 6
    times.wall += timedelta(seconds=6)

    def slow() -> Any:
        times.passed += 4
        times.wall += timedelta(seconds=4)
        return times.wall

    monkeypatch.setattr(heartbeats.clock, "now", slow)
    heartbeats.report("beat")
    assert not ClockStep.objects.exists()


def test_heartbeat_is_written_rarely(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any) -> None:
    heartbeats.report("worker")
    with django_assert_num_queries(0):
        heartbeats.report("worker")
    old = timezone.now() - timezone.timedelta(hours=1)
    ProcessHeartbeat.objects.update(at=old)
    monkeypatch.setattr(heartbeats, "GAP_SECONDS", 0.0)
    with django_assert_num_queries(1):
        heartbeats.report("worker")
    assert ProcessHeartbeat.objects.get().at > old


def test_heartbeat_logs_a_database_error_and_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(**_: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(ProcessHeartbeat.objects, "filter", fails)
    with caplog.at_level(logging.WARNING):
        heartbeats.report("worker")
    [found] = caplog.records
    assert (found.levelname, names(found.getMessage(), "worker", "gone")) == ("WARNING", True)
