"""The pages about schedules: list, form, due times, switching and removing."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.facts.instance import Tool, to_record
from dbops.models import BackupRun, BackupSchedule
from dbops.queries.backups.due import due_times_of
from tests.app.factories import make_facts, make_host_facts, make_run, make_schedule, make_trio, set_facts

pytestmark = pytest.mark.django_db


def form(**changes: str) -> dict[str, str]:
    given = {
        "name": "backup-1-nightly",
        "instance": "backup-1",
        "method": "physical",
        "run_by": "dbops",
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
        "directory": "/backup/shop",
        "expected_seconds": "180",
        "late_after_seconds": "15",
        "keep_count": "7",
        "keep_days": "",
        "is_enabled": "on",
        "seen": "",
    }
    return given | changes


def test_schedule_form_adds_a_schedule(operator: Client) -> None:
    make_trio()
    page = operator.get("/schedules/add/?instance=backup-1").content.decode()
    assert 'value="backup-1-nightly"' in page
    assert operator.post("/schedules/add/", form()).status_code == 302
    row = BackupSchedule.objects.get()
    assert (row.instance.name, row.expected_seconds, row.late_after_seconds) == ("backup-1", 10_800, 900)
    listed = operator.get("/schedules/").content.decode()
    assert "30 2 * * *" in listed
    (shown,) = operator.get("/schedules/").context["found"].rows
    assert shown.duration.runs == 0
    assert "3 h 00 min" in listed


def test_schedules_name_a_dump_whose_account_lacks_a_privilege(operator: Client) -> None:
    _, backup, replica = make_trio()
    for instance in (backup, replica):
        facts = replace(make_facts(), local_privileges=("EVENT", "SELECT", "SHOW VIEW"))
        set_facts(instance, facts)
    make_schedule(backup, "dumps", method="dump", run_by="dbops")
    make_schedule(backup, "of-cron", method="dump")
    make_schedule(replica, "files", run_by="dbops")
    answer = operator.get("/schedules/")
    refusals = {row.schedule.name: row.refusal for row in answer.context["found"].rows}
    found = refusals.pop("dumps")
    assert found.code == "backup.dump_account"
    assert "TRIGGER" in found.cause
    assert refusals == {"of-cron": None, "files": None}
    assert answer.content.decode().count('data-code="backup.dump_account"') == 1


@pytest.mark.parametrize(("typed", "stored"), [("", None), ("1", 1)])
def test_schedule_form_stores_keep_count(operator: Client, typed: str, stored: int | None) -> None:
    make_trio()
    assert operator.post("/schedules/add/", form(keep_count=typed)).status_code == 302
    row = BackupSchedule.objects.get()
    assert row.keep_count == stored
    page = operator.get(f"/schedules/{row.name}/edit/")
    assert page.context["form"]["keep_count"].value() == stored
    assert operator.get("/schedules/").status_code == 200


def test_schedule_form_refuses_a_keep_count_of_zero(operator: Client) -> None:
    make_trio()
    answer = operator.post("/schedules/add/", form(keep_count="0"))
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["keep_count"]


def test_schedule_form_shows_errors_and_saves_nothing(operator: Client) -> None:
    make_trio()
    for field, value in (
        ("cron", "61 2 * * *"),
        ("time_zone", "Mars/Olympus"),
        ("directory", ""),
        ("directory", "/var/lib/mysql/x"),
        ("instance", "missing"),
        ("keep_count", "0"),
    ):
        answer = operator.post("/schedules/add/", form(**{field: value}))
        assert answer.status_code == 422
        errors = answer.context["form"].errors
        assert list(errors) == [field], value
        assert all(answer.content.decode().count(escape(error)) == 1 for error in errors[field]), "said once"
        assert (answer.context["due"] is None) == (field in ("cron", "time_zone"))
    assert not BackupSchedule.objects.exists()


def test_due_times_are_shown_before_saving(operator: Client) -> None:
    make_trio()
    answer = operator.post("/schedules/add/", form(action="show", name=""))
    assert answer.status_code == 200
    assert answer.content.decode().count("02:30 CET") + answer.content.decode().count("02:30 CEST") >= 4
    assert not BackupSchedule.objects.exists()
    part = operator.get("/schedules/due/", {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}).content.decode()
    assert "<html" not in part
    assert part.count("<tr>") == 6
    wrong = operator.get("/schedules/due/?cron=x&time_zone=UTC")
    assert (wrong.status_code, wrong.context["due"].rows) == (200, [])
    assert escape(wrong.context["due"].problem[1:]) in wrong.content.decode()
    assert "<tr>" not in wrong.content.decode()


@pytest.mark.parametrize(
    ("day", "cron", "change", "times"),
    [
        ("2026-03-20", "30 2 * * *", ["02:00", "03:00"], ["03:00 CEST"]),
        ("2026-10-20", "30 2 * * *", ["03:00", "02:00"], ["02:30 CEST"]),
        ("2026-10-20", "0 */2 * * *", ["03:00", "02:00"], ["00:00 CEST", "02:00 CEST", "02:00 CET", "04:00 CET"]),
        ("2026-10-20", "0 2 * * 1", ["03:00", "02:00"], []),
    ],
)
def test_due_times_name_a_near_clock_change(day: str, cron: str, change: list[str], times: list[str]) -> None:
    now = timezone.datetime.fromisoformat(f"{day}T12:00+00:00")
    found = due_times_of(cron, "Europe/Berlin", now).clock_change
    assert re.findall(r"\d\d:\d\d(?: CES?T)?", found) == [*change, *times]


def test_due_times_have_no_clock_change_far_from_one() -> None:
    summer = timezone.datetime.fromisoformat("2026-06-01T12:00+00:00")
    assert due_times_of("0 2 * * *", "Europe/Berlin", summer).clock_change == ""
    assert due_times_of("0 2 * * *", "UTC", summer).clock_change == ""


def test_schedule_page_shows_learned_and_expected_duration(operator: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup, expected_seconds=60)
    for hours in range(1, 11):
        make_run(backup, schedule=row, started_at=timezone.now() - timedelta(days=hours), seconds=3600 * hours)
    make_run(backup, schedule=row, started_at=timezone.now() - timedelta(days=12), seconds=5, status="failed")
    answer = operator.get(f"/schedules/{row.name}/edit/")
    page = answer.content.decode()
    assert answer.context["duration"].runs == 10
    assert "5 h 30 min" in page
    assert "9 h 00 min" in page


def test_schedule_form_saves_changes_and_refuses_a_stale_page(operator: Client) -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, "backup-1-nightly")
    page = operator.get("/schedules/backup-1-nightly/edit/").content.decode()
    seen = page.partition('name="seen" value="')[2].partition('"')[0]
    assert 'value="backup-1-nightly"' in page
    assert operator.post("/schedules/backup-1-nightly/edit/", form(seen=seen, cron="0 4 * * *")).status_code == 302
    assert BackupSchedule.objects.get().cron == "0 4 * * *"
    assert operator.post("/schedules/backup-1-nightly/edit/", form(seen=seen, cron="0 5 * * *")).status_code == 422
    assert BackupSchedule.objects.get().cron == "0 4 * * *"


def test_schedule_can_be_switched_and_removed(operator: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup)
    operator.post(f"/schedules/{row.name}/toggle/", {"to": "off"})
    assert not BackupSchedule.objects.get().is_enabled
    assert 'name="to" value="on"' in operator.get("/schedules/").content.decode()
    run = make_run(backup, schedule=row, started_at=timezone.now())
    assert operator.post(f"/schedules/{row.name}/remove/").status_code == 409
    run.delete()
    assert operator.post(f"/schedules/{row.name}/remove/").status_code == 302
    assert not BackupSchedule.objects.exists()


def test_run_backup_now_starts_once_from_the_list(operator: Client, viewer: Client) -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, "ours", run_by="dbops", directory="/backups")
    make_schedule(backup, "theirs")
    page = operator.get("/schedules/").content.decode()
    assert "/schedules/ours/run/" in page
    assert "/schedules/theirs/run/" not in page
    assert viewer.post("/schedules/ours/run/").status_code == 403
    assert "/schedules/run/" not in viewer.get("/schedules/").content.decode()
    begun = operator.post("/schedules/ours/run/")
    run = BackupRun.objects.get()
    assert (begun["Location"], run.status) == (f"/backups/runs/{run.pk}/", "queued")
    again = operator.post("/schedules/ours/run/", follow=True)
    *_, message = again.context["messages"]
    assert (again.redirect_chain, message.level_tag) == ([("/schedules/", 302)], "danger")
    assert f" {run.pk} " in message.message
    theirs = operator.post("/schedules/theirs/run/", follow=True)
    *_, message = theirs.context["messages"]
    assert (theirs.redirect_chain, message.level_tag) == ([("/schedules/", 302)], "danger")
    assert BackupRun.objects.count() == 1


def test_schedule_list_is_read_only_for_viewers(viewer: Client, victor: User) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup)
    listed = viewer.get("/schedules/").content.decode()
    assert row.name in listed
    assert "/schedules/switch/" not in listed
    for address in ("/schedules/add/", f"/schedules/{row.name}/edit/", f"/schedules/{row.name}/remove/"):
        assert viewer.get(address).status_code == 403
    assert viewer.post(f"/schedules/{row.name}/toggle/", {"to": "off"}).status_code == 403


def test_schedule_list_takes_a_fixed_number_of_queries(operator: Client, django_assert_num_queries: object) -> None:
    _, backup, _ = make_trio()
    for number in range(12):
        row = make_schedule(backup, f"s-{number}")
        make_run(backup, schedule=row, started_at=timezone.now() - timedelta(hours=9), seconds=60)
    with django_assert_num_queries(7):
        assert "s-11" in operator.get("/schedules/").content.decode()


@pytest.mark.parametrize(("program", "shown"), [("8.0.46", True), ("10.11.19", False)])
def test_schedule_list_names_a_dump_program_that_cannot_serve(operator: Client, program: str, shown: bool) -> None:
    _, backup, _ = make_trio()
    facts = make_facts(host=make_host_facts(tools={"mysqldump": Tool("/usr/bin/mysqldump", program)}))
    backup.state.record = to_record(facts)
    backup.state.save()
    make_schedule(backup, "files", run_by="dbops")
    make_schedule(backup, "statements", method="dump", run_by="dbops")
    page = operator.get("/schedules/")
    problems = {row.schedule.name: row.refusal for row in page.context["found"].rows}
    assert {name: bool(text) for name, text in problems.items()} == {"files": False, "statements": shown}
    assert ('data-code="backup.dump_program"' in page.content.decode()) is shown
