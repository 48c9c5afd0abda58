"""The calendar of all clusters, and what is known today of their availability."""

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.schedule.eligibility import EligibilityState
from dbops.engine.states import Status
from dbops.models import Maintenance
from dbops.queries.schedule import fleet_calendar as queries
from dbops.queries.schedule.fleet_calendar import CalendarSpan
from dbops.web.charts.timeline import calendar_row
from tests.app.factories import (
    make_cluster,
    make_facts,
    make_instance,
    make_rebuild,
    make_run,
    make_schedule,
    make_trio,
    make_unreachable,
    set_facts,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 10, 24, 10, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
#: Those of the session, the user and the rights included.
CALENDAR_PAGE_QUERIES, AVAILABILITY_PAGE_QUERIES = 29, 47


def names(**wanted: Any) -> list[str]:
    return [agenda.cluster.name for agenda in queries.fleet_calendar(NOW, BERLIN, **wanted).rows]


def test_fleet_calendar_row_has_windows_runs_rebuilds_and_maintenance(viewer: Client) -> None:
    primary, backup, replica = make_trio()
    make_trio("billing")
    now = timezone.now()
    make_schedule(backup, cron=f"30 {(now + timedelta(hours=2)).hour} * * *", expected_seconds=600)
    run = make_run(backup, started_at=now - timedelta(hours=2), seconds=60)
    make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    Maintenance.objects.create(cluster=primary.cluster, starts_at=now, reason="switch replaced", created_by="olga")
    page = viewer.get("/calendar/?span=week&from=" + f"{now - timedelta(days=1):%Y-%m-%d}").content.decode()
    assert page.count('class="timeline-chart"') == 2
    for kind in ("bar-backup", "bar-window", "bar-rebuild", "bar-maintenance", "band-free", "band-blocked"):
        assert kind in page.partition("</ul>")[2], kind
    assert f"/backups/runs/{run.pk}/" in page.partition('id="as-list"')[2]
    assert " style=" not in page


def test_fleet_calendar_shows_a_cluster_without_a_source(viewer: Client) -> None:
    make_instance("lonely", cluster=make_cluster("solo"), role="primary", facts=make_facts(read_only=False))
    answer = viewer.get("/calendar/")
    [(agenda, _)] = answer.context["rows"]
    assert agenda.eligibility.answer is EligibilityState.NO_SOURCE
    row = answer.content.decode().partition('class="timeline-row"')[2].partition("</div>")[0]
    assert ("No source" in row, "no estimate" in row) == (True, False)


def test_fleet_calendar_follows_the_local_clock() -> None:
    make_trio()
    day = queries.fleet_calendar(NOW, BERLIN, first=date(2026, 10, 25))
    assert day.changed_hours == 25
    assert day.rows[0].timeline.within.seconds == 25 * 3600
    week = queries.fleet_calendar(NOW, BERLIN, span=CalendarSpan.WEEK)
    assert (week.first, week.last, week.before, week.after) == (
        date(2026, 10, 24), date(2026, 10, 30), date(2026, 10, 17), date(2026, 10, 31),
    )  # fmt: skip
    assert sum(one.seconds for one in week.days) == (7 * 24 + 1) * 3600


def test_fleet_calendar_words_name_the_days() -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, cron="30 2 * * *", expected_seconds=3600)
    now = timezone.now()
    [agenda] = queries.fleet_calendar(now, BERLIN, span=CalendarSpan.WEEK).rows
    # neither the day that has begun nor the one at the end of the week ahead: both are cut at what is shown
    day, next_day = (now.astimezone(BERLIN) + timedelta(days=number) for number in (2, 3))
    told = calendar_row(agenda.timeline, name="shop", days=7).summary
    times = re.findall(r"[A-Z]\w\w \d\d:\d\d", told)
    assert (f"{day:%a} 03:30", f"{next_day:%a} 02:30") in pairwise(times)


def test_fleet_calendar_filters_by_cluster_or_instance() -> None:
    make_trio()
    make_trio("billing")
    assert names() == ["billing", "shop"]
    assert names(text="SHO") == ["shop"]
    assert names(text="billing-Replica") == ["billing"]
    assert names(text="%") == []


def test_fleet_calendar_filters_blocked_clusters() -> None:
    primary, _, _ = make_trio()
    make_trio("billing")
    Maintenance.objects.create(cluster=primary.cluster, starts_at=NOW, reason="x", created_by="olga")
    # facts are judged at the moment of the question
    now = timezone.now()
    [shop] = queries.fleet_calendar(now, BERLIN, is_blocked=True).rows
    assert shop.cluster.name == "shop"
    assert queries.fleet_calendar(now, BERLIN, is_blocked=True, text="billing").rows == ()


