"""Workers and beat report that they live, seldom, and fail for nothing."""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dbops.celery import app
from dbops.models import ProcessHeartbeat
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


def test_tick_reports_beat(tmp_path: Path) -> None:
    assert app.conf.beat_scheduler == "dbops.worker.heartbeats:ReportingScheduler"
    scheduler = heartbeats.ReportingScheduler(app=app, lazy=True, schedule_filename=str(tmp_path / "schedule"))
    scheduler._store = {"entries": {}}  # nothing is due
    assert scheduler.tick() == scheduler.max_interval
    scheduler._store = None
    assert ProcessHeartbeat.objects.get().name == "beat"


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
