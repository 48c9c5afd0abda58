"""The plan page compares methods; a request by archive reads the backup that was shown."""

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.methods import METHODS
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs, starts
from dbops.models import AuditEntry, BackupRun, BackupSchedule, Instance, InstanceState, Rebuild
from dbops.operations.rebuilds import plan_rebuild
from tests.app import rows
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import GIB

from .marks import marks, part
from .test_plan import ADDRESS, form

pytestmark = pytest.mark.django_db


def test_page_compares_every_method_and_plans_the_chosen_one(operator: Client, viewer: Client) -> None:
    fleet = rows.make_fleet()
    answer = viewer.get(ADDRESS)
    text = answer.content.decode()
    assert marks(text, "method") == list(METHODS)
    why_not = {choice.compared.method: choice.compared.why_not for choice in answer.context["methods"]}
    for method, named in (("archive", "backup-1"), ("clone", "MariaDB")):
        row = part(text, f'data-method="{method}"', "</tr>")
        assert marks(row, "possible") == ["no"]
        assert named in why_not[method][0]
        assert escape(why_not[method][0][:190]) in row
    finished(fleet["backup-1"])
    page = operator.get(f"{ADDRESS}?method=archive").content.decode()
    assert 'name="method" value="archive"' in page
    assert "/backups/backup-1.xbstream.zst" in page
    assert 'href="/instances/replica-1/rebuild/?source=backup-1&amp;method=archive' in page
    assert operator.get(f"{ADDRESS}?method=telepathy").status_code == 200


def test_request_by_archive_reads_the_backup_that_was_shown(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    fleet = rows.make_fleet()
    run = finished(fleet["backup-1"])
    able_to_unpack(fleet)
    shown = plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], method="archive")
    assert shown.refusals == ()
    answer = operator.post(ADDRESS, form(shown, method="archive"))
    assert answer.status_code == 302
    rebuild = Rebuild.objects.get()
    assert (rebuild.method, rebuild.plan["archive"]["run"]) == ("archive", run.pk)
    assert backup_runs.runs_being_read() == {run.pk}
    entry = AuditEntry.objects.get(action="rebuild.requested")
    assert (entry.detail["method"], entry.detail["backup_run"]) == ("archive", run.pk)
    assert [instance.name for instance, _ in starts.claims_of(rebuild)] == ["replica-1"]  # the source is not held


def test_request_is_refused_when_a_newer_backup_than_the_shown_one_exists(operator: Client) -> None:
    fleet = rows.make_fleet()
    finished(fleet["backup-1"])
    able_to_unpack(fleet)
    shown = plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], method="archive")
    finished(fleet["backup-1"], path="/backups/backup-1-newer.xbstream.zst")
    answer = operator.post(ADDRESS, form(shown, method="archive"))
    assert answer.status_code == 409
    assert answer.context["refused"].code == "plan.stale"
    assert not Rebuild.objects.exists()


def finished(instance: Instance, path: str = "/backups/backup-1.xbstream.zst") -> BackupRun:
    """Return a physical backup as dbops leaves it."""
    schedule = BackupSchedule.objects.filter(instance=instance).first() or make_schedule(instance)
    evidence = {
        "server": "mariadb 10.11.19",
        "bytes": GIB,
        "sha256": "ab" * 32,
        "position": {"gtid": "0-11-1"},
        "run": "00112233445566aa",
    }
    return make_run(
        schedule, RunStatus.SUCCEEDED, finished_at=timezone.now(), path=path, bytes_written=GIB, evidence=evidence
    )


def able_to_unpack(fleet: dict[str, Instance]) -> None:
    """Let the target's host have zstd, and the primary all its binary logs."""
    for name in ("replica-1", "primary-1"):
        record = InstanceState.objects.get(instance=fleet[name]).record
        record["host"]["tools"]["zstd"] = {"path": "/usr/bin/zstd", "version": None}
        record["server"]["gtid_purged"] = ""
        InstanceState.objects.filter(instance=fleet[name]).update(record=record)
