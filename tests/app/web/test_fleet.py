"""The fleet and one cluster."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags

from dbops.engine.facts.server_kind import GALERA, MemberGroup, ServerKind
from dbops.engine.schedule.blocker import BlockerKind
from dbops.engine.schedule.eligibility import Eligibility, EligibilityState
from dbops.engine.states import Status
from dbops.models import Hold, Maintenance
from dbops.queries.fleet import cluster, overview
from dbops.queries.fleet.overview import Show
from script.lib.big_fleet import make_big_fleet
from tests.app.factories import (
    make_channel,
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

from .marks import marks

pytestmark = pytest.mark.django_db
#: Two of them are the session's and the user's, one reads the last backups of the clusters on the page.
FLEET_PAGE_QUERIES = 32


def names(**wanted: object) -> list[str]:
    return [row.agenda.cluster.name for row in overview.fleet(timezone.now(), **wanted).rows]


def words(text: str) -> str:
    """A page without tags."""
    return " ".join(strip_tags(text).split())


def answer(client: Client) -> Eligibility:
    """Return the fleet page's answer for its one cluster, which the page shows with its reason."""
    page = client.get("/")
    (row,) = page.context["fleet"].rows
    found: Eligibility = row.agenda.eligibility
    cell = page.content.decode().partition(f'data-answer="{found.answer}"')[2].partition("</td>")[0]
    assert cell
    assert ("state-yes" in cell) is (found.answer is EligibilityState.NOW)
    assert found.by is None or found.by.text in words(cell)
    if found.answer is EligibilityState.UNTIL:
        assert f"{timezone.localtime(found.free.p50):%H:%M}" in cell
    return found


def test_empty_fleet_page_links_operators_to_the_inventory(operator: Client, viewer: Client) -> None:
    assert 'class="btn btn-primary" href="/inventory/"' in operator.get("/").content.decode()
    page = viewer.get("/")
    assert page.context["fleet"].clusters == 0
    assert 'href="/inventory/"' not in page.content.decode()


def test_eligibility_is_now_for_a_healthy_cluster(operator: Client) -> None:
    make_trio()
    page = operator.get("/")
    (row,) = page.context["fleet"].rows
    assert (len(row.agenda.cluster.healthy_replicas), len(row.agenda.cluster.replicas)) == (2, 2)
    assert answer(operator).answer is EligibilityState.NOW


def test_fleet_page_lists_clusters_with_problems_first() -> None:
    make_trio("alpha")
    _, _, replica = make_trio("beta")
    set_facts(replica, make_unreachable())
    primary, _, _ = make_trio("gamma")
    set_facts(primary, make_unreachable())
    make_cluster("empty")
    assert names() == ["gamma", "beta", "alpha", "empty"]


@pytest.mark.parametrize(
    ("changes", "state", "text"),
    [
        ({"replication": ()}, "stopped", ""),
        ({"replication": (make_channel(io_running="No"),)}, "stopped", "No"),
        (
            {"replication": (make_channel(sql_running="No", last_sql_error="Duplicate entry"),)},
            "stopped",
            "Duplicate entry",
        ),
        ({"replication": (make_channel(lag_seconds=None),)}, "warning", "lag"),
        ({"replication": (make_channel(lag_seconds=4000),)}, "lagging", "4000 s"),
        ({"replication": (make_channel(),), "read_only": False}, "warning", "read_only"),
        ({"replication": (make_channel(),)}, "healthy", ""),
    ],
)
def test_instance_state_follows_its_facts(changes: dict, state: str, text: str) -> None:
    replica = make_instance("replica-9", cluster=make_cluster(), facts=make_facts(**changes))
    row = cluster.cluster_row(replica.cluster).of(replica)
    assert row.state == state
    assert text in row.state_text


def test_instance_state_is_unknown_with_old_facts() -> None:
    _, _, replica = make_trio()
    set_facts(replica, replace(make_facts(), observed_at=timezone.now() - timedelta(hours=1)))
    row = cluster.cluster_row(replica.cluster).of(replica)
    assert row.state == "unknown"
    assert not row.is_fresh


