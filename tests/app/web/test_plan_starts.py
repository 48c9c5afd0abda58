"""The ways to start on the plan's page, and what becomes of the one that is chosen."""

import re
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.backup_states import BackupMethod, RunBy, RunStatus
from dbops.engine.states import Status
from dbops.models import AuditEntry, BackupRun, Instance, Maintenance, Rebuild
from tests.app.factories import (
    make_channel,
    make_facts,
    make_instance,
    make_rebuild,
    make_trio,
    make_unreachable,
    set_facts,
)
from tests.app.loaders.test_cluster_snapshots import hold, make_past, make_run, make_schedule

pytestmark = pytest.mark.django_db
ADDRESS = "/instances/replica-1/rebuild/"
HOUR = timedelta(hours=1)
HIDDEN = r'<input type="hidden" name="(source|fingerprint|request_key|start)" value="([^"]+)"'


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.worker.tasks._publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def running(trio: tuple[Instance, Instance, Instance]) -> BackupRun:
    """A managed dump of backup-1 that began an hour ago; its earlier runs took three hours."""
    schedule = make_schedule(trio[1])
    make_past(schedule, 3, 3, 3)
    return make_run(trio[1], schedule=schedule)


def due_in(hours: int, instance: Instance, **values: Any) -> datetime:
    """Make a daily schedule that is due in so many hours."""
    due = (timezone.now() + hours * HOUR).replace(second=0, microsecond=0)
    make_schedule(instance, cron=f"{due.minute} {due.hour} * * *", **values)
    return due


def filled(page: str, **changes: Any) -> dict[str, Any]:
    """The page's own form as a person fills it in."""
    return dict(re.findall(HIDDEN, page)) | {"typed_name": "replica-1", "reason": "disk died"} | changes


def test_now_with_no_prediction_says_that_the_finish_is_not_known(operator: Client, trio: Any) -> None:
    text = operator.get(ADDRESS).content.decode()
    assert "Can be rebuilt now" in text
    assert "no rebuild has succeeded here yet" in text
    assert 'name="start" value="now"' in text
    assert "nobody can say when it is finished" in text


def test_the_prediction_is_shown_with_each_way(operator: Client, trio: Any) -> None:
    now = timezone.now()
    for days, hours in ((2, 1), (3, 1), (4, 4)):
        ended = now - timedelta(days=days)
        times = {"started_at": ended - hours * HOUR, "finished_at": ended}
        make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, **times)
    text = operator.get(ADDRESS).content.decode()
    confirm = text[text.index('class="confirm-start"') :]
    likely, late = re.findall(r'datetime="([^"]+)"', confirm)[1:3]
    assert abs(datetime.fromisoformat(likely) - (now + HOUR)) < timedelta(minutes=1)
    assert abs(datetime.fromisoformat(late) - (now + 4 * HOUR)) < timedelta(minutes=1)


def test_a_backup_that_runs_is_named_with_its_end_and_who_can_clear_it(operator: Client, running: BackupRun) -> None:
    text = operator.get(ADDRESS).content.decode()
    assert "Blocked" in text
    assert f"Backup run {running.pk} (nightly) dumps backup-1." in text
    assert "from the last 3 like it" in text
    assert "by stopping the run; else it ends by itself" in text
    assert 'name="start" value="soon"' in text
    assert "<fieldset disabled>" not in text


