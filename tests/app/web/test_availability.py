"""Availability in the browser: each number leads to the intervals that it is made of."""

import csv
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.availability.shortages import Gap
from dbops.engine.states import Status, StepState
from dbops.models import (
    AuditEntry,
    Cluster,
    Command,
    Event,
    GapDay,
    Instance,
    InstancePeriod,
    InstanceState,
    Maintenance,
    Rebuild,
    Sample,
)
from dbops.security.redaction import cell
from dbops.worker.availability_rollup import count_days
from tests.app.factories import make_rebuild, make_run, make_schedule, make_trio, make_viewer

pytestmark = pytest.mark.django_db
PAGE = "/availability/shop/"


#: A Wednesday at noon: no outage of these tests lies across the end of a week.
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
    trio = make_trio()
    for instance in trio:
        cuts = [("healthy", 960, None)]
        if instance.name == "replica-1":
            cuts = [("healthy", 960, 30), ("unreachable", 30, 28), ("healthy", 28, None)]
        for state, start, end in cuts:
            InstancePeriod.objects.create(
                cluster=instance.cluster,
                instance=instance,
                name=instance.name,
                role=instance.role,
                state=state,
                started_at=ago(start),
                ended_at=None if end is None else ago(end),
            )
        InstanceState.objects.filter(instance=instance).update(observed_at=timezone.now())
    return trio


def words(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_list_leads_to_the_intervals(viewer: Client, lost: Any) -> None:
    text = words(viewer, "/availability/?days=7")
    assert "/availability/shop/?days=7&amp;gap=short" in text
    assert "2 h 00 min" in text
    assert "1.2 %" in text
    detail = words(viewer, f"{PAGE}?days=7&gap=short")
    assert "Detection" in detail
    assert "replica-1" in detail
    before, _, after = detail.partition("debt-title")
    told = before + after.partition("</section>")[2]
    assert told.count("2 h 00 min") == 3, "the sum, its cause and the interval are one number"


def test_a_cause_leads_to_its_rebuild_and_its_run(viewer: Client, lost: Any) -> None:
    _, backup, replica = lost
    run = make_run(backup, started_at=ago(30), seconds=3600)
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(29.5), started_at=ago(29), finished_at=ago(28))
    short = words(viewer, f"{PAGE}?days=7&gap=short")
    assert f'href="/rebuilds/{rebuild.pk}/"' in short
    for cause in ("Detection", "Waiting for a backup", "Other steps"):
        assert cause in short
    blocked = words(viewer, f"{PAGE}?days=7")
    assert f'href="/backups/runs/{run.pk}/"' in blocked
    assert "A backup reads the source" in blocked


def test_the_debt_of_each_week_stands_in_the_chart_and_its_table(viewer: Client, lost: Any) -> None:
    text = words(viewer, f"{PAGE}?days=30")
    section = text[text.index("debt-title") : text.index("</section>", text.index("debt-title"))]
    assert "target: all replicas" in section
    assert 'class="debt-part debt-detection"' in section
    assert "Time below the target by week: 2 h 00 min in" in section
    Cluster.objects.update(wanted_replicas=1)
    section = words(viewer, f"{PAGE}?days=30").partition("debt-title")[2].partition("</section>")[0]
    assert "target: 1 healthy replica<" in section.replace(" </span>", "<")
    assert "Never in this period." in section


