"""Cluster calendar, queue page, maintenance, tokens and the calendar feed."""

import logging
import re
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape, strip_tags
from icalendar import Calendar

from dbops.engine.schedule.occupancy import NOT_APPROVED
from dbops.engine.schedule.snapshot import InstanceUse
from dbops.engine.states import Status
from dbops.models import AccessToken, Hold, InstanceState, Maintenance
from dbops.operations.tokens import make_token, revoke_token
from dbops.queries.schedule import calendar as queries
from dbops.queries.schedule import feed as feeds
from dbops.queries.schedule.queue import DOES, queues_of
from tests.app.factories import make_rebuild, make_run, make_schedule, make_trio
from tests.app.web.marks import part

pytestmark = pytest.mark.django_db
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 10, 24, 10, 0, tzinfo=UTC)


def words(client: Client, address: str) -> str:
    return " ".join(strip_tags(client.get(address).content.decode()).split())


def test_calendar_draws_a_week_with_its_blocked_hours_as_text(viewer: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup, cron="0 23 * * *")
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    for days in (1, 2, 3):
        make_run(backup, schedule=row, started_at=today - timedelta(days=days, hours=1), seconds=7 * 3600)
    answer = viewer.get(f"/clusters/shop/calendar/?from={today - timedelta(days=2):%Y-%m-%d}")
    page = answer.content.decode()
    assert page.count('class="timeline-chart"') == 7
    assert " style=" not in page, "the page's policy forbids inline style"
    _, drawing = answer.context["days"][0]
    assert re.findall(r"\d\d:\d\d", drawing.summary) == ["00:00", "06:00", "23:00", "24:00"]
    assert drawing.summary[1:] in " ".join(strip_tags(page).split())


@pytest.mark.parametrize("address", ["/clusters/shop/calendar/", "/calendar/"])
def test_list_view_has_a_header_for_each_cell(viewer: Client, address: str) -> None:
    _, backup, _ = make_trio()
    make_run(backup, started_at=timezone.now() - timedelta(minutes=5), seconds=60)
    view = part(viewer.get(address).content.decode(), 'id="as-list"', "</table>")
    head, _, body = view.partition("<tbody>")
    row = body.partition("</tr>")[0]
    assert head.count("<th ") == row.count("<th ") + row.count("<td ") > 0


def test_week_follows_the_local_clock() -> None:
    primary, backup, _ = make_trio()
    InstanceState.objects.update(observed_at=NOW)
    make_schedule(backup, cron="30 2 * * *", time_zone="Europe/Berlin", expected_seconds=3600)
    page = queries.calendar(primary.cluster, NOW, BERLIN, date(2026, 10, 23))
    assert [day.hours for day in page.days] == [24, 24, 25, 24, 24, 24, 24]
    doubled = page.days[2].timeline
    assert [bar.interval.start for bar in doubled.bars] == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]
    assert sum(item.seconds for item in doubled.free) == 24 * 3600


def test_overlapping_and_overnight_runs_are_in_both_days() -> None:
    primary, backup, _ = make_trio()
    start = datetime(2026, 10, 22, 20, tzinfo=UTC)
    make_run(backup, started_at=start, seconds=8 * 3600)
    make_run(backup, started_at=start + timedelta(hours=2), seconds=4 * 3600, method="dump")
    days = queries.calendar(primary.cluster, NOW, ZoneInfo("UTC"), date(2026, 10, 22)).days
    assert [len(day.timeline.bars) for day in days[:3]] == [2, 2, 0]
    assert days[0].timeline.free[-1].end == start
    assert days[1].timeline.free[0].start == start + timedelta(hours=8)


def test_calendar_links_weeks_and_ignores_bad_parameters(viewer: Client) -> None:
    make_trio()
    assert all(day.hours == 24 for day in viewer.get("/clusters/shop/calendar/").context["calendar"].days)
    other = viewer.get("/clusters/shop/calendar/?from=2026-01-01").context["calendar"]
    assert (other.days[0].on, other.is_now) == (date(2026, 1, 1), False)
    for text in ("x", "9999-12-31", "0001-01-01"):
        page = viewer.get(f"/clusters/shop/calendar/?from={text}")
        assert page.context["calendar"].is_now
        assert 'class="timeline-row today"' in page.content.decode()


