"""Restore tests on pages, and who may start one there."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.restore_tests.due import RestoreState
from dbops.engine.states import RunStatus
from dbops.models import BackupRun, BackupSchedule, RestoreTest
from dbops.queries.restore_tests import restores
from tests.app import rows
from tests.app.played_backups import Played
from tests.app.restore_test_rows import ended_restore_test, made

from .marks import marks, part

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(schedule: BackupSchedule) -> BackupRun:
    return made(schedule)


def state(run: BackupRun) -> RestoreState:
    [one] = restores(timezone.now())[run.instance.cluster_id]
    return one.state


def test_state_of_a_restore_follows_its_last_restore_test_and_its_age(
    played: Played, run: BackupRun, settings: Any
) -> None:
    assert state(run) == RestoreState.NEVER
    restore_test = ended_restore_test(run, RunStatus.SUCCEEDED)
    assert state(run) == RestoreState.TESTED
    RestoreTest.objects.update(finished_at=timezone.now() - timedelta(days=30))
    assert state(run) == RestoreState.OLD
    ended_restore_test(run, RunStatus.FAILED, error={"code": "restore_test.damaged"})
    assert state(run) == RestoreState.FAILED
    RestoreTest.objects.filter(pk=restore_test.pk).update(finished_at=timezone.now())
    assert state(run) == RestoreState.TESTED
    RestoreTest.objects.all().delete()
    settings.RESTORE_TEST_INTERVAL_SECONDS = 0
    assert restores(timezone.now()) == {}


@pytest.mark.parametrize(
    "code", ["restore_test.transport", "restore_test.no_host", "restore_test.vanished", "ssh.unreachable"]
)
def test_state_ignores_a_restore_test_that_did_not_judge_its_backup(played: Played, run: BackupRun, code: str) -> None:
    ended_restore_test(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == RestoreState.NEVER
    good = ended_restore_test(run, RunStatus.SUCCEEDED)
    ended_restore_test(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == RestoreState.TESTED
    RestoreTest.objects.filter(pk=good.pk).update(finished_at=timezone.now() - timedelta(days=30))
    assert state(run) == RestoreState.OLD
    ended_restore_test(run, RunStatus.FAILED, error={"code": "restore_test.damaged"})
    ended_restore_test(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == RestoreState.FAILED
    RestoreTest.objects.filter(error__code="restore_test.damaged").update(error={})
    assert state(run) == RestoreState.FAILED, "an error without a code counts"


@pytest.fixture
def look(db: None) -> Any:
    """Return a client of a person by name."""

    def of(name: str) -> Client:
        client = Client()
        client.force_login(rows.User.objects.get(username=name))
        return client

    return of


def test_operator_starts_and_stops_a_restore_test_from_the_page(played: Played, run: BackupRun, look: Any) -> None:
    client, page = look("olga"), f"/backups/runs/{run.pk}/"
    assert f'action="{page}restore-test/"' in client.get(page).content.decode()
    assert client.get(f"{page}restore-test/").status_code == 405
    for _ in range(2):
        assert client.post(f"{page}restore-test/").status_code == 302
    restore_test = RestoreTest.objects.get()
    text = client.get(page).content.decode()
    assert f'action="{page}restore-test/"' not in text
    assert f'hx-get="{page}' in text  # it follows the restore test
    stop = f"/backups/restore-tests/{restore_test.pk}/stop/"
    assert stop in text
    assert 'name="reason"' in client.get(stop).content.decode()
    assert client.post(stop, {"reason": ""}).status_code == 409
    assert client.post(stop, {"reason": "a rebuild"}).status_code == 302
    restore_test.refresh_from_db()
    assert (restore_test.status, restore_test.cancel_requested_by) == ("cancelled", "olga")
    assert client.get("/backups/restore-tests/999/stop/").status_code == 404


def test_viewer_sees_a_restore_test_and_cannot_start_or_stop_one(
    played: Played, run: BackupRun, viewer: Client, stranger: Client
) -> None:
    restore_test = ended_restore_test(
        run,
        RunStatus.SUCCEEDED,
        tables_checked=12,
        rows_counted=30,
        steps=[{"name": "unpack", "state": "done", "seconds": 2.0, "bytes": 4 * 1024**2}],
        result={"warnings": ["shop.<b>orders</b>: 1"], "tables": []},
    )
    text = viewer.get(f"/backups/runs/{run.pk}/").content.decode()
    assert "2.0 MiB/s" in part(text, 'data-step="unpack"', "</tr>")
    assert re.findall(r'data-figure="tables">(\d+)<', text) == ["12"]
    assert "shop.&lt;b&gt;orders" in text
    assert f'action="/backups/runs/{run.pk}/restore-test/"' not in text
    for client in (viewer, stranger):
        assert client.post(f"/backups/runs/{run.pk}/restore-test/").status_code == 403
        assert client.post(f"/backups/restore-tests/{restore_test.pk}/stop/", {"reason": "no"}).status_code == 403
    assert RestoreTest.objects.count() == 1


def test_fleet_and_availability_pages_show_the_state_of_restores(
    played: Played, run: BackupRun, viewer: Client
) -> None:
    name = run.instance.cluster.name
    assert marks(viewer.get("/").content.decode(), "restore") == [RestoreState.NEVER]
    ended_restore_test(run, RunStatus.FAILED, error={"code": "restore_test.damaged"})
    fleet = viewer.get("/").content.decode()
    assert marks(fleet, "restore") == [RestoreState.FAILED]
    assert f'href="/backups/runs/{run.pk}/#restore-tests"' in fleet
    page = viewer.get(f"/availability/{name}/").content.decode()
    restores_shown = part(page, 'id="restores-title"', "</section>")
    assert "state-failed" in restores_shown
    assert f'href="/backups/runs/{run.pk}/#restore-tests"' in restores_shown
    found = viewer.get(f"/availability/{name}/?format=json").json()["restores"]
    assert [(one["state"], one["backup_run"]) for one in found] == [("failed", run.pk)]
    month = f"{timezone.now():%Y-%m}"
    for address in (f"/availability/report/{month}/", f"/availability/report/{month}/{name}/"):
        assert marks(viewer.get(address).content.decode(), "restore") == [RestoreState.FAILED]
    RestoreTest.objects.all().delete()
    ended_restore_test(run, RunStatus.SUCCEEDED)
    assert marks(viewer.get("/").content.decode(), "restore") == [RestoreState.TESTED]