def test_waiting_for_the_run_is_stored_told_and_audited(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    assert f"rebuild it from backup-1, when backup run {running.pk} (nightly) ends" in page
    answer = operator.post(ADDRESS, filled(page, expires_hours="5"))
    assert answer.status_code == 302, answer.content.decode()
    rebuild = Rebuild.objects.get()
    assert (rebuild.after_run, rebuild.not_before, rebuild.runs_again) == (running, None, None)
    assert rebuild.expires_at is not None
    assert abs(rebuild.expires_at - (timezone.now() + 5 * HOUR)) < timedelta(minutes=1)
    event = rebuild.events.get().text
    assert f"To start when backup run {running.pk} ends. It expires " in event
    detail = AuditEntry.objects.get(action="rebuild.requested").detail
    assert (detail["start"], detail["after_run"]) == (f"after-run:{running.pk}", running.pk)
    shown = operator.get(answer["Location"]).content.decode()
    assert shown.count(f"it is to start when backup run {running.pk} has ended") == 1
    assert "nothing holds it up" not in shown
    assert "It is expected to start about" in shown


def test_the_run_that_has_ended_meanwhile_refuses_the_choice(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    running.holds.all().delete()
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "plan.start_stale" in text
    assert "The way to start that was asked for is not offered any more." in text
    assert 'name="start" value="now"' in text
    assert not Rebuild.objects.exists()


def test_a_backup_that_has_begun_meanwhile_refuses_now(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    make_run(trio[1])
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_who_was_content_to_wait_may_start_now(operator: Client, running: BackupRun) -> None:
    page = operator.get(ADDRESS).content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    running.holds.all().delete()
    assert operator.post(ADDRESS, filled(page)).status_code == 302


def test_two_clicks_give_one_rebuild_though_the_choice_has_gone(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    given = filled(page)
    first = operator.post(ADDRESS, given)
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    assert operator.post(ADDRESS, given)["Location"] == first["Location"]
    assert Rebuild.objects.count() == 1


def test_after_tonights_window(operator: Client, trio: Any) -> None:
    due = due_in(3, trio[1], run_by=RunBy.EXTERNAL, method=BackupMethod.PHYSICAL, expected_seconds=7200)
    text = operator.get(ADDRESS).content.decode()
    assert "Nobody holds a cron job of somebody else" in text
    key = f"after-window:nightly@{due:%Y%m%dT%H%M%SZ}"
    page = operator.get(ADDRESS, {"start": key}).content.decode()
    assert operator.post(ADDRESS, filled(page)).status_code == 302
    rebuild = Rebuild.objects.get()
    assert rebuild.not_before == due + 2 * HOUR
    assert rebuild.expires_at == due + 26 * HOUR
    assert "not before" in rebuild.events.get().text


def test_before_tonights_window_expires_where_it_would_not_end_in_time(operator: Client, trio: Any) -> None:
    ended = timezone.now() - 30 * HOUR
    times = {"started_at": ended - HOUR, "finished_at": ended}
    make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, **times)
    due = due_in(3, trio[1], expected_seconds=7200)
    page = operator.get(ADDRESS, {"start": f"before-window:nightly@{due:%Y%m%dT%H%M%SZ}"}).content.decode()
    assert operator.post(ADDRESS, filled(page, expires_hours="24")).status_code == 302
    rebuild = Rebuild.objects.get(status=Status.QUEUED)
    assert rebuild.not_before is None
    assert rebuild.expires_at == due - HOUR


def test_a_window_that_has_passed_is_not_chosen_any_more(operator: Client, trio: Any) -> None:
    due_in(3, trio[1], expected_seconds=7200)
    page = operator.get(ADDRESS).content.decode()
    answer = operator.post(ADDRESS, filled(page, start="after-window:nightly@20200101T020000Z"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()


def test_maintenance_disables_the_form_and_refuses_who_posts_all_the_same(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    now = timezone.now()
    cluster = trio[0].cluster
    Maintenance.objects.create(
        cluster=cluster, starts_at=now - HOUR, ends_at=now + HOUR, reason="disks", created_by="max"
    )
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    assert "Maintenance of shop: disks" in text
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    assert "plan.blocked" in answer.content.decode()
    assert "max, by ending the maintenance" in answer.content.decode()


def test_another_source_is_a_link_to_its_own_plan(operator: Client, trio: Any, running: BackupRun) -> None:
    channel = make_channel(source_host=trio[0].address)
    make_instance("replica-2", cluster=trio[0].cluster, facts=make_facts(server_id=4, replication=(channel,)))
    text = operator.get(ADDRESS).content.decode()
    assert "Now from replica-2" in text
    assert f'href="{ADDRESS}?source=replica-2"' in text


def test_an_ill_source_makes_no_way_possible(operator: Client, trio: Any) -> None:
    set_facts(trio[1], make_unreachable())
    text = operator.get(ADDRESS).content.decode()
    assert "not possible" in text or "There is no plan" in text
    assert "<fieldset>" not in text


@pytest.mark.parametrize("hours", ["0", "169", "-1", "soon"])
def test_hours_out_of_bounds_are_refused(operator: Client, trio: Any, hours: str) -> None:
    page = operator.get(ADDRESS).content.decode()
    answer = operator.post(ADDRESS, filled(page, expires_hours=hours))
    assert answer.status_code == 409
    assert "plan.expiry" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_a_run_that_dbops_makes_is_stopped_for_the_rebuild_and_made_again_after_it(
    operator: Client, running: BackupRun
) -> None:
    text = operator.get(ADDRESS, {"start": f"stop-run:{running.pk}"}).content.decode()
    button = " ".join(text.split("data-once>")[1].split("</button>")[0].split())
    assert button == f"Stop backup run {running.pk}, wipe replica-1, rebuild it from backup-1 and back up again"
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 302, answer.content.decode()
    rebuild = Rebuild.objects.get()
    running.refresh_from_db()
    assert running.cancel_requested_at is not None
    assert (rebuild.after_run, rebuild.runs_again) == (running, running.schedule)
    assert AuditEntry.objects.filter(action="backup.stop_requested", subject="backup-1", actor="olga").exists()
    assert AuditEntry.objects.get(action="rebuild.requested").detail["start"] == f"stop-run:{running.pk}"


def test_a_run_that_has_ended_meanwhile_is_not_stopped_and_nothing_is_queued(
    operator: Client, running: BackupRun
) -> None:
    text = operator.get(ADDRESS, {"start": f"stop-run:{running.pk}"}).content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_a_run_of_somebody_else_cannot_be_stopped_from_here(operator: Client, running: BackupRun) -> None:
    BackupRun.objects.filter(pk=running.pk).update(origin="observed")
    text = operator.get(ADDRESS).content.decode()
    assert "start=stop-run" not in text
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 409
    assert not Rebuild.objects.exists()


def test_names_and_reasons_are_escaped(operator: Client, trio: Any) -> None:
    now = timezone.now()
    Maintenance.objects.create(
        cluster=trio[0].cluster, starts_at=now, reason="<script>alert(1)</script>", created_by="x"
    )
    assert "<script>alert(1)" not in operator.get(ADDRESS).content.decode()


def test_a_time_that_a_person_names_is_in_the_dashboards_zone(operator: Client, trio: Any, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    timezone.deactivate()
    wanted = (timezone.now() + 5 * HOUR).replace(second=0, microsecond=0)
    local = timezone.localtime(wanted).strftime("%Y-%m-%dT%H:%M")
    page = operator.get(ADDRESS, {"start_at": local, "source": "backup-1"}).content.decode()
    assert f'value="{local}"' in page
    assert f'name="start" value="at:{wanted:%Y%m%dT%H%M%SZ}"' in page
    assert operator.post(ADDRESS, filled(page)).status_code == 302
    assert Rebuild.objects.get().not_before == wanted


@pytest.mark.parametrize("given", ["", "tonight", "2026-13-01T00:00"])
def test_a_time_that_cannot_be_read_is_told(operator: Client, trio: Any, given: str) -> None:
    text = operator.get(ADDRESS, {"start_at": given}).content.decode()
    assert 'id="start-at-bad"' in text


def test_a_named_time_that_has_passed_is_refused(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    past = timezone.now() - HOUR
    answer = operator.post(ADDRESS, filled(page, start=f"at:{past:%Y%m%dT%H%M%SZ}"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()


def test_a_named_time_that_has_passed_is_told_and_is_not_now(operator: Client, trio: Any) -> None:
    past = timezone.localtime() - HOUR
    text = operator.get(ADDRESS, {"start_at": f"{past:%Y-%m-%dT%H:%M}"}).content.decode()
    assert "That time has passed." in text
    assert "<fieldset disabled" in text
    assert 'name="start" value="now"' not in text
    # as does anything else that is offered no more
    assert "<fieldset disabled" in operator.get(ADDRESS, {"start": "after-run:4711"}).content.decode()


# The place in line


def queued(trio: tuple[Instance, Instance, Instance], number: int, **values: Any) -> Rebuild:
    target = make_instance(f"replica-{number}", cluster=trio[0].cluster)
    given = {"status": Status.QUEUED, "requested_at": timezone.now() - (10 - number) * HOUR} | values
    return make_rebuild(target=target, source=trio[1], **given)


def test_the_line_is_shown_in_its_order_and_the_last_moved_to_its_front(operator: Client, trio: Any) -> None:
    first, second, third = queued(trio, 2), queued(trio, 3, priority=2), queued(trio, 4)
    text = operator.get(f"/rebuilds/{third.pk}/place/").content.decode()
    line = text[text.index('class="line"') :]
    assert line.index(f"Rebuild {second.pk}<") < line.index(f"Rebuild {first.pk}<") < line.index(f"Rebuild {third.pk}<")
    assert operator.post(f"/rebuilds/{third.pk}/place/", {"first": "1"}).status_code == 302
    third.refresh_from_db()
    assert third.priority == 3
    assert third.events.get().text == "Moved to the front of the line by olga (priority 3, was 0)."
    entry = AuditEntry.objects.get(action="rebuild.priority_changed")
    assert (entry.actor, entry.detail) == ("olga", {"rebuild": third.pk, "priority": 3, "before": 0})


def test_a_backup_that_waits_is_passed_as_well(operator: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    make_run(trio[1], status=RunStatus.QUEUED, started_at=None, queued_at=timezone.now() - 9 * HOUR)
    operator.post(f"/rebuilds/{rebuild.pk}/place/", {"first": "1"})
    rebuild.refresh_from_db()
    assert rebuild.priority == 1


@pytest.mark.parametrize("given", ["10", "-10", "", "high", "1e1"])
def test_a_priority_out_of_bounds_is_refused(operator: Client, trio: Any, given: str) -> None:
    rebuild = queued(trio, 2)
    answer = operator.post(f"/rebuilds/{rebuild.pk}/place/", {"priority": given})
    assert answer.status_code == 409
    assert "rebuild.priority" in answer.content.decode()
    rebuild.refresh_from_db()
    assert rebuild.priority == 0


def test_a_priority_is_set_and_told(operator: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    assert operator.post(f"/rebuilds/{rebuild.pk}/place/", {"priority": "-3"}).status_code == 302
    rebuild.refresh_from_db()
    assert (rebuild.priority, rebuild.events.get().text) == (-3, "Priority -3 instead of 0, by olga.")
    assert "Its priority is -3." in operator.get(f"/rebuilds/{rebuild.pk}/").content.decode()


def test_what_runs_has_no_place_in_line(operator: Client, trio: Any) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1])
    hold(rebuild)
    answer = operator.post(f"/rebuilds/{rebuild.pk}/place/", {"first": "1"})
    assert answer.status_code == 409
    assert "rebuild.not_queued" in answer.content.decode()
    assert "place-link" not in operator.get(f"/rebuilds/{rebuild.pk}/").content.decode()


def test_a_viewer_changes_nothing(viewer: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    assert viewer.post(f"/rebuilds/{rebuild.pk}/place/", {"first": "1"}).status_code == 403
    assert "place-link" not in viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    assert uuid.UUID(rebuild.request_key)
