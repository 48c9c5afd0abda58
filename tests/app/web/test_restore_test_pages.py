"""What pages say of proofs, and who may ask for one there."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.backup_states import RunStatus
from dbops.models import BackupProof, BackupRun, BackupSchedule
from dbops.queries.restore_tests import restores
from tests.app import rows
from tests.app.played_backups import Played
from tests.app.restore_test_rows import ended_proof, made

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(schedule: BackupSchedule) -> BackupRun:
    return made(schedule)


def state(run: BackupRun) -> str:
    [one] = restores(timezone.now())[run.instance.cluster_id]
    return str(one.state)


def test_the_age_of_a_restore(played: Played, run: BackupRun, settings: Any) -> None:
    assert state(run) == "never proven"
    proof = ended_proof(run, RunStatus.SUCCEEDED)
    assert state(run) == "proven"
    BackupProof.objects.update(finished_at=timezone.now() - timedelta(days=30))
    assert state(run) == "too old"
    ended_proof(run, RunStatus.FAILED, error={"code": "proof.damaged"})
    assert state(run) == "failed"
    BackupProof.objects.filter(pk=proof.pk).update(finished_at=timezone.now())
    assert state(run) == "proven"
    BackupProof.objects.all().delete()
    settings.PROOF_INTERVAL_SECONDS = 0
    assert restores(timezone.now()) == {}


@pytest.mark.parametrize("code", ["proof.transport", "proof.no_host", "proof.vanished", "ssh.unreachable"])
def test_a_proof_that_says_nothing_of_its_backup_is_no_failed_restore(
    played: Played, run: BackupRun, code: str
) -> None:
    ended_proof(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == "never proven"
    good = ended_proof(run, RunStatus.SUCCEEDED)
    ended_proof(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == "proven"
    BackupProof.objects.filter(pk=good.pk).update(finished_at=timezone.now() - timedelta(days=30))
    assert state(run) == "too old"
    ended_proof(run, RunStatus.FAILED, error={"code": "proof.damaged"})
    ended_proof(run, RunStatus.FAILED, error={"code": code})
    assert state(run) == "failed"
    BackupProof.objects.filter(error__code="proof.damaged").update(error={})
    assert state(run) == "failed", "an end without a code is no reason to look away"


@pytest.fixture
def look(db: None) -> Any:
    """Return a client of a person by name."""

    def of(name: str) -> Client:
        client = Client()
        client.force_login(rows.User.objects.get(username=name))
        return client

    return of


def test_an_operator_proves_a_backup_from_its_page(played: Played, run: BackupRun, look: Any) -> None:
    client, page = look("olga"), f"/backups/runs/{run.pk}/"
    assert "Prove this backup" in client.get(page).content.decode()
    assert client.get(f"{page}prove/").status_code == 405
    for _ in range(2):
        assert client.post(f"{page}prove/").status_code == 302
    proof = BackupProof.objects.get()
    text = client.get(page).content.decode()
    assert "Prove this backup" not in text
    assert f'hx-get="{page}' in text  # it follows the proof
    stop = f"/backups/proofs/{proof.pk}/stop/"
    assert stop in text
    assert "Stop the proof" in client.get(stop).content.decode()
    assert client.post(stop, {"reason": ""}).status_code == 409
    assert client.post(stop, {"reason": "a rebuild"}).status_code == 302
    proof.refresh_from_db()
    assert (proof.status, proof.cancel_requested_by) == ("cancelled", "olga")
    assert client.get("/backups/proofs/999/stop/").status_code == 404


def test_a_viewer_sees_it_and_may_not(played: Played, run: BackupRun, viewer: Client, stranger: Client) -> None:
    proof = ended_proof(
        run,
        RunStatus.SUCCEEDED,
        tables_checked=12,
        rows_counted=30,
        steps=[{"name": "unpack", "state": "done", "seconds": 2.0, "bytes": 4 * 1024**2}],
        result={"warnings": ["shop.<b>orders</b> has 1 rows"], "tables": []},
    )
    text = viewer.get(f"/backups/runs/{run.pk}/").content.decode()
    for words in ("Decompress and unpack", "2.0 MiB/s", "12</strong> tables", "shop.&lt;b&gt;orders"):
        assert words in text, words
    assert "Prove this backup" not in text
    for client in (viewer, stranger):
        assert client.post(f"/backups/runs/{run.pk}/prove/").status_code == 403
        assert client.post(f"/backups/proofs/{proof.pk}/stop/", {"reason": "no"}).status_code == 403
    assert BackupProof.objects.count() == 1


def test_fleet_page_and_availability_say_so(played: Played, run: BackupRun, viewer: Client) -> None:
    name = run.instance.cluster.name
    assert "restore never proven" in viewer.get("/").content.decode()
    ended_proof(run, RunStatus.FAILED, error={"code": "proof.damaged"})
    fleet = viewer.get("/").content.decode()
    assert "restore failed" in fleet
    assert f'href="/backups/runs/{run.pk}/#proofs"' in fleet
    page = viewer.get(f"/availability/{name}/").content.decode()
    assert "Restore age" in page
    assert f"backup run {run.pk}" in page
    told = viewer.get(f"/availability/{name}/?format=json").json()["restores"]
    assert [(one["state"], one["backup_run"]) for one in told] == [("failed", run.pk)]
    month = f"{timezone.now():%Y-%m}"
    for address in (f"/availability/report/{month}/", f"/availability/report/{month}/{name}/"):
        assert "Restore age" in viewer.get(address).content.decode()
    BackupProof.objects.all().delete()
    ended_proof(run, RunStatus.SUCCEEDED)
    assert "restore proven" in viewer.get("/").content.decode()
