"""The list of backup runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.backup_states import BackupMethod
from dbops.engine.facts.backups import BackupProcess, FoundSchedule, Reads
from dbops.models import BackupRun, BackupSchedule, Instance
from dbops.queries.backups import lists as queries
from tests.app.factories import make_facts, make_trio, set_facts

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def make_run(instance: Instance, number: int = 0, **values: Any) -> BackupRun:
    given: dict[str, Any] = {
        "uid": f"run-{number}", "instance": instance, "origin": "reported", "method": "dump", "status": "succeeded",
        "started_at": NOW - timedelta(hours=2 + number), "finished_at": NOW - timedelta(hours=1 + number),
        "bytes_written": 5 * 1024**2,
    }  # fmt: skip
    return BackupRun.objects.create(**{**given, **values})


def names(**wanted: str) -> list[str]:
    page = queries.listed(**{"cluster": "", "flag": "", "number": 1, **wanted})
    return [row.run.uid for row in page.object_list]


def test_a_run_is_shown_with_all_that_is_known(viewer: Client) -> None:
    _, backup, _ = make_trio()
    make_run(backup, flags=["late", "too_long"], evidence={"command": "<script>", "tool": "mysqldump"}, outcome="Done.")
    make_run(
        backup, 1, status="running", origin="observed", finished_at=None, bytes_written=None, progress={"bytes": 1024}
    )
    text = viewer.get("/backups/").content.decode()
    for word in ("too long", "5.00 MiB", "&lt;script&gt;", "mysqldump", "Done.", "last seen", "observed", "reported"):
        assert word in text
    assert "<script>" not in text.replace('<script src="', "")


def test_runs_of_last_week_and_those_that_go_on() -> None:
    _, backup, _ = make_trio()
    long_ago = NOW - timedelta(days=9)
    make_run(backup, 1, started_at=long_ago, finished_at=long_ago)
    make_run(backup, 2, started_at=long_ago, finished_at=None, status="running")
    make_run(backup, 3, status="missed", started_at=None, due_at=NOW - timedelta(days=1), finished_at=NOW)
    make_run(backup, 4)
    assert names() == ["run-4", "run-3", "run-2"]


def test_filters() -> None:
    _, backup, _ = make_trio()
    other = make_trio("mail")[1]
    make_run(backup, 1, flags=["late"])
    make_run(backup, 2, status="failed")
    make_run(other, 3, flags=["late", "small"])
    assert names(flag="late") == ["run-1", "run-3"]
    assert names(flag="late", cluster="mail") == ["run-3"]
    assert names(flag="failed") == ["run-2"]
    assert names(flag="lat") == []


def test_pages_and_numbers_of_queries(viewer: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    _, backup, _ = make_trio()
    schedule = BackupSchedule.objects.create(
        name="n", instance=backup, method="dump", run_by="external", cron="0 2 * * *"
    )
    for number in range(queries.RUNS_ON_A_PAGE + 1):
        make_run(backup, number, schedule=schedule)
    with django_assert_num_queries(2):
        page = queries.listed(cluster="", flag="", number=1)
        assert [(row.run.instance.cluster.name, row.run.schedule) for row in page.object_list][0] == ("shop", schedule)
    assert page.paginator.num_pages == 2
    assert "Page 2 of 2" in viewer.get("/backups/?page=2").content.decode()


def test_what_is_not_certain_and_what_was_found_is_shown_for_a_person(viewer: Client) -> None:
    primary, backup, replica = make_trio()
    for other in (primary, replica):
        other.host = backup.host
        other.datadir = f"/srv/{other.name}"
        other.save()
    process = BackupProcess(
        "b:7:1", 7, "mysqldump", BackupMethod.DUMP, NOW, "root", "mysqldump -A", Reads.UNCLEAR, "no name"
    )
    line = FoundSchedule(
        "/etc/crontab", "cron", "0 2 * * *", "UTC", "root", "mysqldump", BackupMethod.DUMP, "mysqldump -A"
    )
    for instance in (backup, replica):
        set_facts(instance, replace(make_facts(), backup_processes=(process,), found_schedules=(line,)))
    notes = queries.notes()
    assert [note.item.pid for note in notes.unclear] == [7]
    assert [note.item.timing for note in notes.found] == ["0 2 * * *"]
    text = viewer.get("/backups/").content.decode()
    assert "is not certain" in text
    assert "Found in crontabs" in text
    BackupSchedule.objects.create(name="n", instance=backup, method="dump", run_by="external", cron="0 2 * * *")
    assert queries.notes().found == ()


def test_who_may_look(stranger: Client, client: Client) -> None:
    assert stranger.get("/backups/").status_code == 403
    assert client.get("/backups/").status_code == 302
