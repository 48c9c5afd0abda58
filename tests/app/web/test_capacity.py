"""The capacity page: limits by date, charts that say what they show, thresholds, and the flags of other pages."""

import csv
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.capacity.advice_inputs import AdviceKind
from dbops.engine.capacity.limits import LimitKind, LimitState
from dbops.engine.capacity.waits import WaitComparison
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.facts.waits import WaitShare
from dbops.lifecycle.capacity_forecasts import store_limits
from dbops.loaders.capacity import limits_now
from dbops.models import (
    AuditEntry,
    CapacityForecast,
    CapacityReading,
    CapacityThreshold,
    Cluster,
    Instance,
    WaitReading,
)
from dbops.operations.capacity import set_thresholds
from dbops.web.capacity_limits import days_text, when_text
from dbops.web.charts.growth import GrowthLine, growth_chart
from tests.app.factories import make_operator, make_trio, make_viewer

from .marks import marks

pytestmark = pytest.mark.django_db
PAGE = "/clusters/shop/capacity/"
GIB = 1024**3
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
#: Those of the session, the user and the rights included.
CAPACITY_PAGE_QUERIES = 12


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW)


def read(instance: Instance, days: int, *, a_day: int = GIB, free: int = 40 * GIB, **values: Any) -> None:
    """Leave a reading a day: used space that grows steadily, and one schema more every second day."""
    CapacityReading.objects.bulk_create(
        CapacityReading(
            instance=instance,
            at=NOW - timedelta(days=ago, minutes=5),
            is_daily=ago > 14,
            disk_bytes=500 * GIB,
            disk_free_bytes=free + ago * a_day,
            schemas=500 - ago // 2,
            tables=9000,
            questions_per_second=120.0,
            **values,
        )
        for ago in range(days - 1, -1, -1)
    )


def forecast(cluster: Cluster) -> CapacityForecast:
    row, _ = CapacityForecast.objects.get_or_create(cluster=cluster, defaults={"due_at": NOW})
    store_limits(row, limits_now(cluster, NOW), NOW)
    row.refresh_from_db()
    return row


@pytest.fixture
def primary() -> Instance:
    return make_trio()[0]


def limits_on(page: str) -> list[tuple[str, str]]:
    """Return kind and state of each limit, in the order of the page."""
    return re.findall(r'<li data-limit="([^"]*)"\s+data-state="([^"]*)"', page)


def test_capacity_page_ranks_limits_by_date(viewer: Client, primary: Instance) -> None:
    largest = [{"schema": "shop", "table": "orders", "bytes": 7 * GIB}]
    read(primary, 60, largest=largest, table_definition_cache=20_000)
    CapacityThreshold.objects.create(cluster=primary.cluster, kind=LimitKind.SCHEMAS, value=600)
    forecast(primary.cluster)
    answer = viewer.get(PAGE)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert limits_on(page) == [("disk", "ahead"), ("schemas", "ahead"), ("definitions", "not-growing")]
    disk = answer.context["rows"][0]
    assert disk.days == days_text(disk.limit, NOW)
    assert "39" in disk.days or "40" in disk.days
    assert re.search(r"\b2026-04-1\d\b", answer.context["soonest"])
    assert dict(disk.evidence)["Backtest"]
    assert answer.context["instance"] == primary.name
    assert "shop.orders" in page
    assert page.count('class="growth-band"') == 1 + 3, "the legend, and each figure with a trend"
    assert " style=" not in page


def test_capacity_page_of_a_new_cluster_has_no_dates(viewer: Client, primary: Instance) -> None:
    answer = viewer.get(PAGE)
    assert (answer.status_code, answer.context["rows"], answer.context["charts"][0].drawing) == (200, [], "")
    read(primary, 9)
    forecast(primary.cluster)
    answer = viewer.get(PAGE)
    (row,) = answer.context["rows"]
    assert row.limit.state is LimitState.UNKNOWN
    assert "9" in when_text(row.limit)
    assert "28" in when_text(row.limit)
    assert (row.days, row.per_day, answer.context["soonest"]) == ("", "—", "")
    assert marks(answer.content.decode(), "soonest") == []


