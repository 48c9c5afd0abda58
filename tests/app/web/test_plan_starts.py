"""The ways to start on the plan's page, and what becomes of the one that is chosen."""

import re
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.schedule.blocker import BlockerKind
from dbops.engine.schedule.conflicts import Activity
from dbops.engine.schedule.start_option_keys import StartMode
from dbops.engine.states import BackupMethod, RunBy, RunStatus, Status
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
from tests.engine.by_name import conflict_of

from .marks import marks, part

pytestmark = pytest.mark.django_db
ADDRESS = "/instances/replica-1/rebuild/"
HOUR = timedelta(hours=1)
HIDDEN = r'<input type="hidden" name="(source|fingerprint|request_key|start)" value="([^"]+)"'


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
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


def test_page_shows_no_finish_when_nothing_is_predicted(operator: Client, trio: Any) -> None:
    answer = operator.get(ADDRESS)
    text = answer.content.decode()
    assert marks(text, "eligibility") == ["now"]
    assert answer.context["prediction"].duration is None
    assert answer.context["prediction"].reason in part(text, 'data-start="now"', "</li>")
    assert 'name="start" value="now"' in text
    assert marks(text, "finishes") == ["unknown"]
    assert marks(text, "starts") != ["unknown"]


def test_page_shows_the_predicted_finish(operator: Client, trio: Any) -> None:
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


def test_page_names_the_running_backup_its_end_and_how_to_clear_it(operator: Client, running: BackupRun) -> None:
    answer = operator.get(ADDRESS)
    text = answer.content.decode()
    assert marks(text, "eligibility") == ["until"]
    [blocker] = answer.context["eligibility"].blockers
    assert (blocker.kind, blocker.run, blocker.instance) == (BlockerKind.BACKUP_RUNNING, running.pk, "backup-1")
    for named in (str(running.pk), "nightly", "backup-1"):
        assert named in blocker.text
    assert blocker.until.is_known
    assert "3" in blocker.until.reason
    shown = part(text, f'data-run="{running.pk}"', "</li>")
    for said in (blocker.text, blocker.until.reason, blocker.clears):
        assert escape(said) in shown
    assert f"stop-run:{running.pk}" in marks(text, "start")
    assert 'name="start" value="soon"' in text
    assert "<fieldset disabled>" not in text