def test_calendar_escapes_hostile_names(viewer: Client) -> None:
    primary, backup, _ = make_trio()
    Maintenance.objects.create(
        cluster=primary.cluster, starts_at=timezone.now(), reason="<script>alert(1)</script>", created_by="olga"
    )
    for address in ("/", "/clusters/shop/", "/clusters/shop/calendar/"):
        assert "<script>alert" not in viewer.get(address).content.decode()


def test_queue_page_shows_position_reason_and_end(operator: Client, viewer: Client) -> None:
    _, backup, replica = make_trio()
    now = timezone.now()
    # due again in half a day at the earliest: the line is not to wait for that run too
    row = make_schedule(backup, cron=f"30 {(now - timedelta(hours=2)).hour} * * *")
    make_run(backup, schedule=row, started_at=now - timedelta(days=1), seconds=4 * 3600)
    run = make_run(backup, schedule=row, started_at=now - timedelta(hours=1))
    rebuild = make_rebuild(target=replica, source=backup, status=Status.QUEUED)
    ends = timezone.localtime(now + timedelta(hours=3))
    for address in ("/queue/", "/clusters/shop/"):
        answer = operator.get(address)
        (line,) = [line for line in answer.context["queues"] if line.instance == "backup-1"]
        assert [(item.position, item.job.run, item.job.rebuild, item.does) for item in line.jobs] == [
            (0, run.pk, None, DOES[InstanceUse.PHYSICAL]),
            (1, None, rebuild.pk, DOES[InstanceUse.READ]),
        ]
        starts = line.jobs[1].starts
        assert starts
        assert starts.p50
        assert abs(starts.p50 - ends) < timedelta(minutes=1)
        page = answer.content.decode()
        assert "backup-1-nightly" in page.partition(f'href="/backups/runs/{run.pk}/"')[2].partition("</tr>")[0]
        waiting = page.partition(f'class="inline-link" href="/rebuilds/{rebuild.pk}/"')[2].partition("</tr>")[0]
        assert f"{timezone.localtime(starts.p50):%H:%M}" in waiting
    assert f"/rebuilds/{rebuild.pk}/cancel/" in operator.get("/queue/").content.decode()
    assert f"/rebuilds/{rebuild.pk}/cancel/" not in viewer.get("/queue/").content.decode()


def test_queue_page_orders_by_priority_then_age() -> None:
    primary, backup, replica = make_trio()
    first = make_rebuild(target=replica, source=backup, status=Status.QUEUED)
    other = primary.cluster.instances.create(
        name="replica-2", role="replica", host=replica.host, address="10.0.0.9", datadir="/d", systemd_unit="m"
    )
    urgent = make_rebuild(target=other, source=backup, status=Status.QUEUED, priority=5)
    agenda = queries.agenda_of(primary.cluster, timezone.now())
    [line] = [line for line in queues_of(agenda) if line.instance == "backup-1"]
    assert [item.job.rebuild for item in line.jobs] == [urgent.pk, first.pk]
    assert [item.position for item in line.jobs] == [1, 2]


def test_queue_page_without_jobs_has_no_table(viewer: Client) -> None:
    make_trio()
    answer = viewer.get("/queue/")
    assert (answer.status_code, answer.context["queues"]) == (200, ())
    assert "<table" not in answer.content.decode()