def test_capacity_page_lists_one_row_for_each_limit_with_the_soonest_instance(viewer: Client) -> None:
    primary, backup, replica = make_trio()
    for instance, free in ((primary, 90), (backup, 30), (replica, 60)):
        read(instance, 40, free=free * GIB)
    forecast(primary.cluster)
    answer = viewer.get(PAGE)
    (row,) = answer.context["rows"]
    assert (row.limit.instance, [other.limit.instance for other in row.others]) == (
        *("backup-1", ["replica-1", "primary-1"]),
    )
    assert answer.context["instance"] == "backup-1"
    assert viewer.get(PAGE, {"instance": "replica-1", "days": "90"}).context["instance"] == "replica-1"
    assert viewer.get(PAGE, {"instance": "../x", "days": "9 9"}).context["instance"] == "backup-1"


def test_capacity_page_takes_fixed_queries(viewer: Client) -> None:
    counts = []
    for name in ("shop", "two"):
        for instance in make_trio(name):
            read(instance, 60 if name == "two" else 30)
        forecast(instance.cluster)
        with CaptureQueriesContext(connection) as captured:
            viewer.get(f"/clusters/{name}/capacity/")
        counts.append(len(captured))
    assert counts == [CAPACITY_PAGE_QUERIES] * 2


def test_capacity_page_needs_a_login_and_a_cluster(client: Client, primary: Instance) -> None:
    assert client.get(PAGE).status_code == 302
    client.force_login(make_viewer())
    assert client.get("/clusters/none/capacity/").status_code == 404


def test_capacity_page_escapes_names_of_tables(viewer: Client, primary: Instance) -> None:
    name = "<script>alert(1)</script>"
    read(primary, 30, largest=[{"schema": name, "table": name, "bytes": 1}])
    assert name not in viewer.get(PAGE).content.decode()


def test_capacity_files_have_readings_and_limits(viewer: Client, primary: Instance) -> None:
    read(primary, 40)
    forecast(primary.cluster)
    answer = viewer.get(PAGE, {"format": "csv"})
    lines = list(csv.DictReader(answer.content.decode("utf-8-sig").splitlines()))
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert (len(lines), len(viewer.get(PAGE, {"format": "csv", "days": "90"}).content.splitlines())) == (40, 41)
    assert (lines[-1]["instance"], lines[-1]["disk_free_bytes"], lines[-1]["kept_bytes"]) == (
        *("primary-1", str(40 * GIB), ""),
    )
    content = viewer.get(PAGE, {"format": "json"}).json()
    (limit,) = content["limits"]
    assert (limit["kind"], limit["state"], limit["unit"]) == ("disk", "ahead", "bytes")
    assert limit["trend"]["backtest_days"]
    assert AuditEntry.objects.filter(action="data.exported", subject="capacity").count() == 3