def test_request_to_wait_for_a_run_is_stored_logged_and_audited(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    button = part(page, f'data-confirm="after-run:{running.pk}"', "</button>")
    for named in ("replica-1", "backup-1", str(running.pk), "nightly"):
        assert named in button
    answer = operator.post(ADDRESS, filled(page, expires_hours="5"))
    assert answer.status_code == 302, answer.content.decode()
    rebuild = Rebuild.objects.get()
    assert (rebuild.start_after_run, rebuild.not_before, rebuild.requeue_schedule) == (running, None, None)
    assert rebuild.expires_at is not None
    assert abs(rebuild.expires_at - (timezone.now() + 5 * HOUR)) < timedelta(minutes=1)
    event = rebuild.events.get().text
    assert str(running.pk) in re.findall(r"\d+", event)
    assert f"{rebuild.expires_at:%Y-%m-%d %H:%M UTC}" in event
    detail = AuditEntry.objects.get(action="rebuild.requested").detail
    assert (detail["start"], detail["start_after_run"]) == (f"after-run:{running.pk}", running.pk)
    shown = operator.get(answer["Location"]).content.decode()
    assert marks(shown, "waits") == [f"run-{running.pk}"]
    assert len(marks(shown, "passes")) == 1


def test_request_to_wait_is_refused_when_the_run_has_ended(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    running.holds.all().delete()
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    text = answer.content.decode()
    assert marks(text, "error") == ["plan.start_stale"]
    assert "start_gone" in marks(text, "blocking")
    assert 'name="start" value="now"' in text
    assert not Rebuild.objects.exists()


def test_request_to_start_now_is_refused_when_a_backup_has_begun(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    make_run(trio[1])
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_request_to_start_soon_is_accepted_when_the_backup_has_ended(operator: Client, running: BackupRun) -> None:
    page = operator.get(ADDRESS).content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    running.holds.all().delete()
    assert operator.post(ADDRESS, filled(page)).status_code == 302


def test_second_click_returns_the_same_rebuild_when_the_choice_is_gone(operator: Client, running: BackupRun) -> None:
    page = operator.get(f"{ADDRESS}?start=after-run:{running.pk}").content.decode()
    given = filled(page)
    first = operator.post(ADDRESS, given)
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    assert operator.post(ADDRESS, given)["Location"] == first["Location"]
    assert Rebuild.objects.count() == 1


def test_start_after_a_window_waits_for_its_end(operator: Client, trio: Any) -> None:
    due = due_in(3, trio[1], run_by=RunBy.EXTERNAL, method=BackupMethod.PHYSICAL, expected_seconds=7200)
    text = operator.get(ADDRESS).content.decode()
    warned = conflict_of("xbstream", Activity.AHEAD_EXTERNAL)
    assert warned
    assert escape(warned.reason) in text
    key = f"after-window:nightly@{due:%Y%m%dT%H%M%SZ}"
    page = operator.get(ADDRESS, {"start": key}).content.decode()
    assert operator.post(ADDRESS, filled(page)).status_code == 302
    rebuild = Rebuild.objects.get()
    assert rebuild.not_before == due + 2 * HOUR
    assert rebuild.expires_at == due + 26 * HOUR
    assert f"{due + 2 * HOUR:%Y-%m-%d %H:%M UTC}" in rebuild.events.get().text


def test_start_before_a_window_expires_when_it_would_not_end_in_time(operator: Client, trio: Any) -> None:
    ended = timezone.now() - 30 * HOUR
    times = {"started_at": ended - HOUR, "finished_at": ended}
    make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, **times)
    due = due_in(3, trio[1], expected_seconds=7200)
    page = operator.get(ADDRESS, {"start": f"before-window:nightly@{due:%Y%m%dT%H%M%SZ}"}).content.decode()
    assert operator.post(ADDRESS, filled(page, expires_hours="24")).status_code == 302
    rebuild = Rebuild.objects.get(status=Status.QUEUED)
    assert rebuild.not_before is None
    assert rebuild.expires_at == due - HOUR


def test_request_for_a_window_that_has_passed_is_refused(operator: Client, trio: Any) -> None:
    due_in(3, trio[1], expected_seconds=7200)
    page = operator.get(ADDRESS).content.decode()
    answer = operator.post(ADDRESS, filled(page, start="after-window:nightly@20200101T020000Z"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()


def test_maintenance_disables_the_form_and_refuses_the_request(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    now = timezone.now()
    cluster = trio[0].cluster
    Maintenance.objects.create(
        cluster=cluster, starts_at=now - HOUR, ends_at=now + HOUR, reason="disks", created_by="max"
    )
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    stops = part(text, 'id="blocking-reasons"', "</div>")
    assert marks(stops, "blocking") == ["blocker.maintenance"]
    assert "shop" in stops
    assert "disks" in stops
    answer = operator.post(ADDRESS, filled(page))
    assert answer.status_code == 409
    assert answer.context["refused"].code == "plan.blocked"
    [blocker] = answer.context["eligibility"].blockers
    assert (blocker.kind, "max" in blocker.clears) == (BlockerKind.MAINTENANCE, True)
    assert "max" in part(answer.content.decode(), 'data-error="plan.blocked"', "</section>")


def test_another_source_links_to_its_own_plan(operator: Client, trio: Any, running: BackupRun) -> None:
    channel = make_channel(source_host=trio[0].address)
    make_instance("replica-2", cluster=trio[0].cluster, facts=make_facts(server_id=4, replication=(channel,)))
    text = operator.get(ADDRESS).content.decode()
    other = part(text, 'data-start="elsewhere:replica-2"', "</li>")
    assert f'href="{ADDRESS}?source=replica-2"' in other


def test_no_start_is_possible_when_the_source_is_unreachable(operator: Client, trio: Any) -> None:
    set_facts(trio[1], make_unreachable())
    answer = operator.get(ADDRESS)
    assert answer.context["no_plan"] or not any(item.choice.is_possible for item in answer.context["start_options"])
    assert "<fieldset>" not in answer.content.decode()


@pytest.mark.parametrize("hours", ["0", "169", "-1", "soon"])
def test_request_is_refused_when_its_hours_are_out_of_bounds(operator: Client, trio: Any, hours: str) -> None:
    page = operator.get(ADDRESS).content.decode()
    answer = operator.post(ADDRESS, filled(page, expires_hours=hours))
    assert answer.status_code == 409
    assert "plan.expiry" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_request_that_stops_a_run_runs_it_again_after_the_rebuild(operator: Client, running: BackupRun) -> None:
    text = operator.get(ADDRESS, {"start": f"stop-run:{running.pk}"}).content.decode()
    button = part(text, f'data-confirm="stop-run:{running.pk}"', "</button>")
    for named in (str(running.pk), "replica-1", "backup-1"):
        assert named in button
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 302, answer.content.decode()
    rebuild = Rebuild.objects.get()
    running.refresh_from_db()
    assert running.cancel_requested_at is not None
    assert (rebuild.start_after_run, rebuild.requeue_schedule) == (running, running.schedule)
    assert AuditEntry.objects.filter(action="backup.stop_requested", subject="backup-1", actor="olga").exists()
    assert AuditEntry.objects.get(action="rebuild.requested").detail["start"] == f"stop-run:{running.pk}"


def test_request_to_stop_a_run_is_refused_when_it_has_ended(operator: Client, running: BackupRun) -> None:
    text = operator.get(ADDRESS, {"start": f"stop-run:{running.pk}"}).content.decode()
    BackupRun.objects.filter(pk=running.pk).update(status=RunStatus.SUCCEEDED, finished_at=timezone.now())
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_request_to_stop_an_observed_run_is_refused(operator: Client, running: BackupRun) -> None:
    BackupRun.objects.filter(pk=running.pk).update(origin="observed")
    text = operator.get(ADDRESS).content.decode()
    assert "start=stop-run" not in text
    answer = operator.post(ADDRESS, filled(text, start=f"stop-run:{running.pk}"))
    assert answer.status_code == 409
    assert not Rebuild.objects.exists()


def test_page_escapes_names_and_reasons(operator: Client, trio: Any) -> None:
    now = timezone.now()
    Maintenance.objects.create(
        cluster=trio[0].cluster, starts_at=now, reason="<script>alert(1)</script>", created_by="x"
    )
    assert "<script>alert(1)" not in operator.get(ADDRESS).content.decode()


def test_named_time_is_in_the_dashboards_zone(operator: Client, trio: Any, settings: Any) -> None:
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
def test_page_marks_a_time_that_it_cannot_read(operator: Client, trio: Any, given: str) -> None:
    text = operator.get(ADDRESS, {"start_at": given}).content.decode()
    assert 'id="start-at-bad"' in text


def test_request_is_refused_when_its_named_time_has_passed(operator: Client, trio: Any) -> None:
    page = operator.get(ADDRESS).content.decode()
    past = timezone.now() - HOUR
    answer = operator.post(ADDRESS, filled(page, start=f"at:{past:%Y%m%dT%H%M%SZ}"))
    assert answer.status_code == 409
    assert "plan.start_stale" in answer.content.decode()


def test_form_is_disabled_when_the_named_time_has_passed(operator: Client, trio: Any) -> None:
    past = timezone.localtime() - HOUR
    answer = operator.get(ADDRESS, {"start_at": f"{past:%Y-%m-%dT%H:%M}"})
    text = answer.content.decode()
    start = answer.context["start"]
    assert (start.way, start.is_possible) == (StartMode.AT, False)
    assert escape(start.reason) in part(part(text, 'id="blocking-reasons"', "</div>"), 'data-blocking="start"', "</li>")
    assert "<fieldset disabled" in text
    assert 'name="start" value="now"' not in text
    # as does anything else that is offered no more
    assert "<fieldset disabled" in operator.get(ADDRESS, {"start": "after-run:4711"}).content.decode()


# The queue position


def queued(trio: tuple[Instance, Instance, Instance], number: int, **values: Any) -> Rebuild:
    target = make_instance(f"replica-{number}", cluster=trio[0].cluster)
    given = {"status": Status.QUEUED, "requested_at": timezone.now() - (10 - number) * HOUR} | values
    return make_rebuild(target=target, source=trio[1], **given)


def test_place_page_shows_the_queue_in_order_and_moves_a_rebuild_to_the_front(operator: Client, trio: Any) -> None:
    first, second, third = queued(trio, 2), queued(trio, 3, priority=2), queued(trio, 4)
    text = operator.get(f"/rebuilds/{third.pk}/queue-position/").content.decode()
    line = re.findall(r'href="/rebuilds/(\d+)/"', part(text, 'class="job-list"', "</ol>"))
    assert line == [str(rebuild.pk) for rebuild in (second, first, third)]
    assert operator.post(f"/rebuilds/{third.pk}/queue-position/", {"first": "1"}).status_code == 302
    third.refresh_from_db()
    assert third.priority == 3
    event = third.events.get().text
    assert ("olga" in event, re.findall(r"-?\d+", event)) == (True, ["3", "0"])
    entry = AuditEntry.objects.get(action="rebuild.priority_changed")
    assert (entry.actor, entry.detail) == ("olga", {"rebuild": third.pk, "priority": 3, "before": 0})


def test_move_to_the_front_passes_a_queued_backup(operator: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    make_run(trio[1], status=RunStatus.QUEUED, started_at=None, queued_at=timezone.now() - 9 * HOUR)
    operator.post(f"/rebuilds/{rebuild.pk}/queue-position/", {"first": "1"})
    rebuild.refresh_from_db()
    assert rebuild.priority == 1


@pytest.mark.parametrize("given", ["10", "-10", "", "high", "1e1"])
def test_priority_is_refused_when_it_is_out_of_bounds(operator: Client, trio: Any, given: str) -> None:
    rebuild = queued(trio, 2)
    answer = operator.post(f"/rebuilds/{rebuild.pk}/queue-position/", {"priority": given})
    assert answer.status_code == 409
    assert "rebuild.priority" in answer.content.decode()
    rebuild.refresh_from_db()
    assert rebuild.priority == 0


def test_priority_is_stored_logged_and_shown(operator: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    assert operator.post(f"/rebuilds/{rebuild.pk}/queue-position/", {"priority": "-3"}).status_code == 302
    rebuild.refresh_from_db()
    event = rebuild.events.get().text
    assert (rebuild.priority, "olga" in event, re.findall(r"-?\d+", event)) == (-3, True, ["0", "-3"])
    assert marks(operator.get(f"/rebuilds/{rebuild.pk}/").content.decode(), "priority") == ["-3"]


def test_place_is_refused_when_the_rebuild_runs(operator: Client, trio: Any) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1])
    hold(rebuild)
    answer = operator.post(f"/rebuilds/{rebuild.pk}/queue-position/", {"first": "1"})
    assert answer.status_code == 409
    assert "rebuild.not_queued" in answer.content.decode()
    assert "queue-position-link" not in operator.get(f"/rebuilds/{rebuild.pk}/").content.decode()


def test_viewer_cannot_change_the_place(viewer: Client, trio: Any) -> None:
    rebuild = queued(trio, 2)
    assert viewer.post(f"/rebuilds/{rebuild.pk}/queue-position/", {"first": "1"}).status_code == 403
    assert "queue-position-link" not in viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    assert uuid.UUID(rebuild.request_key)
