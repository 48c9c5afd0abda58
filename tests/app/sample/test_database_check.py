"""A database says itself whether its history is generated, and no process takes it for the other kind."""

from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import Ignore
from django.core.management import CommandError, call_command, load_command_class
from django.db import DatabaseError
from django.test import Client

from dbops.audit.log import SYSTEM, append
from dbops.celery import app
from dbops.management.command import DbopsCommand
from dbops.models import AuditEntry, Cluster, ProcessHeartbeat
from dbops.sample import database_check
from dbops.sample.database_check import SampleGuard, database_mismatch, is_sample
from dbops.worker import heartbeats, tasks
from tests.app.factories import make_cluster, make_operator
from tests.audit_guards import unguarded

COMMANDS = Path(database_check.__file__).parents[1] / "management" / "commands"
CODE = "sample.wrong_database"


def fill() -> None:
    """Leave what ``manage.py sample`` leaves (``test_generate.py`` sees that it does)."""
    make_cluster("billing")
    append(actor=SYSTEM, action=database_check.ACTION, subject="sample", detail={})


@pytest.fixture
def filled(db: None) -> None:
    """A database with the sample, and a process that does not know it."""
    fill()


@pytest.fixture(autouse=True)
def _asked_each_time(monkeypatch: pytest.MonkeyPatch, _all_is_well: None) -> None:
    monkeypatch.setattr(SampleGuard, "is_fresh", False)


@pytest.mark.usefixtures("filled")
def test_sample_database_without_its_setting_answers_503() -> None:
    client = Client()
    client.force_login(make_operator())
    for address in ("/", "/login/", "/audit/", "/availability/report/", "/healthz/", "/nothing-here/"):
        answer = client.get(address)
        assert answer.status_code == 503, address
        assert CODE in answer.content.decode()
        assert "billing" not in answer.content.decode()
    answer = client.post("/api/v1/backup-runs/one/start", {}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, CODE)


@pytest.mark.usefixtures("filled")
def test_sample_database_is_shown_with_its_setting(settings: Any) -> None:
    settings.SAMPLE = True
    assert database_mismatch() is None
    assert Client().get("/login/").status_code == 200


@pytest.mark.django_db
def test_real_database_is_not_shown_as_sample(settings: Any) -> None:
    settings.SAMPLE = True
    assert database_mismatch() is None, "an empty one is about to be filled"
    make_cluster("real")
    found = database_mismatch()
    assert found is not None
    answer = Client().get("/login/")
    assert (found.code, answer.status_code) == ("sample.wrong_database", 503)
    assert (found.code in answer.content.decode(), "id_password" in answer.content.decode()) == (True, False)
    settings.SAMPLE = False
    assert database_mismatch() is None


@pytest.mark.django_db(transaction=True)  # taking a guard away ends MariaDB's transaction
def test_sample_mark_stays_when_its_entry_is_archived() -> None:
    fill()
    with unguarded():
        AuditEntry.objects.filter(action=database_check.ACTION).delete()
    assert is_sample()


@pytest.mark.usefixtures("filled")
def test_worker_and_beat_ignore_the_sample_database(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    for task in (tasks.drive_rebuild, tasks.probe_due):
        with pytest.raises(Ignore):
            task.before_start("id", (), {})
    assert CODE in caplog.text
    scheduler = heartbeats.ReportingScheduler(app=app, lazy=True, schedule_filename=str(tmp_path / "schedule"))
    scheduler._store = {"entries": {}}  # nothing is due
    scheduler.tick()
    scheduler._store = None
    assert not ProcessHeartbeat.objects.exists()


@pytest.mark.usefixtures("filled")
def test_commands_refuse_the_sample_database(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=CODE) as refused:
        call_command("fleet", "export", str(tmp_path / "fleet.yaml"))
    assert refused.value.returncode == 2
    assert not list(tmp_path.iterdir())


def test_every_command_except_sample_checks_the_database() -> None:
    names = {file.stem for file in COMMANDS.glob("[a-z]*.py")}
    asking = {name for name in names if isinstance(load_command_class("dbops", name), DbopsCommand)}
    assert names - asking == {"sample"}


@pytest.mark.usefixtures("filled")
def test_sample_command_fills_once(settings: Any) -> None:
    settings.SAMPLE = True
    before = Cluster.objects.count()
    with pytest.raises(CommandError) as caught:
        call_command("sample")
    assert caught.value.returncode == 2
    assert Cluster.objects.count() == before


@pytest.mark.django_db
def test_sample_command_refuses_an_empty_database_in_use(settings: Any) -> None:
    settings.SAMPLE = True
    heartbeats.report("worker")
    with pytest.raises(CommandError) as caught:
        call_command("sample")
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_sample_command_refuses_a_database_with_history(settings: Any) -> None:
    settings.SAMPLE = True
    append(actor="olga", action="cluster.removed", subject="shop", detail={})
    with pytest.raises(CommandError) as caught:
        call_command("sample")
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_sample_guard_queries_rarely(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any) -> None:
    monkeypatch.undo()
    now = 0.0
    sample_guard = SampleGuard(clock=lambda: now)
    with django_assert_num_queries(1):
        assert sample_guard.database_mismatch() is None
        assert sample_guard.database_mismatch() is None
    now = database_check.FRESH_SECONDS
    with django_assert_num_queries(1):
        assert sample_guard.database_mismatch() is None


@pytest.mark.django_db
def test_database_check_tolerates_an_unreachable_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(database_check, "database_mismatch", fails)
    monkeypatch.setattr("dbops.management.command.database_mismatch", fails)
    assert Client().get("/healthz/").status_code == 200
    assert not heartbeats.is_wrong_database()
    call_command("account", "list")