def test_maintenance_is_announced_and_ended_on_the_cluster_page(operator: Client, viewer: Client) -> None:
    make_trio()
    assert viewer.post("/clusters/shop/maintenance/", {"reason": "disks"}).status_code == 403
    operator.post("/clusters/shop/maintenance/", {"reason": "new disks"})
    row = Maintenance.objects.get()
    assert row.ends_at is None
    answer = operator.get("/clusters/shop/")
    assert list(answer.context["maintenances"]) == [row]
    assert row.reason in answer.content.decode()
    assert f"/clusters/shop/maintenance/{row.pk}/end/" in answer.content.decode()
    operator.post(f"/clusters/shop/maintenance/{row.pk}/end/")
    assert list(operator.get("/clusters/shop/").context["maintenances"]) == []
    refused = operator.post("/clusters/shop/maintenance/", {"reason": "old disks", "starts_at": "2020-01-01T10:00"})
    assert refused.status_code == 422
    text = refused.content.decode()
    errors = refused.context["maintenance_form"].non_field_errors()
    assert [error.code for error in errors.as_data()] == ["starts_in_past"]
    assert escape(errors[0]) in text
    assert 'value="old disks"' in text, "what was typed is kept"
    assert 'id="announce" open' in " ".join(text.split())
    assert operator.post("/clusters/shop/maintenance/", {"starts_at": "soon"}).status_code == 422
    assert Maintenance.objects.count() == 1


def feed_address(operator: Client, **values: str) -> str:
    page = operator.post("/tokens/", {"name": "office", "cluster": "", **values}).content.decode()
    return page.partition('id="feed-address">')[2].partition("</pre>")[0]


