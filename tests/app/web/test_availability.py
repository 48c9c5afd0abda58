"""Availability in the browser: each number leads to the intervals that it is made of."""

import csv
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap
from dbops.engine.states import Status, StepState
from dbops.models import (
    AuditEntry,
    Cluster,
    ExecutedCommand,
    GapDay,
    Instance,
    Maintenance,
    Rebuild,
    RebuildEvent,
    RebuildSample,
)
from dbops.queries.availability.forecast import ClusterForecast
from dbops.security.redaction import cell
from dbops.worker.availability_rollup import count_days
from tests.app.factories import make_rebuild, make_run, make_schedule, make_trio, make_viewer, make_watched_trio

pytestmark = pytest.mark.django_db
PAGE = "/availability/shop/"
THURSDAY = 3


#: A Wednesday at noon: no outage of these tests crosses the end of a week.
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)


def ago(hours: float) -> datetime:
    return timezone.now() - timedelta(hours=hours)


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_viewer())
    return client


@pytest.fixture
def lost(viewer: Client) -> tuple[Instance, Instance, Instance]:
    """A trio watched for forty days, whose replica was away for two hours of yesterday."""
    return make_watched_trio(since=ago(960), away=ago(30), back=ago(28), now=timezone.now())


def words(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_availability_list_links_to_intervals(viewer: Client, lost: Any) -> None:
    text = words(viewer, "/availability/?days=7")
    assert "/availability/shop/?days=7&amp;gap=short" in text
    assert "2 h 00 min" in text
    assert "1.2 %" in text
    detail = words(viewer, f"{PAGE}?days=7&gap=short")
    assert 'data-cause="detection"' in detail
    assert "replica-1" in detail
    before, _, after = detail.partition("debt-title")
    found = before + after.partition("</section>")[2]
    assert found.count("2 h 00 min") == 3, "the sum, its cause and the interval are one number"


def test_availability_cause_links_to_rebuild_and_run(viewer: Client, lost: Any) -> None:
    _, backup, replica = lost
    run = make_run(backup, started_at=ago(30), seconds=3600)
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(29.5), started_at=ago(29), finished_at=ago(28))
    short = words(viewer, f"{PAGE}?days=7&gap=short")
    assert f'href="/rebuilds/{rebuild.pk}/"' in short
    for cause in (Cause.DETECTION, Cause.WINDOW, Cause.OTHER_STEPS):
        assert f'data-cause="{cause.name.lower()}"' in short
    blocked = words(viewer, f"{PAGE}?days=7")
    assert f'href="/backups/runs/{run.pk}/"' in blocked
    assert f'data-cause="{Cause.BACKUP.name.lower()}"' in blocked


def test_debt_chart_has_each_week_and_its_table(viewer: Client, lost: Any) -> None:
    text = words(viewer, f"{PAGE}?days=30")
    shown = section(text, "debt-title")
    assert 'data-target="all"' in shown
    assert 'class="debt-part debt-detection"' in shown
    assert "2 h 00 min" in shown.partition('class="trend debt"')[2].partition(">")[0]
    Cluster.objects.update(wanted_replicas=1)
    shown = section(words(viewer, f"{PAGE}?days=30"), "debt-title")
    assert 'data-target="1"' in shown
    assert "debt-part" not in shown
    assert "<tbody>" not in shown