def test_thresholds_are_saved_shown_and_audited(client: Client, primary: Instance) -> None:
    client.force_login(make_operator())
    read(primary, 40)
    row = forecast(primary.cluster)
    assert row.due_at > NOW
    answer = client.post(f"{PAGE}thresholds/", {"schemas": "600", "tables": "", "disk": "480"})
    assert answer.status_code == 302
    stored = dict(CapacityThreshold.objects.values_list("kind", "value"))
    assert stored == {"schemas": 600, "disk": 480 * GIB}
    row.refresh_from_db()
    assert row.due_at == NOW
    entry = AuditEntry.objects.get(action="capacity.thresholds_changed")
    assert (entry.actor, entry.subject, entry.cluster) == ("olga", "shop", "shop")
    assert set(entry.detail) == {"schemas", "disk"}
    form = client.get(PAGE).context["threshold_form"]
    assert (form.initial["schemas"], form.initial["disk"]) == (600, 480)
    client.post(f"{PAGE}thresholds/", {"schemas": "", "tables": "", "disk": "480"})
    assert dict(CapacityThreshold.objects.values_list("kind", "value")) == {"disk": 480 * GIB}
    assert AuditEntry.objects.filter(action="capacity.thresholds_changed").count() == 2
    client.post(f"{PAGE}thresholds/", {"disk": "480"})
    assert AuditEntry.objects.filter(action="capacity.thresholds_changed").count() == 2, "nothing changed"


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", str(10**40)])
def test_impossible_thresholds_are_refused(client: Client, primary: Instance, value: str) -> None:
    client.force_login(make_operator())
    answer = client.post(f"{PAGE}thresholds/", {"schemas": value})
    assert answer.status_code == 422
    assert "schemas" in answer.context["threshold_form"].errors
    assert not CapacityThreshold.objects.exists()


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_refused_form_is_a_page_and_no_file(client: Client, primary: Instance, kind: str) -> None:
    client.force_login(make_operator())
    read(primary, 40)
    answer = client.post(f"{PAGE}thresholds/?format={kind}", {"schemas": "0"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "text/html; charset=utf-8")
    assert "schemas" in answer.context["threshold_form"].errors
    assert not AuditEntry.objects.filter(action="data.exported").exists()


def test_thresholds_need_an_operator(viewer: Client, primary: Instance) -> None:
    assert viewer.post(f"{PAGE}thresholds/", {"schemas": "600"}).status_code == 403
    assert viewer.get(f"{PAGE}thresholds/").status_code == 405
    assert f'action="{PAGE}thresholds/"' not in viewer.get(PAGE).content.decode()
    with pytest.raises(Refused) as caught:
        set_thresholds(actor=make_viewer("vera"), cluster=primary.cluster, values={LimitKind.SCHEMAS: 600})
    assert caught.value.code == "access.denied"
    olga = make_operator()
    for values in ({LimitKind.REDO: 5}, {LimitKind.SCHEMAS: 0}, {LimitKind.DISK: 2**63}):
        with pytest.raises(Refused) as caught:
            set_thresholds(actor=olga, cluster=primary.cluster, values=values)
        assert caught.value.code == "capacity.invalid"
    assert not AuditEntry.objects.filter(action__startswith="capacity.").exists()


def test_fleet_and_cluster_pages_flag_limits_within_90_days(viewer: Client, primary: Instance) -> None:
    make_trio("far")
    read(primary, 60)
    read(Instance.objects.get(name="far-primary-1"), 60, free=200 * GIB)
    for cluster in Cluster.objects.all():
        forecast(cluster)
    answer = viewer.get("/")
    page = answer.content.decode()
    assert answer.context["fleet"].near_limit == 1
    assert marks(page, "limit") == ["disk"]
    assert f'href="{PAGE}"' in page
    assert marks(viewer.get("/clusters/shop/").content.decode(), "limit") == ["disk"]
    assert marks(viewer.get("/clusters/far/").content.decode(), "limit") == []


def test_pages_flag_a_coming_date_beside_a_reached_limit(viewer: Client, primary: Instance) -> None:
    read(primary, 60, connections_peak=151, max_connections=151)
    forecast(primary.cluster)
    answer = viewer.get(PAGE)
    found = {row.limit.kind: (row.limit.state, row.is_soon) for row in answer.context["rows"]}
    assert found == {LimitKind.CONNECTIONS: (LimitState.REACHED, False), LimitKind.DISK: (LimitState.AHEAD, True)}
    assert (answer.context["found"].flagged.kind, answer.context["is_soon"]) == (LimitKind.DISK, True)
    assert marks(viewer.get("/").content.decode(), "limit") == ["disk"]
    assert marks(viewer.get("/clusters/shop/").content.decode(), "limit") == ["disk"]


def test_a_reached_threshold_and_the_full_disk_are_two_limits(viewer: Client, primary: Instance) -> None:
    read(primary, 60)
    CapacityThreshold.objects.create(cluster=primary.cluster, kind=LimitKind.DISK, value=450 * GIB)
    forecast(primary.cluster)
    answer = viewer.get(PAGE)
    assert limits_on(answer.content.decode()) == [("disk", "reached"), ("disk", "ahead")]
    assert answer.context["found"].flagged == answer.context["rows"][1].limit
    assert answer.context["rows"][0].others == ()


def test_growth_chart_breaks_its_line_where_readings_are_missing() -> None:
    days = [NOW - timedelta(days=ago) for ago in (*range(40, 30, -1), *range(10, 0, -1))]
    line = GrowthLine("number", [(at, 5.0 + number) for number, at in enumerate(days)], limit=10_000.0)
    drawing = growth_chart(line, NOW, str, "<said>")
    assert drawing.count('class="spark"') == 2
    assert 'class="growth-limit"' not in drawing, "it would flatten the line"
    assert 'aria-label="&lt;said&gt;"' in drawing
    assert growth_chart(GrowthLine("number", line.readings[:1]), NOW, str, "") == ""


def test_advice_has_evidence_statements_and_the_way_back(viewer: Client, primary: Instance) -> None:
    read(
        primary,
        60,
        cache_misses_per_second=400.0,
        table_open_cache=4000,
        table_definition_cache=400,
        innodb_open_files=20_000,
        open_files_limit=1_000_000,
    )
    forecast(primary.cluster)
    [found] = viewer.get(PAGE).context["advice"]
    assert (found.advice.kind, found.instances) == (AdviceKind.TABLE_CACHES, ("primary-1",))
    assert {change.name: (change.old, change.new) for change in found.advice.changes} == {
        "table_open_cache": ("4000", "12000"),
        "table_definition_cache": ("400", "12000"),
    }
    assert viewer.get(PAGE).content.count(b"SET GLOBAL table_open_cache = 4000;") == 1
    content = viewer.get(f"{PAGE}?format=advice").json()
    assert content["advice"][0]["changes"][0]["statement"] == "SET GLOBAL table_open_cache = 12000"
    assert AuditEntry.objects.filter(action="data.exported").count() == 1


def test_advice_with_a_restart_has_lines_and_no_statements(viewer: Client, primary: Instance) -> None:
    read(
        primary, 60, cache_misses_per_second=400.0, table_open_cache=4000, innodb_open_files=4000, open_files_limit=9000
    )
    page = viewer.get(PAGE).content
    assert b"SET GLOBAL" not in page
    assert (page.count(b"table_open_cache = 12000\n"), page.count(b"table_open_cache = 4000\n")) == (1, 1)
    assert not any(one["statement"] for one in viewer.get(f"{PAGE}?format=advice").json()["advice"][0]["changes"])


@pytest.mark.parametrize(("days", "counts"), [(0, True), (29, True), (31, False)])
def test_waits_are_evidence_of_advice(viewer: Client, primary: Instance, days: int, *, counts: bool) -> None:
    at = NOW - timedelta(days=days)
    event = "wait/synch/rwlock/innodb/dict_operation_lock"
    read(primary, 60, table_definition_cache=400)
    waits = WaitComparison((WaitShare(event, 1000, 5.0, 0.25),), elapsed_seconds=10, active_seconds=20)
    for result in ({}, to_record(waits)):
        WaitReading.objects.create(
            instance=primary,
            seconds=10,
            requested_by="olga",
            requested_at=at,
            finished_at=at,
            status="succeeded" if result else "failed",
            result=result,
        )
    found = [
        (one.name, one.value, one.at) for given in viewer.get(PAGE).context["advice"] for one in given.advice.evidence
    ]
    assert found[:1] == [(event, 0.25, at)] * counts


def test_same_advice_is_shown_once(viewer: Client, primary: Instance) -> None:
    for instance in Instance.objects.filter(cluster=primary.cluster):
        read(instance, 30, cache_misses_per_second=400.0, table_definition_cache=400)
    [found] = viewer.get(PAGE).context["advice"]
    assert found.instances == ("backup-1", "primary-1", "replica-1")
    assert [name for name, _ in found.evidence] == list(found.instances)