def test_lag_is_unknown_when_one_channel_is_unknown() -> None:
    channels = (make_channel(channel="a", lag_seconds=7), make_channel(channel="b", lag_seconds=None))
    replica = make_instance("replica-9", cluster=make_cluster(), facts=make_facts(replication=channels))
    assert cluster.cluster_row(replica.cluster).of(replica).lag_seconds is None


def test_cluster_page_shows_probed_facts(viewer: Client) -> None:
    _, _, replica = make_trio()
    set_facts(replica, make_facts(gtid_executed="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8812"))
    text = viewer.get("/clusters/shop/").content.decode()
    for shown in (
        "primary-1",
        "MariaDB 10.11.19",
        "1.45 TiB",
        "2.34 TiB",
        'data-read-only="yes"',
        "mariadb-backup 10.11.19",
    ):
        assert shown in text
    assert 'title="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8812"' in text
    assert "3e11fa47…:1-8812" in text


def test_cluster_page_names_product_and_group(viewer: Client) -> None:
    _, _, replica = make_trio()
    group = MemberGroup(GALERA, "<shop>", "Synced", size=3)
    set_facts(replica, make_facts(kind=ServerKind("Percona XtraDB Cluster", group=group)))
    text = viewer.get("/clusters/shop/").content.decode()
    assert 'data-product="Percona XtraDB Cluster"' in text
    assert 'data-group="&lt;shop&gt;"' in text
    assert text.count("data-group=") == 1
    topology = viewer.get("/clusters/shop/topology/").content.decode()
    assert "Percona XtraDB Cluster 10.11.19" in topology


def test_rebuild_button_is_for_operators(operator: Client, viewer: Client) -> None:
    make_trio()
    assert 'href="/instances/replica-1/rebuild/"' in operator.get("/clusters/shop/").content.decode()
    seen = viewer.get("/clusters/shop/").content.decode()
    assert 'href="/instances/replica-1/rebuild/"' not in seen
    assert 'aria-describedby="why-replica-1"' in seen
    assert "data-operators-only" in seen


def test_cluster_page_gives_reasons_for_primary_and_busy_replica(operator: Client) -> None:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    page = operator.get("/clusters/shop/")
    text = page.content.decode()
    for name in ("primary-1", "replica-1"):
        (refusal,) = page.context["page"].row.named(name).refusals
        assert refusal in text.partition(f'id="why-{name}"')[2].partition("</ul>")[0]
    assert f" {rebuild.pk} " in refusal
    assert 'href="/instances/primary-1/rebuild/"' not in text
    assert 'href="/instances/replica-1/rebuild/"' not in text


def test_cluster_poll_returns_the_fragment_only(viewer: Client) -> None:
    make_trio()
    for address in ("/", "/clusters/shop/"):
        answer = viewer.get(address, headers={"HX-Request": "true"})
        assert "<html" not in answer.content.decode()
        assert "replica-1" in answer.content.decode()
        assert "HX-Request" in answer["Vary"]


def test_cluster_page_escapes_names_and_errors(operator: Client) -> None:
    _, _, replica = make_trio()
    set_facts(replica, make_unreachable(text="\x1b[31m<script>alert(1)</script>"))
    text = operator.get("/clusters/shop/").content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text


def test_eligibility_is_blocked_by_the_rebuild_that_locks_the_source(operator: Client) -> None:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    Hold.objects.create(instance=backup, rebuild=rebuild, purpose="source", taken_at=timezone.now())
    Hold.objects.create(instance=replica, rebuild=rebuild, purpose="target", taken_at=timezone.now())
    found = answer(operator)
    assert found.by is not None
    assert (found.answer, found.by.rebuild, found.by.instance) == (EligibilityState.UNKNOWN, rebuild.pk, "backup-1")
    assert "backup-1" in found.by.text


def test_eligibility_is_blocked_until_the_usual_end_of_a_backup(operator: Client) -> None:
    _, backup, _ = make_trio()
    now = timezone.now()
    # not due again while this run lasts: that would be another reason to wait
    schedule = make_schedule(backup, cron=f"30 {(now - timedelta(hours=2)).hour} * * *")
    for days in (1, 2, 3):
        make_run(backup, schedule=schedule, started_at=now - timedelta(days=days), seconds=7200)
    run = make_run(backup, schedule=schedule, started_at=now - timedelta(hours=1))
    ends = timezone.localtime(now + timedelta(hours=1))
    found = answer(operator)
    assert found.by is not None
    assert (found.answer, found.by.run, found.by.instance) == (EligibilityState.UNTIL, run.pk, "backup-1")
    assert found.free.p50 is not None
    assert abs(found.free.p50 - ends) < timedelta(minutes=1)
    assert "backup-1-nightly" in found.by.text