def test_availability_csv_equals_the_page(viewer: Client, lost: Any) -> None:
    for number in range(27):
        make_trio(f"other-{number:02d}")
    answer = viewer.get("/availability/?days=7&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="availability-')
    lines = answer.content.decode("utf-8-sig").split("\r\n")
    rows = list(csv.DictReader(lines))
    assert len({row["cluster"] for row in rows}) == 28
    [short] = [row for row in rows if row["cluster"] == "shop" and row["gap"] == str(Gap.SHORT)]
    assert (round(float(short["seconds"])), round(float(short["percent"]), 1)) == (7200, 1.2)
    found = viewer.get("/availability/?days=7&text=shop&format=json").json()
    [cluster] = found["clusters"]
    shown = {one["gap"]: one for one in cluster["gaps"]}[str(Gap.SHORT)]
    assert [(one["cause"], round(one["seconds"])) for one in shown["causes"]] == [(str(Cause.DETECTION), 7200)]


def test_cluster_intervals_are_exported_as_csv(viewer: Client, lost: Any) -> None:
    answer = viewer.get(f"{PAGE}?days=7&gap=short&format=csv")
    [row] = csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n"))
    assert (row["cause"], row["evidence"], row["missing"]) == (str(Cause.DETECTION), "replica-1", "1")
    assert row["from"].endswith("+00:00")
    found = viewer.get(f"{PAGE}?days=7&gap=short&format=json").json()
    assert round(sum(week["seconds"] for week in found["below_target_by_week"])) == 7200
    assert len(found["intervals"]) == 1


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"])
def test_csv_cells_are_never_formulas(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell(-1) == -1
    assert cell("replica-1") == "replica-1"


def test_availability_page_counts_time_before_the_first_probe_as_not_observed(viewer: Client, lost: Any) -> None:
    text = words(viewer, f"{PAGE}?days=90&gap=not_observed")
    assert "50 d 0 h" in text
    assert 'data-cause="not_probed"' in text


@pytest.mark.parametrize("query", ["days=x", "days=9999", "gap=x", "gap=", "page=-1", "page=x", "days=7&gap=%00"])
def test_availability_page_ignores_bad_parameters(viewer: Client, lost: Any, query: str) -> None:
    words(viewer, f"{PAGE}?{query}")


def test_availability_page_shows_a_cluster_without_probes(viewer: Client) -> None:
    make_trio()
    assert "30 d 0 h" in words(viewer, f"{PAGE}?gap=not_observed")
    assert viewer.get("/availability/nowhere/").status_code == 404


def test_availability_page_takes_a_fixed_number_of_queries(
    viewer: Client, lost: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        make_run(lost[1], started_at=ago(24 * number + 3), seconds=3600)
    with django_assert_max_num_queries(26):
        viewer.get(PAGE)


def section(text: str, title: str) -> str:
    return text[text.index(f'id="{title}"') : text.index("</section>", text.index(f'id="{title}"'))]


def rebuilt(trio: Any, hours_ago: float, minutes: float, *, method: str = "xbstream") -> Rebuild:
    _, backup, replica = trio
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    end = ago(hours_ago)
    start = end - timedelta(minutes=minutes)
    Rebuild.objects.filter(pk=rebuild.pk).update(method=method, started_at=start, finished_at=end)
    rebuild.steps.filter(name="stream").update(
        state=StepState.DONE, started_at=start, finished_at=start + timedelta(minutes=minutes / 2)
    )
    return rebuild


def test_rebuild_times_are_shown_by_step_with_trend(viewer: Client, lost: Any) -> None:
    assert viewer.get(f"{PAGE}?days=7").context["times"] == ()
    assert "<table" not in section(words(viewer, f"{PAGE}?days=7"), "times-title")
    for hours, minutes in ((200, 60), (30, 60), (20, 90), (10, 120)):
        rebuilt(lost, hours, minutes)
    rebuilt(lost, 5, 1, method="rollback")
    (one,) = viewer.get(f"{PAGE}?days=7").context["times"]
    assert (one.method, one.whole.runs) == ("xbstream", 3)
    assert (one.whole.p50, one.whole.p90, one.whole.trend_percent) == (90 * 60, 120 * 60, 50)
    text = section(words(viewer, f"{PAGE}?days=7"), "times-title")
    assert "rollback" not in text
    whole, stream = text.split("<tr>")[2:4]
    for shown in ("1 h 30 min", "2 h 00 min", "50 %"):
        assert shown in whole
    assert "45 min 00 s" in stream
    found = viewer.get(f"{PAGE}?days=7&format=json").json()
    assert found["rebuild_times"][0]["worst_seconds"] == 7200
    assert found["rebuild_times"][0]["steps"][0]["p50_seconds_before"] == 1800


@pytest.mark.parametrize(("days", "state"), [(59, "recent"), (61, "old")])
def test_page_shows_sources_without_a_recent_rebuild(viewer: Client, lost: Any, days: int, state: str) -> None:
    assert 'data-verified="never"' in section(words(viewer, PAGE), "restore-tests-title")
    rebuild = rebuilt(lost, 24 * days, 30)
    rebuilt(lost, 1, 1, method="rollback")
    text = section(words(viewer, PAGE), "restore-tests-title")
    assert f'data-verified="{state}"' in text
    assert text.count("data-verified") == 1
    assert f'href="/rebuilds/{rebuild.pk}/"' in text
    assert "replica-1" not in text, "a cluster with a backup instance reads that"


def test_forecast_names_the_worst_hour(viewer: Client, lost: Any, settings: Any) -> None:
    ahead = ahead_of(viewer)
    assert ahead.forecast.longest_wait is not None
    assert ahead.forecast.longest_wait.wait_seconds == 0
    assert (ahead.forecast.worst, ahead.rebuild.duration) == (None, None)
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    for day in range(3):
        make_run(lost[1], started_at=ago(10 + 24 * day), seconds=3 * 3600, schedule=schedule)
    wait = ahead_of(viewer).forecast.longest_wait
    assert wait is not None
    assert (wait.weekday, wait.hour, wait.wait_seconds) == (THURSDAY, 2, 3 * 3600)
    assert "Thursday 02:00" in section(words(viewer, PAGE), "forecast-title")
    rebuilt(lost, 30, 90)
    ahead = ahead_of(viewer)
    worst = ahead.forecast.worst
    assert worst is not None
    assert (worst.weekday, worst.hour, worst.seconds, worst.wait_seconds) == (THURSDAY, 2, 4.5 * 3600, 3 * 3600)
    assert "backup-1-nightly" in worst.why
    assert (ahead.breaches, len(ahead.forecast.hours)) == (7, 168)
    text = section(words(viewer, PAGE), "forecast-title")
    for shown in ("Thursday 02:00", "4 h 30 min", "3 h 00 min", worst.why):
        assert shown in text
    assert 'data-breaches="7"' in text
    assert text.count(">4:30!<") == 7
    settings.REDUNDANCY_GOAL_SECONDS = 5 * 3600
    assert 'data-breaches="0"' in section(words(viewer, PAGE), "forecast-title")
    found = viewer.get(f"{PAGE}?format=json").json()["if_it_broke_now"]
    assert (found["worst_hour"]["weekday"], found["worst_hour"]["hour"]) == ("Thursday", 2)
    assert (found["breaches"], found["rebuild_p50_seconds"], len(found["hours"])) == (0, 5400, 168)
    answer = viewer.get(f"{PAGE}?of=forecast&format=csv")
    rows = list(csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n")))
    [worst] = [row for row in rows if row["weekday"] == "Thursday" and row["hour"] == "2"]
    assert (worst["seconds"], worst["over the goal"]) == ("16200.0", "no")


def ahead_of(client: Client) -> ClusterForecast:
    """Return the forecast that a cluster's page shows."""
    found: ClusterForecast = client.get(PAGE).context["heat"].ahead
    return found


def of_list(client: Client, name: str) -> str:
    """Return what the list says of a cluster's worst hour."""
    row = words(client, "/availability/").partition(f">{name}</a>")[2].partition("</tr>")[0]
    return row.partition("data-worst")[2].partition("</td>")[0]


def test_forecast_uses_the_goal_of_the_cluster(viewer: Client, lost: Any, settings: Any) -> None:
    """It takes 4 h 30 min from 02:00 on, and 1 h 30 min where nothing is in the way."""
    settings.REDUNDANCY_GOAL_SECONDS = 5 * 3600
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    for day in range(3):
        make_run(lost[1], started_at=ago(10 + 24 * day), seconds=3 * 3600, schedule=schedule)
    rebuilt(lost, 30, 90)
    assert 'data-breaches="0"' in section(words(viewer, PAGE), "forecast-title")
    for shown in ("4 h 30 min", "Thursday 02:00", "state-healthy", "circle-check"):
        assert shown in of_list(viewer, "shop")
    Cluster.objects.update(redundancy_goal_seconds=4 * 3600)
    text = section(words(viewer, PAGE), "forecast-title")
    assert 'data-goal="own"' in text
    assert "4 h 00 min" in text.partition('data-goal="own"')[2].partition("</span>")[0]
    assert 'data-breaches="7"' in text
    for shown in ("4 h 30 min", "Thursday 02:00", "state-failed", "alert-triangle"):
        assert shown in of_list(viewer, "shop")
    found = viewer.get(f"{PAGE}?format=json").json()["if_it_broke_now"]
    assert (found["goal_seconds"], found["goal_is_its_own"], found["breaches"]) == (4 * 3600, True, 7)
    lines = viewer.get(f"{PAGE}?of=forecast&format=csv").content.decode("utf-8-sig").split("\r\n")
    assert sum(row["over the goal"] == "yes" for row in csv.DictReader(lines)) == 7
    paper = words(viewer, "/availability/report/2026-03/shop/")
    for shown in ('data-goal="own"', "4 h 00 min", "Thursday 02:00", 'data-breaches="7"'):
        assert shown in paper


def test_availability_list_marks_unknown_forecasts(viewer: Client, lost: Any) -> None:
    assert "state-" not in of_list(viewer, "shop"), "no label"
    assert " h " not in of_list(viewer, "shop"), "no duration"
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    make_run(lost[1], started_at=ago(10), seconds=3 * 3600, schedule=schedule)
    for found in ("3 h 00 min", "Thursday 02:00", "state-unknown"):
        assert found in of_list(viewer, "shop")
    Cluster.objects.update(redundancy_goal_seconds=2 * 3600)
    assert "state-failed" in of_list(viewer, "shop"), "the wait alone is over the goal"


def test_forecast_without_a_second_source_has_no_source(viewer: Client, lost: Any) -> None:
    Instance.objects.filter(pk=lost[2].pk).delete()
    ahead = ahead_of(viewer)
    assert (ahead.sources, ahead.forecast.worst, ahead.forecast.longest_wait) == ((), None, None)
    assert all(hour.wait_seconds is None for hour in ahead.forecast.hours)
    assert ahead.forecast.hours[0].why in section(words(viewer, PAGE), "forecast-title")


WHY = "new disks"
MARK = {"starts_at": "2026-03-03T05:00", "ends_at": "2026-03-03T07:00", "reason": WHY}


def test_past_time_can_be_marked_as_planned(lost: Any, operator: Client) -> None:
    """The replica was away from 06:00 to 08:00 of yesterday."""
    count_days(timezone.now())
    assert GapDay.objects.filter(gap="short", is_planned=False).exists()
    before = words(operator, f"{PAGE}?days=7&gap=short")
    assert operator.post(f"{PAGE}maintenance/", MARK).status_code == 302
    assert not GapDay.objects.filter(day__gte="2026-03-03").exists(), "it is recounted"
    count_days(timezone.now())
    planned = GapDay.objects.filter(gap="short", is_planned=True)
    assert [(row.cause, row.microseconds) for row in planned] == [("detection", 3600 * 10**6)]
    text = words(operator, f"{PAGE}?days=7&gap=short")
    assert section(text, "sums-title") == section(before, "sums-title"), "no number changes"
    row = Maintenance.objects.get()
    assert f"maintenance {row.pk}</a>" in section(text, "intervals-title")
    for found in ("olga", WHY, "data-marked"):
        assert found in section(text, "planned-title")
    assert operator.post(f"{PAGE}maintenance/{row.pk}/remove/").status_code == 302
    assert not GapDay.objects.filter(day__gte="2026-03-03").exists()
    assert section(words(operator, f"{PAGE}?days=7&gap=short"), "causes-title") == section(before, "causes-title")
    entries = AuditEntry.objects.filter(action__startswith="maintenance").order_by("sequence")
    assert [entry.action for entry in entries] == ["maintenance.marked", "maintenance.unmarked"]
    assert operator.post(f"{PAGE}maintenance/{row.pk}/remove/").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"reason": "  "}, "reason", "required"),
        ({"reason": "."}, "__all__", "no_reason"),
        ({"ends_at": "2026-03-03T04:00"}, "__all__", "ends_before_start"),
        ({"ends_at": "2026-03-05T04:00"}, "__all__", "ends_in_future"),
        ({"starts_at": "2026-01-03T04:00"}, "__all__", "too_long"),
        ({"starts_at": ""}, "starts_at", "required"),
    ],
)
def test_mark_is_refused_with_bad_times_or_no_reason(
    lost: Any, operator: Client, wrong: dict[str, str], field: str, code: str
) -> None:
    answer = operator.post(f"{PAGE}maintenance/", MARK | wrong)
    assert answer.status_code == 422
    form = answer.context["mark_form"]
    assert {name: [error.code for error in errors] for name, errors in form.errors.as_data().items()} == {field: [code]}
    assert all(escape(error) in answer.content.decode() for error in form.errors[field])
    assert not Maintenance.objects.exists()