def test_the_list_as_a_file_has_all_that_match_with_the_numbers_of_the_page(viewer: Client, lost: Any) -> None:
    for number in range(27):
        make_trio(f"other-{number:02d}")
    answer = viewer.get("/availability/?days=7&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="availability-')
    lines = answer.content.decode("utf-8-sig").split("\r\n")
    rows = list(csv.DictReader(lines))
    assert len({row["cluster"] for row in rows}) == 28
    [short] = [row for row in rows if row["cluster"] == "shop" and row["gap"] == "too few healthy replicas"]
    assert (round(float(short["seconds"])), round(float(short["percent"]), 1)) == (7200, 1.2)
    found = viewer.get("/availability/?days=7&text=shop&format=json").json()
    [cluster] = found["clusters"]
    told = {one["gap"]: one for one in cluster["gaps"]}["too few healthy replicas"]
    assert [(one["cause"], round(one["seconds"])) for one in told["causes"]] == [("detection", 7200)]


def test_a_clusters_intervals_as_a_file(viewer: Client, lost: Any) -> None:
    answer = viewer.get(f"{PAGE}?days=7&gap=short&format=csv")
    [row] = csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n"))
    assert (row["cause"], row["rests on"], row["missing"]) == ("detection", "replica-1", "1")
    assert row["from"].endswith("+00:00")
    found = viewer.get(f"{PAGE}?days=7&gap=short&format=json").json()
    assert round(sum(week["seconds"] for week in found["below_target_by_week"])) == 7200
    assert len(found["intervals"]) == 1


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell(-1) == -1
    assert cell("replica-1") == "replica-1"


def test_time_before_the_first_probe_is_told_as_not_observed(viewer: Client, lost: Any) -> None:
    text = words(viewer, f"{PAGE}?days=90&gap=not_observed")
    assert "50 d 0 h" in text
    assert "No probe" in text


@pytest.mark.parametrize("query", ["days=x", "days=9999", "gap=x", "gap=", "page=-1", "page=x", "days=7&gap=%00"])
def test_nonsense_in_the_address_is_no_error(viewer: Client, lost: Any, query: str) -> None:
    words(viewer, f"{PAGE}?{query}")


def test_a_cluster_that_nobody_has_looked_at(viewer: Client) -> None:
    make_trio()
    assert "30 d 0 h" in words(viewer, f"{PAGE}?gap=not_observed")
    assert viewer.get("/availability/nowhere/").status_code == 404


def test_as_many_queries_however_much_was_stored(viewer: Client, lost: Any, django_assert_max_num_queries: Any) -> None:
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


def test_time_to_rebuild_is_told_by_step_with_its_trend(viewer: Client, lost: Any) -> None:
    assert "No rebuild of this cluster succeeded" in section(words(viewer, f"{PAGE}?days=7"), "times-title")
    for hours, minutes in ((200, 60), (30, 60), (20, 90), (10, 120)):
        rebuilt(lost, hours, minutes)
    rebuilt(lost, 5, 1, method="put-back")
    text = section(words(viewer, f"{PAGE}?days=7"), "times-title")
    assert "xbstream, 3 rebuilds" in text
    assert "put-back" not in text
    whole, stream = text.split("<tr>")[2:4]
    for told in ("within 1 h 30 min", "within 2 h 00 min", "50 % longer"):
        assert told in whole
    assert "within 45 min 00 s" in stream
    found = viewer.get(f"{PAGE}?days=7&format=json").json()
    assert found["rebuild_times"][0]["worst_seconds"] == 7200
    assert found["rebuild_times"][0]["steps"][0]["p50_seconds_before"] == 1800


@pytest.mark.parametrize(("days", "told"), [(59, "proven"), (61, "older than 60 days")])
def test_a_source_that_was_not_proven_for_long_is_told(viewer: Client, lost: Any, days: int, told: str) -> None:
    assert "never proven" in section(words(viewer, PAGE), "proofs-title")
    rebuild = rebuilt(lost, 24 * days, 30)
    rebuilt(lost, 1, 1, method="put-back")
    text = section(words(viewer, PAGE), "proofs-title")
    assert f"<span>{told}</span>" in text
    assert f'href="/rebuilds/{rebuild.pk}/"' in text
    assert "replica-1" not in text, "a cluster with a backup instance reads that"


def test_if_it_broke_now_the_worst_hour_is_named(viewer: Client, lost: Any, settings: Any) -> None:
    text = section(words(viewer, PAGE), "forecast-title")
    assert "No rebuild has to wait" in text
    assert "no rebuild has succeeded here yet" in text
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    for day in range(3):
        make_run(lost[1], started_at=ago(10 + 24 * day), seconds=3 * 3600, schedule=schedule)
    text = section(words(viewer, PAGE), "forecast-title")
    assert "Longest wait: Thursday 02:00" in text
    rebuilt(lost, 30, 90)
    text = section(words(viewer, PAGE), "forecast-title")
    assert "Worst hour: Thursday 02:00" in text
    assert "whole again after 4 h 30 min, 3 h 00 min of it waiting for backup backup-1-nightly of backup-1" in text
    assert "7 hours of 168 break the goal" in text
    assert text.count(">4:30!<") == 7
    settings.REDUNDANCY_GOAL_SECONDS = 5 * 3600
    assert "Every hour keeps the goal." in section(words(viewer, PAGE), "forecast-title")
    found = viewer.get(f"{PAGE}?format=json").json()["if_it_broke_now"]
    assert (found["worst_hour"]["weekday"], found["worst_hour"]["hour"]) == ("Thursday", 2)
    assert (found["breaches"], found["rebuild_p50_seconds"], len(found["hours"])) == (0, 5400, 168)
    answer = viewer.get(f"{PAGE}?of=forecast&format=csv")
    rows = list(csv.DictReader(answer.content.decode("utf-8-sig").split("\r\n")))
    [worst] = [row for row in rows if row["weekday"] == "Thursday" and row["hour"] == "2"]
    assert (worst["seconds"], worst["breaks the goal"]) == ("16200.0", "no")


def of_list(client: Client, name: str) -> str:
    """Return what the list says of a cluster's worst hour."""
    row = words(client, "/availability/").partition(f">{name}</a>")[2].partition("</tr>")[0]
    return row.partition('data-label="Worst hour ahead"')[2].partition("</td>")[0]


def test_a_cluster_with_a_goal_of_its_own_is_measured_by_it(viewer: Client, lost: Any, settings: Any) -> None:
    """It takes 4 h 30 min from 02:00 on, and 1 h 30 min where nothing is in the way."""
    settings.REDUNDANCY_GOAL_SECONDS = 5 * 3600
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    for day in range(3):
        make_run(lost[1], started_at=ago(10 + 24 * day), seconds=3 * 3600, schedule=schedule)
    rebuilt(lost, 30, 90)
    assert "Every hour keeps the goal." in section(words(viewer, PAGE), "forecast-title")
    for told in ("4 h 30 min", "Thursday 02:00", "state-healthy", "circle-check", "within the goal"):
        assert told in of_list(viewer, "shop")
    Cluster.objects.update(redundancy_goal_seconds=4 * 3600)
    text = section(words(viewer, PAGE), "forecast-title")
    assert "goal: 4 h 00 min (its own)" in text
    assert "7 hours of 168 break the goal" in text
    for told in ("4 h 30 min", "Thursday 02:00", "state-failed", "alert-triangle", "over the goal"):
        assert told in of_list(viewer, "shop")
    found = viewer.get(f"{PAGE}?format=json").json()["if_it_broke_now"]
    assert (found["goal_seconds"], found["goal_is_its_own"], found["breaches"]) == (4 * 3600, True, 7)
    lines = viewer.get(f"{PAGE}?of=forecast&format=csv").content.decode("utf-8-sig").split("\r\n")
    assert sum(row["breaks the goal"] == "yes" for row in csv.DictReader(lines)) == 7
    paper = words(viewer, "/availability/report/2026-03/shop/")
    for told in ("goal: 4 h 00 min (its own)", "Worst hour: Thursday 02:00", "7 hours of 168 break the goal"):
        assert told in paper


def test_the_worst_hour_of_a_list_says_what_is_not_known(viewer: Client, lost: Any) -> None:
    assert "not known" in of_list(viewer, "shop")
    schedule = make_schedule(lost[1], cron="0 2 * * *", time_zone="UTC")
    make_run(lost[1], started_at=ago(10), seconds=3 * 3600, schedule=schedule)
    for told in ("waits 3 h 00 min", "Thursday 02:00", "the rest is not known"):
        assert told in of_list(viewer, "shop")
    Cluster.objects.update(redundancy_goal_seconds=2 * 3600)
    assert "over the goal" in of_list(viewer, "shop"), "the wait alone is"


def test_if_it_broke_now_without_a_second_instance_to_read(viewer: Client, lost: Any) -> None:
    Instance.objects.filter(pk=lost[2].pk).delete()
    text = section(words(viewer, PAGE), "forecast-title")
    assert "Nothing is known of any hour:</strong> there is no instance that a rebuild could read." in text


MARK = {"starts_at": "2026-03-03T05:00", "ends_at": "2026-03-03T07:00", "reason": "new disks"}


def test_a_time_that_has_passed_is_marked_as_planned(lost: Any, operator: Client) -> None:
    """The replica was away from 06:00 to 08:00 of yesterday."""
    count_days(timezone.now())
    assert GapDay.objects.filter(gap="short", is_planned=False).exists()
    before = words(operator, f"{PAGE}?days=7&gap=short")
    assert operator.post(f"{PAGE}planned/", MARK).status_code == 302
    assert not GapDay.objects.filter(day__gte="2026-03-03").exists(), "it is counted anew"
    count_days(timezone.now())
    planned = GapDay.objects.filter(gap="short", is_planned=True)
    assert [(row.cause, row.microseconds) for row in planned] == [("detection", 3600 * 10**6)]
    text = words(operator, f"{PAGE}?days=7&gap=short")
    assert section(text, "sums-title") == section(before, "sums-title"), "no number changes"
    row = Maintenance.objects.get()
    assert f"maintenance {row.pk}</a>" in section(text, "intervals-title")
    for told in ("olga", "new disks", "marked afterwards"):
        assert told in section(text, "planned-title")
    assert operator.post(f"{PAGE}planned/{row.pk}/remove/").status_code == 302
    assert not GapDay.objects.filter(day__gte="2026-03-03").exists()
    assert section(words(operator, f"{PAGE}?days=7&gap=short"), "causes-title") == section(before, "causes-title")
    entries = AuditEntry.objects.filter(action__startswith="maintenance").order_by("sequence")
    assert [entry.action for entry in entries] == ["maintenance.marked", "maintenance.unmarked"]
    assert operator.post(f"{PAGE}planned/{row.pk}/remove/").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"reason": "  "}, "This field is required"),
        ({"reason": "."}, "no reason was given"),
        ({"ends_at": "2026-03-03T04:00"}, "it would end before it begins"),
        ({"ends_at": "2026-03-05T04:00"}, "it would end in the future"),
        ({"starts_at": "2026-01-03T04:00"}, "longer than 31 days"),
        ({"starts_at": ""}, "This field is required"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(lost: Any, operator: Client, wrong: dict[str, str], told: str) -> None:
    answer = operator.post(f"{PAGE}planned/", MARK | wrong)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Maintenance.objects.exists()


def test_only_operators_mark(viewer: Client, lost: Any) -> None:
    assert viewer.post(f"{PAGE}planned/", MARK).status_code == 403
    assert "Mark a time" not in words(viewer, PAGE)


def test_what_was_marked_is_no_maintenance_of_the_calendar(lost: Any, operator: Client) -> None:
    operator.post(f"{PAGE}planned/", MARK)
    assert "new disks" not in words(operator, "/clusters/shop/calendar/")


def test_no_report_reads_raw_rows(viewer: Client, lost: Any) -> None:
    """Probes keep their last facts and what changed; samples, lines and commands of rebuilds may be thinned at any time."""
    rebuild = rebuilt(lost, 29, 60)
    for number in range(5):
        Sample.objects.create(rebuild=rebuild, number=number, at=ago(29.5), step="stream", bytes=number)
    Event.objects.create(rebuild=rebuild, at=ago(29.5), level="info", text="streaming")
    addresses = [
        *(f"{PAGE}?days=30&gap={gap.name.lower()}&format=json" for gap in Gap),
        *("/availability/?format=json", f"{PAGE}what-if/?format=json", "/availability/report/2026-03/shop/"),
    ]
    before = [viewer.get(address).content for address in addresses]
    assert Sample.objects.all().delete()[0] == 5
    Event.objects.all().delete()
    Command.objects.all().delete()
    assert [viewer.get(address).content for address in addresses] == before