def test_eligibility_is_blocked_by_an_unreachable_source(operator: Client) -> None:
    _, backup, _ = make_trio()
    set_facts(backup, make_unreachable(text="Connection refused"))
    found = answer(operator)
    assert found.by is not None
    assert (found.answer, found.by.kind, found.by.instance) == (
        EligibilityState.UNKNOWN,
        BlockerKind.SOURCE_DOWN,
        "backup-1",
    )
    assert "Connection refused" in found.by.text


def test_eligibility_is_blocked_until_maintenance_ends(operator: Client) -> None:
    primary, _, _ = make_trio()
    now = timezone.now()
    Maintenance.objects.create(
        cluster=primary.cluster, starts_at=now, ends_at=now + timedelta(hours=2), reason="new disks", created_by="olga"
    )
    found = answer(operator)
    assert found.by is not None
    assert (found.answer, found.by.kind) == (EligibilityState.UNTIL, BlockerKind.MAINTENANCE)
    assert "new disks" in found.by.text


def test_eligibility_is_no_source_without_replicas(operator: Client) -> None:
    make_instance("lonely", cluster=make_cluster("solo"), role="primary", facts=make_facts(read_only=False))
    assert answer(operator).answer is EligibilityState.NO_SOURCE


def test_fleet_page_filters_by_name_and_blocked(operator: Client) -> None:
    make_trio("alpha")
    _, backup, _ = make_trio("beta")
    set_facts(backup, make_unreachable())
    assert names(text="ALPHA") == ["alpha"]
    assert names(text="beta-rep") == ["beta"]
    assert names(show=Show.BLOCKED) == ["beta"]
    assert names(text="alpha", show=Show.BLOCKED) == []
    page = operator.get("/?show=blocked")
    text = page.content.decode()
    assert "cluster-beta" in text
    assert "cluster-alpha" not in text
    found = page.context["fleet"]
    assert (page.context["page"].paginator.count, found.clusters) == (1, 2)
    assert [found.counts[show] for show in (Show.TROUBLE, Show.BLOCKED, Show.RUNNING)] == [1, 1, 0]
    for show, count in (("trouble", 1), ("blocked", 1), ("running", 0)):
        assert re.search(rf'show={show}">\D*{count}\D', text)
    nothing = operator.get("/?text=nothing")
    assert nothing.context["fleet"].rows == ()
    assert "<tbody>" not in nothing.content.decode()


def test_fleet_filters_show_trouble_and_running_only(operator: Client) -> None:
    _, backup, replica = make_trio("alpha")
    make_trio("beta")
    assert (names(show=Show.TROUBLE), names(show=Show.RUNNING)) == ([], [])
    make_rebuild(target=replica, source=backup, status=Status.QUEUED)
    assert (names(show=Show.TROUBLE), names(show=Show.RUNNING)) == ([], ["alpha"])
    set_facts(replica, make_unreachable())
    assert names(show=Show.TROUBLE) == ["alpha"]
    assert len(names()) == 2
    for unknown in ("/?show=nonsense", "/?show=", "/?text=%00"):
        assert "cluster-beta" in operator.get(unknown).content.decode()


def test_fleet_row_shows_the_next_backup(operator: Client) -> None:
    _, backup, _ = make_trio()
    due = (timezone.localtime() + timedelta(hours=5)).replace(minute=30, second=0, microsecond=0)
    assert "data-window" not in operator.get("/").content.decode()
    make_schedule(backup, cron=f"30 {due.hour} * * *")
    shown = operator.get("/").content.decode().partition('data-window="backup-1"')[2].partition("</div>")[0]
    assert f"{due:%H:%M}" in shown


