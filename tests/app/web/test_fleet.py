"""The fleet and one cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.states import Status
from dbops.models import Hold
from dbops.queries import fleet
from tests.app.factories import (
    make_channel,
    make_cluster,
    make_facts,
    make_instance,
    make_rebuild,
    make_trio,
    make_unreachable,
    set_facts,
)

pytestmark = pytest.mark.django_db


def test_an_empty_fleet_leads_an_operator_to_the_import(operator: Client, viewer: Client) -> None:
    assert "Import a fleet file" in operator.get("/").content.decode()
    assert "An operator can import" in viewer.get("/").content.decode()


def test_a_cluster_in_health_can_be_rebuilt_now(operator: Client) -> None:
    make_trio()
    text = operator.get("/").content.decode()
    assert "2 of 2" in text
    [row] = fleet.fleet()
    assert row.can_rebuild
    assert row.trouble == 0


def test_clusters_in_trouble_come_first() -> None:
    make_trio("alpha")
    _, _, replica = make_trio("beta")
    set_facts(replica, make_unreachable())
    primary, _, _ = make_trio("gamma")
    set_facts(primary, make_unreachable())
    make_cluster("empty")
    assert [row.name for row in fleet.fleet()] == ["gamma", "beta", "alpha", "empty"]


def test_a_held_source_blocks_and_is_named() -> None:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    Hold.objects.create(instance=backup, rebuild=rebuild, purpose="source", taken_at=timezone.now())
    [row] = fleet.fleet()
    assert row.blockers == (f"backup-1 is held by rebuild {rebuild.pk} as its source",)


def test_an_unreachable_source_blocks_with_its_reason() -> None:
    _, backup, _ = make_trio()
    set_facts(backup, make_unreachable(text="Connection refused"))
    [row] = fleet.fleet()
    assert row.blockers == ("backup-1 is unreachable (Connection refused)",)


def test_a_cluster_without_replicas_has_nothing_to_rebuild() -> None:
    make_instance("lonely", cluster=make_cluster("solo"), role="primary", facts=make_facts(read_only=False))
    [row] = fleet.fleet()
    assert row.blockers == ("There is no replica to rebuild.",)


@pytest.mark.parametrize(
    ("changes", "state", "text"),
    [
        ({"replication": ()}, "stopped", "replicates from nothing"),
        ({"replication": (make_channel(io_running="No"),)}, "stopped", "IO thread No"),
        (
            {"replication": (make_channel(sql_running="No", last_sql_error="Duplicate entry"),)},
            "stopped",
            "Duplicate entry",
        ),
        ({"replication": (make_channel(lag_seconds=None),)}, "warning", "lag is not known"),
        ({"replication": (make_channel(lag_seconds=4000),)}, "lagging", "4000 s"),
        ({"replication": (make_channel(),), "read_only": False}, "warning", "read_only is off"),
        ({"replication": (make_channel(),)}, "healthy", "replicates"),
    ],
)
def test_a_replica_is_judged_by_what_was_read(changes: dict, state: str, text: str) -> None:
    replica = make_instance("replica-9", cluster=make_cluster(), facts=make_facts(**changes))
    row = fleet.instance_row(replica)
    assert row.state == state
    assert text in row.state_text


def test_old_facts_are_not_trusted() -> None:
    _, _, replica = make_trio()
    set_facts(replica, replace(make_facts(), observed_at=timezone.now() - timedelta(hours=1)))
    row = fleet.instance_row(replica)
    assert row.state == "unknown"
    assert not row.is_fresh


def test_the_greatest_lag_is_unknown_where_one_channel_is() -> None:
    channels = (make_channel(channel="a", lag_seconds=7), make_channel(channel="b", lag_seconds=None))
    replica = make_instance("replica-9", cluster=make_cluster(), facts=make_facts(replication=channels))
    assert fleet.instance_row(replica).lag_seconds is None


def test_the_cluster_page_shows_what_the_probes_read(viewer: Client) -> None:
    _, _, replica = make_trio()
    set_facts(replica, make_facts(gtid_executed="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8812"))
    text = viewer.get("/clusters/shop/").content.decode()
    for shown in ("primary-1", "mariadb 10.11.19", "1.45 TiB", "2.34 TiB free", "read only", "mariadb-backup 10.11.19"):
        assert shown in text
    assert 'title="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8812"' in text
    assert "3e11fa47…:1-8812" in text


def test_rebuild_is_offered_to_operators_and_explained_to_viewers(operator: Client, viewer: Client) -> None:
    make_trio()
    assert 'href="/instances/replica-1/rebuild/"' in operator.get("/clusters/shop/").content.decode()
    seen = viewer.get("/clusters/shop/").content.decode()
    assert 'href="/instances/replica-1/rebuild/"' not in seen
    assert "Rebuild replica" in seen
    assert "Only operators may rebuild." in seen


def test_a_primary_and_a_busy_replica_say_why_they_cannot_be_rebuilt(operator: Client) -> None:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    text = operator.get("/clusters/shop/").content.decode()
    assert "It is the primary" in text
    assert f"Rebuild {rebuild.pk} of it is running." in text
    assert 'href="/instances/replica-1/rebuild/"' not in text


def test_a_poll_gets_the_fragment_alone(viewer: Client) -> None:
    make_trio()
    for address in ("/", "/clusters/shop/"):
        answer = viewer.get(address, headers={"HX-Request": "true"})
        assert "<html" not in answer.content.decode()
        assert "replica-1" in answer.content.decode()
        assert "HX-Request" in answer["Vary"]


def test_names_and_errors_from_hosts_are_escaped(operator: Client) -> None:
    _, _, replica = make_trio()
    set_facts(replica, make_unreachable(text="\x1b[31m<script>alert(1)</script>"))
    text = operator.get("/clusters/shop/").content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text


def test_a_page_costs_the_same_however_large_the_fleet_is(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for name in ("one", "two", "three"):
        _, backup, replica = make_trio(name)
        make_rebuild(target=replica, source=backup, status=Status.RUNNING)
    with django_assert_num_queries(5):
        rows = fleet.fleet()
        assert all(row.rows and row.trouble >= 0 and row.running for row in rows)
    cluster = rows[0].rows[0].instance.cluster
    with django_assert_num_queries(5):
        assert fleet.cluster_page(cluster).recent
