"""A rebuild from a finished backup, whose plan shows the restore tests of the backups: rows, page, click and start."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight.live_check import differences
from dbops.engine.rebuilds.steps.preflight.resume_check import differences_for_resume
from dbops.engine.schedule.blocker import BlockerKind
from dbops.engine.states import RunStatus, Severity
from dbops.loaders.plan_inputs import restore_tests_in
from dbops.models import BackupRun, Instance, Rebuild, RestoreTest
from dbops.operations.rebuilds import plan_rebuild
from dbops.operations.start_options import offered_start_options
from dbops.worker import prober
from tests.app import rows
from tests.app.restore_test_rows import ended_restore_test

from .marks import part
from .test_plan import ADDRESS, form
from .test_plan_methods import able_to_unpack, finished

pytestmark = pytest.mark.django_db

BAD = {"code": "restore_test.tables", "cause": "shop.orders: corrupt"}


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


def bad(run: BackupRun, **values: Any) -> RestoreTest:
    return ended_restore_test(run, RunStatus.FAILED, **{"error": BAD, **values})


def test_page_names_the_newer_backup_that_is_not_read(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    assert read_by(planned(fleet)) == new.pk
    bad(new)
    assert read_by(planned(fleet)) == old.pk
    answer = operator.get(f"{ADDRESS}?method=archive")
    page = answer.content.decode()
    assert "/backups/backup-1-old.xbstream.zst" in page
    found = {one.code: one for one in answer.context["plan"].findings}
    newer, read = found["archive.passed_over"], found["archive.restore_test"]
    assert (newer.severity, read.severity) == (Severity.WARNING, Severity.OK)
    assert {str(new.pk), str(old.pk)} < set(re.findall(r"\d+", newer.seen))
    assert "shop.orders" in newer.seen
    assert "restore_test.tables" in newer.seen
    assert re.findall(r"\d+", read.seen) == [str(old.pk)]
    for one in (newer, read):
        assert escape(one.seen) in part(page, f'data-finding="{one.code}"', "</li>")


def test_backup_is_read_again_after_a_later_restore_test_that_succeeds(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    bad(new)
    ended_restore_test(new, RunStatus.SUCCEEDED)
    assert read_by(planned(fleet)) == new.pk


def test_only_the_last_restore_test_that_judged_a_backup_counts(fleet: dict[str, Instance], new: BackupRun) -> None:
    cluster = fleet["backup-1"].cluster_id
    ended_restore_test(new, RunStatus.CANCELLED)
    ended_restore_test(new, RunStatus.RUNNING, finished_at=None)
    ended_restore_test(new, RunStatus.FAILED, error={"code": "restore_test.space"})
    assert restore_tests_in(cluster) == {}
    bad(new)
    assert {run: end.code for run, end in restore_tests_in(cluster).items()} == {new.pk: "restore_test.tables"}
    BackupRun.objects.filter(pk=new.pk).update(removed_at=timezone.now())
    assert restore_tests_in(cluster) == {}


def test_plan_is_refused_when_every_backup_is_bad(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    shown = planned(fleet)
    assert (
        offered_start_options(
            target=fleet["replica-1"], source=fleet["backup-1"], method="archive"
        ).eligibility.blockers
        == ()
    )
    bad(old)
    bad(new)
    assert [finding.code for finding in planned(fleet).refusals] == ["archive.restore_test"]
    found = offered_start_options(target=fleet["replica-1"], source=fleet["backup-1"], method="archive").eligibility
    assert (BlockerKind.NO_COPY, "backup-1") in [(one.kind, one.instance) for one in found.blockers]
    assert operator.post(ADDRESS, form(shown, method="archive")).status_code == 409
    assert not Rebuild.objects.exists()


def test_request_is_refused_when_a_restore_test_fails_after_the_page_was_shown(
    operator: Client, fleet: dict[str, Instance], old: BackupRun, new: BackupRun
) -> None:
    shown = planned(fleet)
    bad(new)
    assert operator.post(ADDRESS, form(shown, method="archive")).status_code == 409
    assert not Rebuild.objects.exists()


def names(difference: str, run: BackupRun) -> bool:
    """Tell whether a difference names a backup run and what its restore test found."""
    return str(run.pk) in re.findall(r"\d+", difference) and BAD["code"] in difference


@pytest.fixture
def seen_now(fleet: dict[str, Instance], monkeypatch: pytest.MonkeyPatch) -> Callable[[Plan], Plan]:
    """Return a new plan from a frozen one; the hosts are unchanged."""
    monkeypatch.setattr(prober, "probe_all", lambda wanted, **_: len(wanted))
    return lambda before: prober.replan(fleet["replica-1"], fleet["backup-1"], before)


def test_live_check_finds_a_restore_test_that_failed_after_the_request(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun, seen_now: Callable[[Plan], Plan]
) -> None:
    frozen = planned(fleet)
    assert differences(frozen, seen_now(frozen)) == []
    bad(new)
    [difference] = differences(frozen, seen_now(frozen))
    assert names(difference, new)
    older = planned(fleet)
    assert read_by(older) == old.pk
    assert differences(older, seen_now(older)) == []
    bad(old)
    assert len(differences(older, seen_now(older))) == 1
    ended_restore_test(new, RunStatus.SUCCEEDED)
    assert differences(frozen, seen_now(frozen)) == []


def test_retry_check_finds_a_failed_restore_test_when_the_file_is_gone(
    fleet: dict[str, Instance], old: BackupRun, new: BackupRun, seen_now: Callable[[Plan], Plan]
) -> None:
    frozen = planned(fleet)
    bad(new)
    BackupRun.objects.filter(pk=new.pk).update(removed_at=timezone.now())
    found = differences_for_resume(frozen, seen_now(frozen))
    assert any(names(difference, new) for difference in found)