def test_mark_as_planned_needs_an_operator(viewer: Client, lost: Any) -> None:
    assert viewer.post(f"{PAGE}maintenance/", MARK).status_code == 403
    assert f'action="{PAGE}maintenance/"' not in words(viewer, PAGE)


def test_planned_gaps_are_not_shown_as_maintenance(lost: Any, operator: Client) -> None:
    operator.post(f"{PAGE}maintenance/", MARK)
    assert WHY not in words(operator, "/clusters/shop/calendar/")


def test_reports_read_no_raw_rows(viewer: Client, lost: Any) -> None:
    """Probes keep their last facts and what changed; samples, lines and commands of rebuilds may be thinned at any time."""
    rebuild = rebuilt(lost, 29, 60)
    for number in range(5):
        RebuildSample.objects.create(rebuild=rebuild, number=number, at=ago(29.5), step="stream", bytes=number)
    RebuildEvent.objects.create(rebuild=rebuild, at=ago(29.5), level="info", text="streaming")
    addresses = [
        *(f"{PAGE}?days=30&gap={gap.name.lower()}&format=json" for gap in Gap),
        *("/availability/?format=json", f"{PAGE}what-if/?format=json", "/availability/report/2026-03/shop/"),
    ]
    before = [viewer.get(address).content for address in addresses]
    assert RebuildSample.objects.all().delete()[0] == 5
    RebuildEvent.objects.all().delete()
    ExecutedCommand.objects.all().delete()
    assert [viewer.get(address).content for address in addresses] == before


def test_last_rebuild_is_never_a_roll_back(viewer: Client, lost: Any) -> None:
    given = {"target": lost[2], "source": lost[1], "status": Status.SUCCEEDED}
    copied = make_rebuild(**given, finished_at=ago(5))
    make_rebuild(**given, finished_at=ago(1), method="rollback")
    [row] = viewer.get("/availability/").context["found"].rows
    assert row.rebuild.pk == copied.pk
