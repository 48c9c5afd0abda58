"""The page of a backup run: complete without JavaScript, polled by revision, and its end by a person."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.states import RunOrigin, RunStatus
from dbops.lifecycle import external_runs
from dbops.models import AuditEntry, BackupEvent, BackupRun
from dbops.web.templatetags.dbops import machine_time, words
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_trio
from tests.app.lifecycle import test_external_runs as observed

pytestmark = pytest.mark.django_db
EVENT, OUTCOME, WHY = "Runs on <b>backup-1</b>", "Published as /backups/x.", "its machine crashed"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)


def make(status: RunStatus = RunStatus.RUNNING, **values: Any) -> BackupRun:
    run = make_run(make_schedule(make_trio()[1]), status, **values)
    BackupEvent.objects.create(run=run, at=timezone.now(), level="info", text=EVENT)
    return run


def url(run: BackupRun, more: str = "") -> str:
    return f"/backups/runs/{run.pk}/{more}"


def test_run_page_shows_progress_and_history(viewer: Client) -> None:
    progress = {"percent": 42.5, "rate_bytes_per_second": 12_000_000, "eta_seconds": 125}
    run = make(progress=progress, bytes_written=3 * 1024**2, flags=["late"], path="/backups/.x.partial")
    page = viewer.get(url(run)).content.decode()
    for text in ("running", "late", "42.5 %", "11 MiB/s", "2 min 05 s", "3.00 MiB", "/backups/.x.partial"):
        assert text in page, text
    assert escape(EVENT) in page
    assert 'id="stop-link"' not in page  # a viewer may not


def test_run_page_shows_the_end_with_evidence(viewer: Client) -> None:
    evidence = {
        "sha256": "ab" * 32,
        "position": {"gtid": "0-1-99", "log_file": "b.1"},
        "tool": "mariadb-backup 10.11.19",
        "write_lock_seconds": 12.5,
    }
    run = make(
        RunStatus.SUCCEEDED,
        evidence=evidence,
        outcome=OUTCOME,
        finished_at=timezone.now(),
        removed_at=timezone.now() + timedelta(days=7),
    )
    page = viewer.get(url(run)).content.decode()
    removed = f'datetime="{machine_time(run.removed_at)}"'
    for text in ("ab" * 32, "0-1-99", "mariadb-backup 10.11.19", "12.5 s", OUTCOME, removed):
        assert text in page, text
    assert f'hx-get="{url(run)}' not in page  # an ended run is not asked about again


def test_run_page_shows_the_error_and_its_next_step(viewer: Client) -> None:
    error = {
        "code": "backup.refused",
        "who": "operator",
        "operation": "Looking",
        "cause": "zstd is missing",
        "state": "",
        "next_step": "Install it.",
    }
    page = viewer.get(url(make(RunStatus.FAILED, error=error))).content.decode()
    assert "backup.refused" in page
    assert error["next_step"] in page


def test_run_poll_returns_parts_or_204(viewer: Client) -> None:
    run = make(revision=7)
    same = viewer.get(url(run, "?revision=7"), headers={"HX-Request": "true"})
    news = viewer.get(url(run, "?revision=6"), headers={"HX-Request": "true"})
    assert (same.status_code, news.status_code) == (204, 200)
    assert b"<html" not in news.content
    assert b"revision=7" in news.content


def test_run_page_takes_a_fixed_number_of_queries(viewer: Client) -> None:
    run = make()
    with CaptureQueriesContext(connection) as few:
        viewer.get(url(run))
    BackupEvent.objects.bulk_create(
        BackupEvent(run=run, at=timezone.now(), level="info", text=f"line {number}") for number in range(400)
    )
    with CaptureQueriesContext(connection) as many:
        page = viewer.get(url(run)).content.decode()
    assert len(many) == len(few) <= 7
    assert "line 399" in page
    assert "line 50<" not in page


def test_run_is_stopped_by_an_operator_with_a_reason(operator: Client) -> None:
    run = make()
    assert 'id="stop-link"' in operator.get(url(run)).content.decode()
    assert 'name="reason"' in operator.get(url(run, "stop/")).content.decode()
    assert operator.post(url(run, "stop/"), {"reason": ""}).status_code == 409
    assert operator.post(url(run, "stop/"), {"reason": "a rebuild"}, follow=True).status_code == 200
    run.refresh_from_db()
    assert (run.cancel_requested_by, run.status) == ("olga", "running")
    assert AuditEntry.objects.get().action == "backup.stop_requested"


def test_lost_run_is_force_failed_without_its_host(operator: Client) -> None:
    run = make(RunStatus.LOST, unreachable_since=timezone.now() - timedelta(minutes=5))
    page = operator.get(url(run)).content.decode()
    assert f'datetime="{machine_time(run.unreachable_since)}"' in page
    assert 'id="force-fail-link"' in page
    operator.post(url(run, "force-fail/"), {"reason": WHY})
    run.refresh_from_db()
    assert run.status == "failed"


def test_backup_run_pages_need_permission(viewer: Client, stranger: Client, client: Client) -> None:
    run = make()
    assert viewer.post(url(run, "stop/"), {"reason": "because"}).status_code == 403
    assert viewer.get(url(run, "force-fail/")).status_code == 403
    assert stranger.get(url(run)).status_code == 403
    assert client.get(url(run)).status_code == 302
    assert viewer.get("/backups/runs/4711/").status_code == 404


def test_other_pages_work_while_a_backup_holds_an_instance(viewer: Client) -> None:
    make()
    assert viewer.get("/").status_code == 200
    assert viewer.get("/clusters/shop/").status_code == 200
    assert viewer.get("/instances/replica-1/rebuild/").status_code == 200


def test_external_run_is_ended_by_an_operator_and_resumes_when_seen(operator: Client, viewer: Client) -> None:
    instance = make_trio()[1]
    external_runs.observe(instance, observed.facts(1, observed.dump()))
    run = BackupRun.objects.get()
    assert 'id="mark-ended-link"' in operator.get(url(run)).content.decode()
    assert 'id="mark-ended-link"' not in viewer.get(url(run)).content.decode()
    assert 'name="reason"' in operator.get(url(run, "mark-ended/")).content.decode()
    assert viewer.post(url(run, "mark-ended/"), {"reason": WHY}).status_code == 403
    assert operator.post(url(run, "mark-ended/"), {"reason": ""}).status_code == 409
    operator.post(url(run, "mark-ended/"), {"reason": WHY})
    run.refresh_from_db()
    assert (run.status, AuditEntry.objects.get().action) == (RunStatus.ENDED, "backup.marked_ended")
    assert "olga" in run.outcome
    again = operator.post(url(run, "mark-ended/"), {"reason": WHY})
    assert (again.status_code, again.context["refused"].code) == (409, "backup.ended")
    external_runs.observe(instance, observed.facts(60, observed.dump()))  # half an hour from now
    run.refresh_from_db()
    assert (run.status, BackupRun.objects.count()) == (RunStatus.RUNNING, 1)


def test_managed_run_cannot_be_marked_as_ended(operator: Client) -> None:
    run = make()
    assert run.origin == RunOrigin.MANAGED
    refused = operator.post(url(run, "mark-ended/"), {"reason": WHY})
    assert (refused.status_code, refused.context["refused"].code) == (409, "backup.ours")
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING


def test_external_run_page_shows_last_seen_and_no_plan(viewer: Client) -> None:
    run = make(origin=RunOrigin.OBSERVED, flags=["too_long"], last_seen_at=timezone.now() - timedelta(seconds=7))
    page = viewer.get(url(run)).content.decode()
    assert "data-unplanned" not in page
    assert "<progress" in page
    assert f'datetime="{machine_time(run.last_seen_at)}"' in page
    assert words("too_long") in page
    assert "too_long" not in page
    BackupRun.objects.update(status=RunStatus.ENDED, finished_at=timezone.now())
    assert "<progress" not in viewer.get(url(run)).content.decode()
    BackupRun.objects.update(origin=RunOrigin.MANAGED)
    assert "data-unplanned" in viewer.get(url(run)).content.decode()
