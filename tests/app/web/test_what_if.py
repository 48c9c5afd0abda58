"""What if, in the browser: the real history with one thing changed, and the best change named."""

import csv
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap
from dbops.engine.availability.what_if import WhatIfChange
from dbops.engine.methods import METHODS
from dbops.models import BackupRun, Instance, InstanceState
from tests.app.factories import make_instance, make_period, make_run, make_schedule, make_trio

from .marks import marks, text_of

pytestmark = pytest.mark.django_db
PAGE = "/availability/shop/what-if/"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MOVED = "&schedule=backup-1-nightly&hours=2"


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, viewer: Client) -> Client:
    """Two backup instances, read from 02:00 to 06:00 and from 05:00 to 09:00 of each of seven days: an hour a day with no source."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    trio = make_trio()
    other = make_instance("backup-2", cluster=trio[0].cluster, role="backup")
    InstanceState.objects.create(instance=other, probe_due_at=NOON)
    for instance in (*trio, other):
        make_period(instance, "healthy", NOON - timedelta(days=40))
        InstanceState.objects.filter(instance=instance).update(observed_at=NOON)
    runs_of(trio[1], "0 2 * * *", 2, 4)
    runs_of(other, "0 5 * * *", 5, 4)
    return viewer


def runs_of(instance: Instance, cron: str, hour: int, hours: int) -> None:
    schedule = make_schedule(instance, cron=cron, method="dump")
    for day in range(7):
        start = NOON.replace(hour=hour) - timedelta(days=day)
        make_run(instance, started_at=start, seconds=hours * 3600, schedule=schedule, method="dump")


def ask(client: Client, query: str = "") -> Any:
    answer = client.get(f"{PAGE}?days=7{query}")
    assert answer.status_code == 200
    return answer


def as_json(client: Client, query: str = "") -> Any:
    return ask(client, f"{query}&format=json").json()


def percents(client: Client) -> dict[str, int]:
    """Return by method for how much of the period no rebuild could start."""
    return {one["method"]: round(one["percent"]) for one in as_json(client)["by_method"]}


def test_page_names_the_change_that_removes_most(two: Client) -> None:
    answer = ask(two)
    assert answer.context["found"].blocked_seconds == 7 * 3600
    first = answer.context["best"][0]
    assert first.outcome.change == WhatIfChange("backup-1-nightly", by=-3 * HOUR)
    assert all(part in first.text for part in ("backup-1-nightly", "02:00", "23:00"))
    page = text_of(answer)
    assert marks(page, "best") == ["100"]
    assert marks(page, "proposal")[0] == "100"
    assert 'href="?days=7&amp;schedule=backup-1-nightly&amp;hours=-3"' in page
    found = as_json(two)
    assert found["removed_percent"] == 0
    shown = {
        (one["schedule"], one["moved_by_hours"], one["as_physical"], one["adds_source"]): one["removed_percent"]
        for one in found["best"]
    }
    assert shown["backup-2-nightly", 3, False, False] == 100
    assert shown["", 0, False, True] == 100
    assert all(one > 0 for one in shown.values())


def test_page_compares_the_requested_change_with_the_history(two: Client) -> None:
    found = as_json(two, MOVED)
    [row] = [one for one in found["gaps"] if one["gap"] == Gap.NOT_REBUILDABLE]
    assert (row["seconds"], row["seconds_with_the_change"]) == (7 * 3600, 7 * 3 * 3600)
    answer = ask(two, MOVED)
    assert all(part in answer.context["change_text"] for part in ("backup-1-nightly", "02:00", "04:00"))
    assert marks(text_of(answer), "removed") == ["-200"]
    assert marks(text_of(ask(two, "&source=1")), "removed") == ["100"]


def test_csv_has_all_that_the_page_shows(two: Client) -> None:
    answer = two.get(f"{PAGE}?days=7{MOVED}&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="what-if-shop-2026-03-04.csv"'
    rows = list(csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n")))
    assert rows[0]["from"].endswith("+00:00")
    [gap] = [row for row in rows if row["part"] == "gap" and row["what"] == Gap.NOT_REBUILDABLE]
    asked = ask(two, MOVED)
    assert gap["change"] == asked.context["change_text"]
    assert (float(gap["seconds"]), float(gap["seconds with the change"])) == (7 * 3600, 7 * 3 * 3600)
    assert float(gap["removed percent"]) == -200
    proposals = {row["change"]: float(row["removed percent"]) for row in rows if row["part"] == "proposal"}
    [added] = [one["change"] for one in as_json(two)["best"] if one["adds_source"]]
    assert proposals[added] == 100
    shorts = {METHODS[method].short for method in ("dump", "archive", "xbstream")}
    ways = {row["what"]: row["why"] for row in rows if row["what"] in shorts}
    assert ways.keys() == shorts
    assert ways[METHODS["xbstream"].short] == Cause.BACKUP
    page = text_of(asked)
    assert 'href="?days=7&amp;schedule=backup-1-nightly&amp;hours=2&amp;format=csv"' in page


def test_page_offers_a_physical_backup_when_one_was_measured(two: Client) -> None:
    assert 'name="as"' not in text_of(ask(two))
    replica = Instance.objects.get(name="replica-1")
    make_run(replica, started_at=NOON - timedelta(days=30), seconds=3600, method="physical")
    answer = ask(two, "&schedule=backup-1-nightly&as=physical")
    assert answer.context["found"].physical.p50_seconds == 3600
    change = answer.context["found"].outcome.change
    assert (change.schedule, change.by, change.takes) == ("backup-1-nightly", timedelta(), HOUR)
    assert "backup-1-nightly" in answer.context["change_text"]
    page = text_of(answer)
    assert 'name="as"' in page
    assert "1 h 00 min" in page.partition('value="physical"')[2].partition("</option>")[0]
    assert marks(page, "removed") == ["100"]


def test_page_compares_methods_and_counts_only_complete_backups(two: Client) -> None:
    """An external dump may be incomplete, so no rebuild uses it; a dump by dbops can be used."""
    assert percents(two) == {"dump": 100, "archive": 100, "xbstream": 4}
    answer = ask(two)
    assert marks(text_of(answer), "way") == ["dump", "archive", "xbstream"]
    causes = {way.method: way.causes[0][0] for way in answer.context["found"].ways}
    # The 14 dumps of others are named; no physical backup of others is there to name.
    assert re.findall(r"\d+", causes["dump"]) == ["14"]
    assert re.findall(r"\d+", causes["archive"]) == []
    assert causes["xbstream"] == Cause.BACKUP
    shown = text_of(answer).partition('id="ways-title"')[2].lower()
    assert all(cause.lower() in shown for cause in causes.values())
    BackupRun.objects.update(origin="managed")
    assert percents(two)["dump"] < 20
    assert all("14" not in cause for way in ask(two).context["found"].ways for cause, _ in way.causes)


@pytest.mark.parametrize(
    "query", ["&hours=x", "&hours=99", "&schedule=missing&hours=3", "&source=9", "&as=x", "&schedule=%00"]
)
def test_page_ignores_a_query_that_it_cannot_read(two: Client, query: str) -> None:
    answer = ask(two, query)
    assert answer.context["change_text"] == ""
    assert answer.context["found"].outcome.change == WhatIfChange()
    assert marks(text_of(answer), "removed") == []


def test_page_takes_a_fixed_number_of_queries(two: Client, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(19):
        ask(two)


def test_page_needs_a_viewer(client: Client, sam: Any) -> None:
    assert client.get(PAGE).status_code == 302
    client.force_login(sam)
    make_trio()
    assert client.get(PAGE).status_code == 403


def test_page_proposes_nothing_when_nothing_was_blocked(viewer: Client) -> None:
    make_trio()
    answer = ask(viewer)
    assert (answer.context["found"].blocked_seconds, answer.context["best"]) == (0, [])
    assert marks(text_of(answer), "best") == []
    assert viewer.get("/availability/nowhere/what-if/").status_code == 404