def read(client: Client, address: str) -> Calendar:
    parts = urlsplit(address)
    answer = client.get(f"{parts.path}?{parts.query}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/calendar; charset=utf-8"
    assert "private" in answer["Cache-Control"]
    assert "no-store" in answer["Cache-Control"]
    return Calendar.from_ical(answer.content)


def test_token_is_shown_once_and_opens_the_feed(operator: Client) -> None:
    _, backup, _ = make_trio()
    now = timezone.now()
    row = make_schedule(backup, cron="30 2 * * *", time_zone="Europe/Berlin", expected_seconds=3600)
    make_run(backup, schedule=row, started_at=now - timedelta(hours=30), due_at=now - timedelta(hours=30), seconds=60)
    make_run(backup, started_at=now - timedelta(days=3), seconds=60)
    address = feed_address(operator)
    assert address.startswith("http://testserver/calendar/windows.ics?token=")
    assert address.partition("token=")[2] not in operator.get("/tokens/").content.decode()
    events = read(Client(), address).walk("VEVENT")
    assert len(events) in (15, 16), "one run, and two weeks of nights"
    assert len({str(event["uid"]) for event in events}) == len(events)
    for event in events:
        assert event["dtstamp"].dt.tzinfo is not None
        assert event["dtend"].dt >= event["dtstart"].dt
        assert str(event["summary"]).startswith("shop: ")
        assert "backup-1" in str(event["summary"])
    again = read(Client(), address).walk("VEVENT")
    assert {str(event["uid"]) for event in events} == {str(event["uid"]) for event in again}
    assert AccessToken.objects.get().last_used_at is not None


def test_feed_keeps_the_uid_of_a_window_for_its_run(operator: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup, cron="* * * * *", expected_seconds=60)
    address = feed_address(operator)
    windows = {str(event["uid"]) for event in read(Client(), address).walk("VEVENT")}
    due = (timezone.now() + timedelta(minutes=3)).replace(second=0, microsecond=0)
    make_run(backup, schedule=row, started_at=due, due_at=due)
    [ran] = [event for event in read(Client(), address).walk("VEVENT") if "running" in str(event["summary"])]
    assert str(ran["uid"]) in windows


def test_token_of_one_cluster_hides_others() -> None:
    for name in ("alpha", "beta"):
        _, backup, _ = make_trio(name)
        make_schedule(backup)
        Maintenance.objects.create(cluster=backup.cluster, starts_at=timezone.now(), reason="disks", created_by="olga")
    _, secret = make_token(actor="olga", name="one", purpose="calendar", cluster=backup.cluster)
    text = Client().get(f"/calendar/windows.ics?token={secret}").content.decode()
    assert "beta" in text
    assert "alpha" not in text


def test_calendar_feed_is_refused_without_a_valid_token() -> None:
    primary, _, _ = make_trio()
    _, secret = make_token(actor="olga", name="one", purpose="calendar", cluster=None)
    _, report = make_token(actor="olga", name="two", purpose="report", cluster=primary.cluster)
    for text in ("", "x", report):
        assert Client().get(f"/calendar/windows.ics?token={text}").status_code == 403
    assert Client().post(f"/calendar/windows.ics?token={secret}").status_code == 405
    assert Client().get(f"/?token={secret}").status_code == 302, "it opens nothing else"
    revoke_token(actor="olga", name="one")
    answer = Client().get(f"/calendar/windows.ics?token={secret}")
    assert answer.status_code == 403
    assert "VEVENT" not in answer.content.decode()


def test_token_pages_need_an_operator(viewer: Client, operator: Client) -> None:
    row, _ = make_token(actor="olga", name="one", purpose="calendar", cluster=None)
    assert viewer.get("/tokens/").status_code == 403
    assert viewer.post(f"/tokens/{row.pk}/revoke/").status_code == 403
    operator.post(f"/tokens/{row.pk}/revoke/")
    assert AccessToken.objects.get().revoked_at is not None
    assert operator.post("/tokens/", {"name": "one"}).status_code == 422


def test_access_log_contains_no_token(caplog: pytest.LogCaptureFixture) -> None:
    access = logging.getLogger("uvicorn.access")
    with caplog.at_level(logging.INFO):
        access.info('%s - "%s %s HTTP/%s" %d', "::1", "GET", "/calendar/windows.ics?token=s3cret&x=1", "1.1", 200)
    assert "s3cret" not in caplog.text
    assert "token=...&x=1" in caplog.text


def test_queue_includes_a_waiting_backup() -> None:
    primary, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    Hold.objects.create(instance=backup, rebuild=rebuild, purpose="source", taken_at=timezone.now())
    run = make_run(backup, started_at=None, status="queued", origin="managed", queued_at=timezone.now())
    [line] = [
        line for line in queues_of(queries.agenda_of(primary.cluster, timezone.now())) if line.instance == "backup-1"
    ]
    assert [(item.job.rebuild, item.job.run, item.position) for item in line.jobs] == [
        (rebuild.pk, None, 0),
        (None, run.pk, 1),
    ]


def test_calendar_feed_has_a_limit_and_says_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ENTRIES_AT_MOST", 5)
    _, backup, _ = make_trio()
    make_schedule(backup)
    events = read(Client(), feed_address(operator)).walk("VEVENT")
    assert len(events) == 6
    assert re.findall(r"\d+", str(events[-1]["description"])) == ["9"]


def test_expected_start_is_unknown_before_approval(viewer: Client) -> None:
    primary, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.QUEUED, approval="waiting")
    make_run(
        backup,
        started_at=None,
        status="queued",
        origin="managed",
        queued_at=timezone.now() + timedelta(seconds=1),
    )
    for expected in ("waiting", "approved"):
        type(rebuild).objects.update(approval=expected)
        agenda = queries.agenda_of(primary.cluster, timezone.now())
        [line] = [line for line in queues_of(agenda) if line.instance == "backup-1"]
        own = next(item for item in line.jobs if item.job.rebuild == rebuild.pk)
        behind = next(item for item in line.jobs if item.job.run)
        told = words(viewer, "/queue/")
        if expected == "waiting":
            assert (own.starts and own.starts.p50, own.why) == (None, NOT_APPROVED.reason)
            assert NOT_APPROVED.reason in told
            assert f" {rebuild.pk} " not in behind.why, "it blocks no other job"
        else:
            assert own.why != NOT_APPROVED.reason
            assert f" {rebuild.pk} " in behind.why


def test_rollback_leaves_the_source_free_in_the_timeline(viewer: Client) -> None:
    primary, backup, replica = make_trio()
    now = timezone.now()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    rows = type(rebuild).objects.filter(pk=rebuild.pk)
    rows.update(started_at=now - timedelta(hours=3), finished_at=now - timedelta(hours=2))
    for method, blocked in (("xbstream", 1), ("rollback", 0)):
        rows.update(method=method)
        timeline = queries.agenda_of(primary.cluster, now).timeline
        past = [item for item in timeline.blocked if item.interval.end <= now]
        (bar,) = timeline.bars
        assert (len(past), bar.rebuild) == (blocked, rebuild.pk)
        assert "replica-1" in bar.title
        assert ("backup-1" in bar.title) is bool(blocked)
