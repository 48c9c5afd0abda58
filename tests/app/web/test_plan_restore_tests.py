"""A rebuild from a finished backup, where proofs say something of the backups that there are: rows, page, click and start."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.backup_states import RunStatus
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight.live_check import differences
from dbops.engine.rebuilds.steps.preflight.resume_check import differences_for_retry
from dbops.loaders.plan_inputs import proofs_in
from dbops.models import BackupProof, BackupRun, Instance, Rebuild
from dbops.operations.rebuilds import plan_rebuild
from dbops.operations.start_options import offer
from dbops.worker import prober
from tests.app import rows
from tests.app.restore_test_rows import ended_proof

from .test_plan import ADDRESS, form
from .test_plan_methods import able_to_unpack, finished

pytestmark = pytest.mark.django_db

BAD = {"code": "proof.tables", "found": "bad lines of CHECK TABLE: 1, the first: shop.orders"}


@pytest.fixture
def fleet() -> dict[str, Instance]:
    found = rows.make_fleet()
    able_to_unpack(found)
    return found


@pytest.fixture
def old(fleet: dict[str, Instance]) -> BackupRun:
    run = finished(fleet["backup-1"], path="/backups/backup-1-old.xbstream.zst")
    BackupRun.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=1))
    return run


@pytest.fixture
def new(fleet: dict[str, Instance], old: BackupRun) -> BackupRun:
    return finished(fleet["backup-1"], path="/backups/backup-1-new.xbstream.zst")


def planned(fleet: dict[str, Instance]) -> Plan:
    return plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], method="archive")


def read_by(plan: Plan) -> int:
    assert plan.archive is not None
    return plan.archive.run


def bad(run: BackupRun, **values: Any) -> BackupProof:
    return ended_proof(run, RunStatus.FAILED, **{"error": BAD, **values})


def test_the_page_names_the_newer_backup_that_is_not_read(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    assert read_by(planned(fleet)) == new.pk
    bad(new)
    assert read_by(planned(fleet)) == old.pk
    page = operator.get(f"{ADDRESS}?method=archive").content.decode()
    assert "/backups/backup-1-old.xbstream.zst" in page
    assert f"Backup run {new.pk} of " in page
    assert "bad lines of CHECK TABLE: 1, the first: shop.orders (proof.tables)." in page
    assert f"No proof has told yet whether backup run {old.pk} can be restored." in page


def test_a_later_proof_that_succeeds_makes_it_good_again(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    bad(new)
    ended_proof(new, RunStatus.SUCCEEDED)
    assert read_by(planned(fleet)) == new.pk


def test_which_proofs_count(fleet: dict[str, Instance], new: BackupRun) -> None:
    cluster = fleet["backup-1"].cluster_id
    ended_proof(new, RunStatus.CANCELLED)
    ended_proof(new, RunStatus.RUNNING, finished_at=None)
    ended_proof(new, RunStatus.FAILED, error={"code": "proof.space"})
    assert proofs_in(cluster) == {}
    bad(new)
    assert {run: end.code for run, end in proofs_in(cluster).items()} == {new.pk: "proof.tables"}
    BackupRun.objects.filter(pk=new.pk).update(removed_at=timezone.now())
    assert proofs_in(cluster) == {}


def test_where_all_are_bad_nothing_can_start_and_nothing_is_asked_for(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    shown = planned(fleet)
    assert offer(target=fleet["replica-1"], source=fleet["backup-1"], method="archive").verdict.blockers == ()
    bad(old)
    bad(new)
    assert [finding.code for finding in planned(fleet).refusals] == ["archive.proof"]
    verdict = offer(target=fleet["replica-1"], source=fleet["backup-1"], method="archive").verdict
    assert "There is no complete physical backup of backup-1 to read." in [one.text for one in verdict.blockers]
    assert operator.post(ADDRESS, form(shown, method="archive")).status_code == 409
    assert not Rebuild.objects.exists()


def test_a_proof_between_the_page_and_the_click_is_confirmed_anew(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    shown = planned(fleet)
    bad(new)
    assert operator.post(ADDRESS, form(shown, method="archive")).status_code == 409
    assert not Rebuild.objects.exists()


@pytest.fixture
def seen_now(fleet: dict[str, Instance], monkeypatch: pytest.MonkeyPatch) -> Callable[[Plan], Plan]:
    """Return what is planned anew from a frozen plan; the hosts are as they were."""
    monkeypatch.setattr(prober, "probe_all", lambda wanted, **_: len(wanted))
    return lambda before: prober.replan(fleet["replica-1"], fleet["backup-1"], before)


def test_a_proof_between_the_click_and_the_start_is_met_by_the_live_check(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun, seen_now: Callable[[Plan], Plan]
) -> None:
    frozen = planned(fleet)
    assert differences(frozen, seen_now(frozen)) == []
    bad(new)
    [difference] = differences(frozen, seen_now(frozen))
    assert f"Backup run {new.pk}: its proof of " in difference
    older = planned(fleet)
    assert read_by(older) == old.pk
    assert differences(older, seen_now(older)) == []
    bad(old)
    assert len(differences(older, seen_now(older))) == 1
    ended_proof(new, RunStatus.SUCCEEDED)
    assert differences(frozen, seen_now(frozen)) == []


def test_what_a_proof_found_is_true_of_the_copy_also_when_the_file_is_gone(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun, seen_now: Callable[[Plan], Plan]
) -> None:
    frozen = planned(fleet)
    bad(new)
    BackupRun.objects.filter(pk=new.pk).update(removed_at=timezone.now())
    found = differences_for_retry(frozen, seen_now(frozen))
    assert any(f"Backup run {new.pk}: its proof of " in difference for difference in found)