def test_fleet_calendar_has_25_rows_a_page(viewer: Client) -> None:
    for number in range(26):
        make_trio(f"c{number:02}")
    assert viewer.get("/calendar/").content.decode().count('class="timeline-chart"') == 25
    page = viewer.get("/calendar/?page=2&span=week").content.decode()
    assert page.count('class="timeline-chart"') == 1
    assert "page=1" in page
    assert "span=week" in page.partition('class="pages"')[2]


@pytest.mark.parametrize("clusters", [2, 7])
@pytest.mark.parametrize(
    ("address", "queries_at_most"),
    [
        ("/calendar/", CALENDAR_PAGE_QUERIES),
        ("/calendar/?span=week&text=c", CALENDAR_PAGE_QUERIES),
        ("/calendar/?blocked=1", CALENDAR_PAGE_QUERIES),
        ("/availability/", AVAILABILITY_PAGE_QUERIES),
    ],
)
def test_fleet_calendar_takes_a_fixed_number_of_queries(
    viewer: Client, clusters: int, address: str, queries_at_most: int
) -> None:
    for number in range(clusters):
        _, backup, _ = make_trio(f"c{number}")
        make_schedule(backup)
        make_run(backup, started_at=timezone.now() - timedelta(hours=1))
        set_facts(backup, make_unreachable())
    with CaptureQueriesContext(connection) as asked:
        assert viewer.get(address).status_code == 200
    assert len(asked) == queries_at_most


@pytest.mark.parametrize("address", ["/calendar/", "/availability/"])
@pytest.mark.parametrize(
    "query", ["from=x", "from=0001-01-01", "from=9999-12-31", "span=year", "blocked=x", "page=x", "page=-1", "text=%00", "show=x"]
)  # fmt: skip
def test_fleet_calendar_ignores_bad_parameters(viewer: Client, address: str, query: str) -> None:
    make_trio()
    assert viewer.get(f"{address}?{query}").status_code == 200


@pytest.mark.parametrize("address", ["/calendar/", "/availability/", "/backups/history/"])
def test_pages_of_an_empty_fleet_have_a_note_and_no_table(viewer: Client, address: str) -> None:
    page = viewer.get(address).content.decode()
    assert 'class="empty-note"' in page
    assert "<table" not in page


def test_fleet_calendar_has_a_note_when_nothing_is_blocked(viewer: Client) -> None:
    make_trio()
    answer = viewer.get("/calendar/?blocked=1")
    assert (answer.context["calendar"].clusters, answer.context["rows"]) == (1, [])
    assert 'class="empty-note"' in answer.content.decode()


def test_availability_page_shows_the_current_state(viewer: Client) -> None:
    _, backup, replica = make_trio()
    make_trio("billing")
    set_facts(replica, make_unreachable())
    now = timezone.now()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    make_rebuild(target=replica, source=backup, status=Status.FAILED)
    make_run(backup, started_at=now - timedelta(hours=9), seconds=60)
    newest = make_run(backup, started_at=now - timedelta(hours=5), seconds=3600)
    make_run(backup, started_at=now - timedelta(hours=3), seconds=60, status="failed")
    answer = viewer.get("/availability/")
    shop, billing = answer.context["found"].rows
    cluster = shop.row.agenda.cluster
    assert (len(cluster.healthy_replicas), len(cluster.replicas)) == (1, 2)
    assert (shop.rebuild.pk, shop.backup.pk) == (rebuild.pk, newest.pk)
    assert (billing.rebuild, billing.backup) == (None, None)
    page = answer.content.decode()
    assert f'href="/rebuilds/{rebuild.pk}/"' in page
    assert "4 h ago" in page.partition(f'href="/backups/runs/{newest.pk}/"')[2].partition("</td>")[0]


def test_menu_marks_the_current_page(viewer: Client) -> None:
    make_trio()
    for address, menu, tab in (
        ("/", "/", ""),
        ("/clusters/shop/calendar/", "/", ""),
        ("/backups/", "/backups/", "/backups/"),
        ("/schedules/", "/backups/", "/schedules/"),
        ("/backups/history/", "/backups/", "/backups/history/"),
        ("/calendar/", "/backups/", "/calendar/"),
        ("/queue/", "/backups/", "/queue/"),
        ("/availability/", "/availability/", ""),
        ("/audit/", "/audit/", ""),
    ):
        page = viewer.get(address).content.decode()
        marked = re.findall(r'<a href="([^"]*)"\s+aria-current="page"', page)
        assert marked[0] == menu, address
        if tab:
            assert marked == [menu, tab], address
