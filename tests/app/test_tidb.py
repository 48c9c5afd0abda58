"""A TiDB cluster in the dashboard: what is shown of it, and that no job can touch it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dbops.engine.availability.shortages import Gap
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.facts.tidb import StoreLeaders, TablePlacement, TidbFacts, TidbNode
from dbops.engine.methods import METHODS
from dbops.engine.schedule.calendar import Interval
from dbops.lifecycle.instance_periods import note_period
from dbops.lifecycle.topology_differences import note_differences
from dbops.loaders.doublewrite import doublewrite_of
from dbops.models import BackupSchedule, Instance, InstancePeriod, InstanceState, Rebuild, TopologyDifference
from dbops.operations.backups import run_now
from dbops.operations.fleet import FleetFileErrors, import_fleet
from dbops.operations.load_tests import plan_load_test
from dbops.operations.rebuild_group import plan_group
from dbops.operations.rebuilds import candidate_sources, plan_rebuild, request_rebuild
from dbops.operations.schedules import save_schedule
from dbops.queries.availability.overview import gaps_of
from dbops.queries.fleet.overview import Show, fleet
from tests.app.factories import (
    make_cluster,
    make_facts,
    make_host,
    make_instance,
    make_period,
    make_schedule,
    make_trio,
)
from tests.app.load_test_rows import make_place, make_request

pytestmark = pytest.mark.django_db
HOSTILE = "t`;--<b>"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)


def tidb_facts(**values: Any) -> TidbFacts:
    nodes = tuple(TidbNode("tikv", f"192.0.2.{number}:20160") for number in range(3)) + (
        TidbNode("tidb", "192.0.2.9:4000"),
    )
    known = {
        "schema": "ledger",
        "sharding": "NOT_SHARDED(PK_IS_HANDLE)",
        "is_clustered": True,
        "primary_key": ("id",),
        "first_key_type": "bigint",
    }
    tables = (
        TablePlacement(table="events", counts_up=True, stores=(StoreLeaders(4, 9),), **known),
        TablePlacement(table="even", stores=tuple(StoreLeaders(store, 3) for store in (4, 5, 6)), **known),
        TablePlacement(table="large", problem="about 9,000 regions are too many to list", **known),
        TablePlacement(table=HOSTILE, counts_up=True, stores=(StoreLeaders(5, 1),), **known),
    )
    given: dict[str, Any] = {"release": "8.5.1", "nodes": nodes, "placements": tables, "read_at": timezone.now()}
    return TidbFacts(**{**given, **values})


def node_facts(**values: Any) -> InstanceFacts:
    return make_facts(flavor="tidb", version="8.0.11-TiDB-v8.5.1", replication=(), tidb=tidb_facts(**values))


def make_nodes(count: int = 3, cluster: str = "ledger") -> list[Instance]:
    row = make_cluster(cluster)
    return [
        make_instance(f"{cluster}-t{number}", cluster=row, role="tidb", facts=node_facts(), port=4000)
        for number in range(1, count + 1)
    ]


def code_of(act: Callable[..., object], *words: object, **named: object) -> str:
    with pytest.raises(Refused) as caught:
        act(*words, **named)
    return caught.value.code


@pytest.mark.parametrize("method", METHODS)
def test_no_method_rebuilds_a_node(olga: User, method: str) -> None:
    target, source, _ = make_nodes()
    assert candidate_sources(target) == []
    for chosen in (None, source):
        assert code_of(plan_rebuild, target=target, source=chosen, method=method) == "flavor.tidb"
    asked = {"typed_name": target.name, "reason": "disk replaced", "fingerprint": "x", "request_key": "one"}
    assert code_of(request_rebuild, actor=olga, target=target, source=source, method=method, **asked) == "flavor.tidb"
    assert not Rebuild.objects.exists()
    assert [one.refused.code for one in plan_group([target], source) if one.refused] == ["flavor.tidb"]


def test_no_rebuild_reads_a_node() -> None:
    _, _, replica = make_trio()
    (node,) = make_nodes(1)
    assert code_of(plan_rebuild, target=replica, source=node) == "flavor.tidb"


def test_node_with_another_role_is_refused_by_its_server() -> None:
    """Facts of before its role was changed."""
    _, backup, replica = make_trio()
    for instance in (backup, replica):
        InstanceState.objects.filter(instance=instance).update(**InstanceState.columns(node_facts()))
    target, source = (Instance.objects.get(pk=one.pk) for one in (replica, backup))
    assert code_of(plan_rebuild, target=target, source=source) == "flavor.tidb"


def test_pages_offer_no_rebuild(operator: Client) -> None:
    make_nodes()
    page = operator.get("/clusters/ledger/")
    text = page.content.decode()
    assert page.context["page"].row.can_be_rebuilt == []
    assert all(row.refusals for row in page.context["page"].row.rows)
    assert page.context["agenda"].eligibility.answer == "not offered"
    assert "data-not-offered" in text
    assert 'id="group-link"' not in text
    assert "/rebuild" not in text.partition('id="instances"')[2]
    plan = operator.get("/instances/ledger-t1/rebuild/")
    assert plan.context["no_plan"].code == "flavor.tidb"
    assert plan.context["plan"] is None
    group = operator.get(reverse("rebuild-group", args=["ledger"]))
    assert (group.context["sources"], group.context["candidates"]) == ([], [])
    poll = operator.get("/clusters/ledger/", headers={"HX-Request": "true"})
    assert poll.status_code == 200
    assert "hx-swap-oob" not in poll.content.decode()


def test_placement_shows_skew_and_exact_statements(viewer: Client) -> None:
    make_nodes()
    page = viewer.get("/clusters/ledger/")
    rows = {row.table.table: row for row in page.context["tidb"].rows}
    assert rows["events"].skew.factor == 3.0
    assert rows["events"].is_noticeable
    assert not rows["even"].is_noticeable
    assert (rows["large"].skew, rows["large"].ways) == (None, ())
    text = page.content.decode()
    assert 'data-skew="3.0"' in text
    assert text.count("data-no-regions") == 1
    assert text.count('data-advice="') == 2
    assert "<b>" not in text.partition("data-advice")[2]
    assert "ALTER TABLE `ledger`.`t``;--&lt;b&gt;` PARTITION BY KEY (`id`) PARTITIONS 3;" in text
    assert page.context["tidb"].kinds == {"tikv": 3, "tidb": 1}


@pytest.mark.parametrize(
    "facts", [{"placements": None, "nodes": None}, {"placements": (), "nodes": (TidbNode("tikv", "store1"),)}]
)
def test_placement_that_is_not_reported_is_unknown(viewer: Client, facts: dict[str, Any]) -> None:
    (node,) = make_nodes(1)
    InstanceState.objects.filter(instance=node).update(**InstanceState.columns(node_facts(**facts)))
    page = viewer.get("/clusters/ledger/")
    assert page.context["tidb"].rows == ()
    assert ("data-one-store" in page.content.decode()) == (facts["nodes"] is not None)


def test_cluster_before_its_first_probe_has_a_page(viewer: Client) -> None:
    make_instance("ledger-t1", cluster=make_cluster("ledger"), role="tidb")
    page = viewer.get("/clusters/ledger/")
    assert page.context["tidb"] is None
    assert page.status_code == 200


@pytest.mark.parametrize(
    "page", ["/", "/availability/", "/calendar/", "/clusters/ledger/calendar/", "/clusters/ledger/capacity/"]
)
def test_other_pages_show_the_cluster(viewer: Client, page: str) -> None:
    make_nodes()
    answer = viewer.get(page)
    assert answer.status_code == 200
    assert "ledger" in answer.content.decode()


def test_healthy_cluster_is_neither_blocked_nor_in_trouble() -> None:
    nodes = make_nodes()
    found = fleet(timezone.now())
    assert (found.counts[Show.TROUBLE], found.counts[Show.BLOCKED]) == (0, 0)
    InstanceState.objects.filter(instance=nodes[0]).update(problem="no answer")
    assert fleet(timezone.now()).counts[Show.TROUBLE] == 1


def test_cluster_has_no_gaps_but_times_without_probes() -> None:
    now = datetime(2026, 3, 24, tzinfo=UTC)
    nodes = make_nodes()
    for node in nodes:
        make_period(node, "healthy", now - timedelta(days=2))
        InstanceState.objects.filter(instance=node).update(observed_at=now)
    found = gaps_of(nodes[0].cluster, Interval(now - timedelta(days=1), now), now, gap=None)
    assert {one.gap for one in found.parts} <= {Gap.NOT_OBSERVED}
    assert [one.seconds for one in found.sums if one.gap is not Gap.NOT_OBSERVED] == [0.0] * 5


def test_state_of_a_node_is_healthy_without_replication() -> None:
    (node,) = make_nodes(1)
    assert note_period(Instance.objects.select_related("state").get(pk=node.pk), node_facts(), gap=timedelta(minutes=5))
    assert InstancePeriod.objects.get(instance=node).state == "healthy"


def test_nodes_have_no_topology_differences() -> None:
    nodes = make_nodes()
    note_differences([nodes[0].cluster_id])
    assert not TopologyDifference.objects.exists()
    assert doublewrite_of(nodes[0], None) is None


def test_load_test_of_other_statements_is_refused(operator: Client) -> None:
    node = make_nodes()[0]
    assert code_of(plan_load_test, make_request(node, make_place())) == "load_test.tidb"
    assert operator.get(f"/clusters/{node.cluster.name}/load-tests/new/").status_code == 200


def test_schedule_of_a_node_is_refused(olga: User) -> None:
    (node,) = make_nodes(1)
    values = {"name": "nightly", "instance": node, "method": "dump", "run_by": "dbops", "cron": "0 2 * * *"}
    values |= {"time_zone": "UTC", "directory": "/backup", "keep_count": 7}
    assert code_of(save_schedule, actor=olga, schedule=None, values=values) == "schedule.invalid"
    assert not BackupSchedule.objects.exists()
    # of before its role was changed
    assert code_of(run_now, make_schedule(node, run_by="dbops"), olga) == "flavor.tidb"


BACKUPS = ", backups: [{name: n, method: dump, run_by: external, cron: '0 2 * * *'}]"
FILE = """\
version: 1
clusters:
  - name: ledger
    accounts: {admin: {user: dbops, password: x}}
    instances:
      - {name: ledger-t1, host: db-1, role: tidb, port: 4000, datadir: /tidb/1, service: {systemd_unit: tidb-4000}}
      - {name: ledger-t2, host: db-1, role: tidb, port: 4001, datadir: /tidb/2, service: {systemd_unit: tidb-4001}BACKUPS}
      - {name: ledger-x, host: db-1, role: ROLE, port: 4002, datadir: /tidb/3, service: {systemd_unit: tidb-4002}}
"""


@pytest.mark.parametrize(
    ("role", "backups", "wrong"),
    [
        ("tidb", "", ()),
        ("replica", "", ("clusters[0].instances[2].role",)),
        ("primary", "", ("clusters[0].instances[2].role",)),
        (
            "tidb",
            BACKUPS,
            ("clusters[0].instances[1].backups[0].run_by",),
        ),
    ],
)
def test_fleet_file_has_tidb_nodes_alone_and_without_backups(
    olga: User, role: str, backups: str, wrong: tuple[str, ...]
) -> None:
    make_host("db-1")
    text = FILE.replace("BACKUPS", backups).replace("ROLE", role)
    if not wrong:
        import_fleet(actor=olga.get_username(), text=text, base_dir=None)
        assert set(Instance.objects.values_list("role", flat=True)) == {"tidb"}
        return
    with pytest.raises(FleetFileErrors) as caught:
        import_fleet(actor=olga.get_username(), text=text, base_dir=None)
    assert tuple(error.path for error in caught.value.errors) == wrong
    assert not Instance.objects.exists()