def test_cluster_page_and_fleet_page_agree(operator: Client) -> None:
    _, backup, _ = make_trio()
    make_run(backup, started_at=timezone.now() - timedelta(hours=1))
    of_fleet = answer(operator)
    page = operator.get("/clusters/shop/")
    of_cluster = page.context["agenda"].eligibility
    assert of_fleet.by is not None
    assert of_fleet.by.kind is BlockerKind.BACKUP_RUNNING
    assert (of_cluster.answer, of_cluster.source, of_cluster.by.text) == (
        of_fleet.answer,
        of_fleet.source,
        of_fleet.by.text,
    )
    assert of_fleet.by.text in words(page.content.decode())


def test_cluster_page_shows_an_instance_in_use_by_its_backup(operator: Client) -> None:
    _, backup, _ = make_trio()
    run = make_run(backup, started_at=timezone.now(), origin="managed")
    Hold.objects.create(instance=backup, backup_run=run, purpose="backup", taken_at=timezone.now())
    text = operator.get("/clusters/shop/").content.decode()
    assert 'data-held="backup"' in text.partition('id="row-backup-1"')[2].partition("</tr>")[0]


def test_cluster_page_takes_fixed_queries_in_a_large_fleet(operator: Client) -> None:
    counts = []
    for name in ("one", "two", "three"):
        _, backup, replica = make_trio(name)
        make_rebuild(target=replica, source=backup, status=Status.RUNNING)
        make_run(backup, schedule=make_schedule(backup), started_at=timezone.now() - timedelta(hours=9), seconds=3600)
        with CaptureQueriesContext(connection) as captured:
            assert operator.get("/clusters/one/").status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[2], counts


def test_fleet_page_takes_fixed_queries_at_any_size(operator: Client, olga: User) -> None:
    """Pinned at two sizes, with a week of runs: what it shows is a page, what it judges is all of them."""
    counts = []
    for clusters in (8, 60):
        make_big_fleet(clusters=clusters, now=timezone.now(), user=olga, seed=clusters)
        with CaptureQueriesContext(connection) as captured:
            text = operator.get("/").content.decode()
        assert 'class="timeline-chart"' in text
        counts.append(len(captured))
    assert counts[0] == counts[1] == FLEET_PAGE_QUERIES


def test_fleet_page_shows_the_newest_successful_backup_of_each_cluster(viewer: Client) -> None:
    now = timezone.now()
    _, backup, replica = make_trio()
    make_trio("legacy")
    make_run(backup, started_at=now - timedelta(hours=30), seconds=3600)
    make_run(replica, started_at=now - timedelta(hours=9), seconds=3600, status="succeeded", origin="managed")
    make_run(backup, started_at=now - timedelta(hours=5), seconds=3600, status="failed")
    make_run(backup, started_at=now - timedelta(hours=4), seconds=3600, status="ended")
    make_run(backup, started_at=now - timedelta(hours=1))
    page = viewer.get("/")
    shown = {row.agenda.cluster.name: row.last_backup for row in page.context["fleet"].rows}
    assert shown == {"shop": ("replica-1", now - timedelta(hours=8)), "legacy": None}
    assert marks(page.content.decode(), "last-backup") == ["replica-1"]


def test_cluster_poll_omits_the_week(viewer: Client) -> None:
    _, backup, _ = make_trio()
    make_schedule(backup, cron="30 2 * * *")
    page = viewer.get("/clusters/shop/")
    week = page.content.decode().split('id="week-title"')[1].split("</section>")[0]
    assert week.count('class="timeline-row"') == 7
    assert [len(day.timeline.windows) for day in page.context["week"]].count(1) >= 6
    with CaptureQueriesContext(connection) as captured:
        poll = viewer.get("/clusters/shop/", headers={"HX-Request": "true"}).content.decode()
    assert "week-title" not in poll
    assert len(captured) <= 37, [item["sql"][:80] for item in captured.captured_queries]


def test_cluster_page_disables_buttons_for_viewers(viewer: Client) -> None:
    make_trio()
    text = viewer.get("/clusters/shop/").content.decode()
    for name in ("primary-1", "backup-1", "replica-1"):
        button = text.split(f'aria-describedby="why-{name}"')[0].rsplit("<button", 1)[1]
        assert "disabled" in button
    assert text.count("data-operators-only") == 3
