"""The list of backup runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.facts.backups import BackupProcess, FoundSchedule, Reads
from dbops.engine.states import BackupMethod
from dbops.models import BackupRun, BackupSchedule, Instance
from dbops.queries.backups import lists as queries
from dbops.web.templatetags.dbops import words
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


def test_backup_list_shows_every_known_field_escaped(viewer: Client) -> None:
    _, backup, _ = make_trio()
    make_run(backup, flags=["late", "too_long"], evidence={"command": "<script>", "tool": "mysqldump"}, outcome="Done.")
    make_run(
        backup, 1, status="running", origin="observed", finished_at=None, bytes_written=None, progress={"bytes": 1024}
    )
    text = viewer.get("/backups/").content.decode()
    for word in (
        words("too_long"),
        "5.00 MiB",
        "1.00 KiB",
        "&lt;script&gt;",
        "mysqldump",
        "Done.",
        "observed",
        "reported",
    ):
        assert word in text
    assert "<script>" not in text.replace('<script src="', "")


def test_run_list_shows_the_last_week_and_active_runs() -> None:
    _, backup, _ = make_trio()
    long_ago = NOW - timedelta(days=9)
    make_run(backup, 1, started_at=long_ago, finished_at=long_ago)
    make_run(backup, 2, started_at=long_ago, finished_at=None, status="running")
    make_run(backup, 3, status="missed", started_at=None, due_at=NOW - timedelta(days=1), finished_at=NOW)
    make_run(backup, 4)
    assert names() == ["run-4", "run-3", "run-2"]


def test_run_list_filters() -> None:
    _, backup, _ = make_trio()
    other = make_trio("mail")[1]
    make_run(backup, 1, flags=["late"])
    make_run(backup, 2, status="failed")
    make_run(other, 3, flags=["late", "small"])
    assert names(flag="late") == ["run-1", "run-3"]
    assert names(flag="late", cluster="mail") == ["run-3"]
    assert names(flag="failed") == ["run-2"]
    assert names(flag="lat") == []


def test_run_list_is_paged_with_fixed_queries(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
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
    second = viewer.get("/backups/?page=2")
    assert (second.context["page"].number, len(second.context["page"])) == (2, 1)
    assert 'href="?page=1"' in second.content.decode()


def test_backup_list_shows_unclear_processes_and_found_schedules(viewer: Client) -> None:
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
    assert process.command in text.partition('id="unclear"')[2].partition("</table>")[0]
    assert line.timing in text.partition('id="found"')[2].partition("</table>")[0]
    BackupSchedule.objects.create(name="n", instance=backup, method="dump", run_by="external", cron="0 2 * * *")
    assert queries.notes().found == ()


def test_backup_list_needs_permission(stranger: Client, client: Client) -> None:
    assert stranger.get("/backups/").status_code == 403
    assert client.get("/backups/").status_code == 302
