"""Backups over time: each series has its charts, its words and its table, however many runs there are."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.models import BackupRun, Instance
from dbops.queries.backups import trends as queries
from tests.app.factories import make_run, make_schedule, make_trio

pytestmark = pytest.mark.django_db
NOW = timezone.now()
#: Those of the session, the user and the rights included.
HISTORY_PAGE_QUERIES = 9


def nights(instance: Instance, count: int, **values: Any) -> list[BackupRun]:
    given: dict[str, Any] = {"seconds": 3600, "bytes_written": 5 * 1024**3, **values}
    return [
        make_run(instance, started_at=NOW - timedelta(days=number, hours=2), **given) for number in range(1, count + 1)
    ]


def found(**wanted: Any) -> list[queries.Series]:
    return list(queries.history(NOW, **{"days": 90, **wanted}).series)


def test_trend_points_are_links_with_shape_and_word(viewer: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup)
    usual = nights(backup, 5, schedule=row)
    odd = make_run(backup, started_at=NOW - timedelta(days=9), seconds=9000, schedule=row, flags=["too_long", "late"])
    missed = make_run(backup, started_at=NOW - timedelta(days=8), seconds=1, schedule=row, status="missed")
    BackupRun.objects.filter(pk=missed.pk).update(started_at=None, due_at=NOW - timedelta(days=8))
    answer = viewer.get("/backups/history/")
    page = answer.content.decode()
    charts = page.partition('class="trends"')[2].partition("</section>")[0]
    duration = charts.partition("</svg></a></svg>")[0]
    for run in (*usual, odd, missed):
        assert f'href="/backups/runs/{run.pk}/"' in duration
    assert "mark-too_long" in duration
    assert "mark-missed" in duration
    assert 'class="trend-median"' in duration
    assert 'class="trend-late"' in duration
    label = duration.partition('aria-label="')[2].partition('"')[0]
    assert re.search(r"\b6\b", label)
    assert not re.search(r"\b7\b", label), "what was missed took no time"
    named = page.partition('class="trend-marks"')[2].partition("</ul>")[0]
    (card,) = answer.context["cards"]
    marks = {mark.run.run: mark for mark in card.marks}
    assert set(marks) == {odd.pk, missed.pk}
    assert set(marks[odd.pk].run.codes) == {"too_long", "late"}
    for run, mark in marks.items():
        assert f'href="/backups/runs/{run}/">{mark.text}</a>' in named
    assert page.partition('class="fold-inner"')[2].count("<tr>") == 8
    assert " style=" not in page


def test_trend_points_take_focus_only_when_unusual(viewer: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup)
    nights(backup, 20, schedule=row)
    make_run(backup, started_at=NOW - timedelta(days=30), seconds=60, schedule=row, status="failed")
    page = viewer.get("/backups/history/").content.decode()
    points = re.findall(r'<a href="/backups/runs/\d+/" ([^>]*)class="trend-point">', page)
    assert len(points) == 20 + 20 + 2
    assert sum("tabindex" not in point for point in points) == 2
    assert all(("aria-hidden" in point) == ("tabindex" in point) for point in points)


def test_trend_series_without_schedule_are_by_instance_and_method() -> None:
    _, backup, replica = make_trio()
    make_schedule(backup)
    nights(backup, 2, method="dump")
    nights(backup, 3)
    nights(replica, 1)
    named = {(one.key.instance_name, one.key.name, one.key.method): one.total for one in found()}
    assert named == {
        ("backup-1", "", "dump"): 2,
        ("backup-1", "", "physical"): 3,
        ("backup-1", "backup-1-nightly", "physical"): 0,
        ("replica-1", "", "physical"): 1,
    }


def test_trend_filters_are_in_the_address(viewer: Client) -> None:
    _, backup, _ = make_trio()
    make_trio("billing")
    row = make_schedule(backup)
    nights(backup, 50, schedule=row)
    assert [one.total for one in found(days=30)] == [29]
    assert [one.total for one in found(days=90, text="SHOP")] == [50]
    assert found(text="billing") == []
    assert '<option value="365" selected>' in viewer.get("/backups/history/?days=365").content.decode()
    nothing = viewer.get("/backups/history/?text=billing")
    assert nothing.context["cards"] == []
    assert 'class="empty-note"' in nothing.content.decode()


def test_history_draws_a_bounded_number_of_runs(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup)
    nights(backup, 12, schedule=row)
    monkeypatch.setattr(queries, "RUNS_DRAWN", 10)
    [one] = found()
    assert (len(one.runs), one.total) == (10, 12)
    assert one.runs[-1].at > one.runs[0].at, "the newest ones, the oldest first"
    assert 'data-total="12"' in viewer.get("/backups/history/").content.decode()


@pytest.mark.parametrize("clusters", [1, 5])
def test_trends_take_a_fixed_number_of_queries(viewer: Client, clusters: int) -> None:
    for number in range(clusters):
        _, backup, replica = make_trio(f"c{number}")
        nights(backup, 10, schedule=make_schedule(backup))
        nights(replica, 5)
    with CaptureQueriesContext(connection) as asked:
        assert viewer.get("/backups/history/").status_code == 200
    assert len(asked) == HISTORY_PAGE_QUERIES


@pytest.mark.parametrize(
    "query", ["days=x", "days=-1", "days=99999999999999999999", "page=x", "page=-4", "page=999", "text=%00", "text=%25_'", "days="]
)  # fmt: skip
def test_backup_history_ignores_bad_parameters(viewer: Client, query: str) -> None:
    _, backup, _ = make_trio()
    nights(backup, 2, schedule=make_schedule(backup))
    assert viewer.get(f"/backups/history/?{query}").status_code == 200


def test_trends_escape_hostile_names(viewer: Client) -> None:
    _, backup, _ = make_trio()
    row = make_schedule(backup, '"><script>alert(1)</script>')
    nights(backup, 2, schedule=row, flags=["<b>"])
    page = viewer.get("/backups/history/").content.decode()
    assert "<script>alert" not in page
    assert "<b>" not in page
