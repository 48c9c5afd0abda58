"""What if, in the browser: the real history with one thing changed, and the best change named."""

import csv
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.models import BackupRun, Instance, InstancePeriod, InstanceState
from tests.app.factories import make_instance, make_run, make_schedule, make_trio

pytestmark = pytest.mark.django_db
PAGE = "/availability/shop/what-if/"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, viewer: Client) -> Client:
    """Two backup instances, read from 02:00 to 06:00 and from 05:00 to 09:00 of each of seven days: an hour a day with no source."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    trio = make_trio()
    other = make_instance("backup-2", cluster=trio[0].cluster, role="backup")
    InstanceState.objects.create(instance=other, probe_due_at=NOON)
    for instance in (*trio, other):
        InstancePeriod.objects.create(
            cluster=instance.cluster,
            instance=instance,
            name=instance.name,
            role=instance.role,
            state="healthy",
            started_at=NOON - timedelta(days=40),
        )
        InstanceState.objects.filter(instance=instance).update(observed_at=NOON)
    runs_of(trio[1], "0 2 * * *", 2, 4)
    runs_of(other, "0 5 * * *", 5, 4)
    return viewer


def runs_of(instance: Instance, cron: str, hour: int, hours: int) -> None:
    schedule = make_schedule(instance, cron=cron, method="dump")
    for day in range(7):
        start = NOON.replace(hour=hour) - timedelta(days=day)
        make_run(instance, started_at=start, seconds=hours * 3600, schedule=schedule, method="dump")


def words(client: Client, query: str = "") -> str:
    answer = client.get(f"{PAGE}?days=7{query}")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_best_single_change_is_named_with_its_number(two: Client) -> None:
    text = words(two)
    assert "no rebuild could start for 7 h 00 min" in text
    assert "Moving backup-1-nightly from 02:00 to 23:00 removes 100 % of the blocked time." in text
    found = two.get(f"{PAGE}?days=7&format=json").json()
    assert found["removed_percent"] == 0
    told = {one["change"]: one["removed_percent"] for one in found["best"]}
    assert told["moving backup-2-nightly from 05:00 to 08:00"] == 100
    assert told["adding a source that no backup reads"] == 100
    assert all(one > 0 for one in told.values())


def test_what_was_asked_for_stands_beside_what_was(two: Client) -> None:
    found = two.get(f"{PAGE}?days=7&schedule=backup-1-nightly&hours=2&format=json").json()
    [row] = [one for one in found["gaps"] if one["gap"] == "no rebuild could start"]
    assert (row["seconds"], row["seconds_with_the_change"]) == (7 * 3600, 7 * 3 * 3600)
    text = words(two, "&schedule=backup-1-nightly&hours=2")
    assert "Moving backup-1-nightly from 02:00 to 04:00" in text
    assert "adds to the blocked time" in text
    text = words(two, "&source=1")
    assert "removes 100 % of the blocked time" in text


def test_all_of_it_as_csv(two: Client) -> None:
    answer = two.get(f"{PAGE}?days=7&schedule=backup-1-nightly&hours=2&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="what-if-shop-2026-03-04.csv"'
    rows = list(csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n")))
    assert rows[0]["from"].endswith("+00:00")
    [gap] = [row for row in rows if row["part"] == "gap" and row["what"] == "no rebuild could start"]
    assert gap["change"] == "moving backup-1-nightly from 02:00 to 04:00"
    assert (float(gap["seconds"]), float(gap["seconds with the change"])) == (7 * 3600, 7 * 3 * 3600)
    assert float(gap["removed percent"]) == -200
    proposals = {row["change"]: float(row["removed percent"]) for row in rows if row["part"] == "proposal"}
    assert proposals["adding a source that no backup reads"] == 100
    ways = {row["what"]: row["why"] for row in rows if row["part"] == "way of rebuilding"}
    assert ways["by the stream"] == "a backup reads the source"
    text = words(two, "&schedule=backup-1-nightly&hours=2")
    assert 'href="?days=7&amp;schedule=backup-1-nightly&amp;hours=2&amp;format=csv"' in text


def test_a_physical_backup_is_offered_where_one_was_measured(two: Client) -> None:
    assert "Made as" not in words(two)
    replica = Instance.objects.get(name="replica-1")
    make_run(replica, started_at=NOON - timedelta(days=30), seconds=3600, method="physical")
    text = words(two, "&schedule=backup-1-nightly&as=physical")
    assert "physical backup, 1 h 00 min" in text
    assert "Making backup-1-nightly a physical backup" in text
    assert "removes 100 %" in text


def test_ways_of_rebuilding_stand_beside_each_other(two: Client) -> None:
    """Dumps of others are not known to be whole: nothing could be rebuilt from them; one that dbops made could."""
    ways = {one["way"]: round(one["percent"]) for one in two.get(f"{PAGE}?days=7&format=json").json()["by_method"]}
    assert ways == {"from the last dump": 100, "from the last physical backup": 100, "by the stream": 4}
    text = words(two).partition('id="ways-title"')[2]
    assert (
        "No complete dump that dbops made; the 14 dumps that others made are not counted: dbops does not know whether they are whole"
        in text
    )
    assert "No complete physical backup that dbops made <" in text.replace("</div>", "<")
    assert "A backup reads the source" in text
    BackupRun.objects.update(origin="managed")
    ways = {one["way"]: round(one["percent"]) for one in two.get(f"{PAGE}?days=7&format=json").json()["by_method"]}
    assert ways["from the last dump"] < 20
    assert "that others made" not in words(two)


@pytest.mark.parametrize(
    "query", ["&hours=x", "&hours=99", "&schedule=nobody&hours=3", "&source=9", "&as=x", "&schedule=%00"]
)
def test_nonsense_in_the_address_asks_for_nothing(two: Client, query: str) -> None:
    assert "As it was: choose a change above" in words(two, query)


def test_as_many_queries_however_much_was_stored(two: Client, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(19):
        words(two)


def test_nobody_else_looks(client: Client, sam: Any) -> None:
    assert client.get(PAGE).status_code == 302
    client.force_login(sam)
    make_trio()
    assert client.get(PAGE).status_code == 403


def test_a_cluster_in_which_nothing_was_in_the_way(viewer: Client) -> None:
    make_trio()
    assert "there is nothing to remove" in words(viewer)
    assert viewer.get("/availability/nowhere/what-if/").status_code == 404
