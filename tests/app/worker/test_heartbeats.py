"""Workers and beat report that they live, seldom, and fail for nothing."""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dbops.celery import app
from dbops.models import Pulse
from dbops.worker import heartbeats, tasks

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_has_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_last", {})


def test_each_task_reports_its_worker() -> None:
    before = timezone.now()
    for task in (tasks.tick, tasks.back_up, tasks.reconcile, tasks.probe_due):
        Pulse.objects.all().delete()
        heartbeats._last.clear()
        task.before_start("id", (), {})
        assert Pulse.objects.get().name == "worker"
        assert Pulse.objects.get().at >= before


def test_beat_reports_with_each_tick(tmp_path: Path) -> None:
    assert app.conf.beat_scheduler == "dbops.worker.heartbeats:ReportingScheduler"
    scheduler = heartbeats.ReportingScheduler(app=app, lazy=True, schedule_filename=str(tmp_path / "schedule"))
    scheduler._store = {"entries": {}}  # nothing is due
    assert scheduler.tick() == scheduler.max_interval
    scheduler._store = None
    assert Pulse.objects.get().name == "beat"


def test_a_process_writes_seldom_and_again(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any) -> None:
    heartbeats.report("worker")
    with django_assert_num_queries(0):
        heartbeats.report("worker")
    old = timezone.now() - timezone.timedelta(hours=1)
    Pulse.objects.update(at=old)
    monkeypatch.setattr(heartbeats, "GAP_SECONDS", 0.0)
    with django_assert_num_queries(1):
        heartbeats.report("worker")
    assert Pulse.objects.get().at > old


def test_a_database_that_is_away_is_told_of_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(**_: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(Pulse.objects, "filter", fails)
    with caplog.at_level(logging.WARNING):
        heartbeats.report("worker")
    assert "reporting that worker lives: gone" in caplog.text
