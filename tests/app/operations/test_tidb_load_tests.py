"""A load test of a TiDB cluster: what its plan refuses, what a person has to type, and what its pages show."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import InstanceFacts, Tool
from dbops.engine.facts.tidb import TidbFacts, TidbNode
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.models import AuditEntry, Cluster, Host, Instance, LoadTest
from dbops.operations.load_tests import plan_load_test, request_load_test
from tests.app.factories import make_cluster, make_facts, make_host, make_host_facts, make_instance, set_facts
from tests.app.load_test_rows import make_load_test

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
DDL = "CREATE TABLE events (id BIGINT AUTO_INCREMENT PRIMARY KEY, u INT NOT NULL)"
NODES = (
    *(TidbNode("tikv", f"192.0.2.{number}:20160") for number in range(1, 4)),
    *(TidbNode("tidb", f"192.0.2.{number}:4000") for number in (11, 12)),
    TidbNode("pd", "192.0.2.1:2379"),
)


def node_facts(*, nodes: tuple[TidbNode, ...] | None = NODES, **values: Any) -> InstanceFacts:
    given: dict[str, Any] = {"release": "8.5.1", "nodes": nodes, "user_schemas": (), **values}
    host = make_host_facts(tools={"sysbench": Tool("/usr/bin/sysbench", "1.0.20")})
    return make_facts(
        flavor="tidb", version="8.0.11-TiDB-v8.5.1", replication=(), read_only=False, tidb=TidbFacts(**given), host=host
    )


@pytest.fixture
def cluster() -> Cluster:
    """A cluster of two TiDB nodes that is empty, with an account for the load."""
    row = make_cluster("bench", admin_user="dbops", admin_password="probe")  # noqa: S106
    Cluster.objects.filter(pk=row.pk).update(load_user="dbops_load")
    row.refresh_from_db()
    row.load_password = "its own"  # noqa: S105
    row.save()
    for number in (1, 2):
        make_instance(f"bench-t{number}", cluster=row, role="tidb", facts=node_facts(), port=4000)
    return row


def node() -> Instance:
    return Instance.objects.select_related("host").get(name="bench-t1")


def wanted(**changes: Any) -> LoadTestRequest:
    work = changes.pop("workload", Workload(Profile.INSERT, table_ddl=changes.pop("ddl", DDL)))
    given: dict[str, Any] = {"raised": Raised.RATE, "steps": (1000, 2000), "repeats": 1, "seconds": 5}
    return LoadTestRequest(
        source="bench-t1", host=changes.pop("host", node().host.name), workload=work, **given | changes
    )


def refusals(plan: LoadTestPlan) -> list[str]:
    return [one.code for one in plan.refusals]


def see(name: str, facts: InstanceFacts) -> None:
    set_facts(Instance.objects.get(name=name), facts)


def see_all(**values: Any) -> None:
    for name in ("bench-t1", "bench-t2"):
        see(name, node_facts(**values))


@pytest.mark.usefixtures("cluster")
def test_empty_cluster_can_have_inserts() -> None:
    plan = plan_load_test(wanted())
    assert refusals(plan) == []
    assert plan.tidb
    assert (plan.tidb.cluster, plan.tidb.port, plan.tidb.user, plan.tidb.table) == ("bench", 4000, "dbops_load", DDL)
    assert len(plan.tidb.nodes) == len(NODES)
    assert {one.code for one in plan.warnings} == {"load_test.shared_host"}
    assert [one.rate for one in plan.rounds] == [1000, 2000]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "changes",
    [
        {"workload": Workload(Profile.POINT_SELECT)},
        {"run": 7},
        {"raised": Raised.NOTHING, "options_b": (("sync_binlog", "1"),)},
        {"options": (("sync_binlog", "1"),)},
        {"generator_host": "host-bench-t2"},
        {"ddl": "CREATE TABLE mysql.user (id INT)"},
        {"ddl": "CREATE TABLE IF NOT EXISTS `a``b` . `c` (id INT)"},
    ],
)
def test_anything_else_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        plan_load_test(wanted(**changes))
    assert caught.value.code == "load_test.tidb"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "ddl", ["CREATE TABLE `a.b` (id INT)", "CREATE TABLE IF NOT EXISTS t (v DECIMAL(3,1) DEFAULT 1.5)"]
)
def test_table_whose_name_only_looks_like_one_of_another_schema_is_possible(ddl: str) -> None:
    assert refusals(plan_load_test(wanted(ddl=ddl))) == []


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"user_schemas": ("shop",)}, "load_test.cluster_in_use"),
        ({"user_schemas": ("dbops_load", "shop")}, "load_test.cluster_in_use"),
        ({"user_schemas": None}, "load_test.cluster_in_use"),
        ({"user_schemas": ("DBOPS_load",)}, "load_test.claimed"),
        ({"nodes": None}, "load_test.cluster_nodes"),
        ({"nodes": (*NODES, TidbNode("tidb", "192.0.2.13:4000"))}, "load_test.cluster_nodes"),
        ({"nodes": NODES[:4]}, "load_test.cluster_nodes"),
        ({"nodes": (*NODES, TidbNode("ticdc", "192.0.2.14:8300"))}, "load_test.cluster_nodes"),
    ],
)
def test_cluster_that_may_serve_is_refused(values: dict[str, Any], code: str) -> None:
    see_all(**values)
    assert refusals(plan_load_test(wanted())) == [code]


@pytest.mark.usefixtures("cluster")
def test_each_node_counts_and_only_what_was_seen_just_now() -> None:
    see("bench-t2", node_facts(user_schemas=("shop",)))
    assert refusals(plan_load_test(wanted())) == ["load_test.cluster_in_use"]
    see("bench-t2", node_facts(nodes=NODES[1:]))
    assert refusals(plan_load_test(wanted())) == ["load_test.cluster_nodes"]
    see("bench-t2", replace(node_facts(), observed_at=timezone.now() - timezone.timedelta(hours=1)))
    assert refusals(plan_load_test(wanted())) == ["load_test.cluster_nodes"]
    see("bench-t2", replace(node_facts(), server=None))
    assert refusals(plan_load_test(wanted())) == ["load_test.cluster_nodes"]


@pytest.mark.parametrize("change", [{"load_user": ""}, {"load_user": "dbops"}, {"load_password": ""}])
def test_load_needs_an_account_of_its_own(cluster: Cluster, change: dict[str, str]) -> None:
    for name, value in change.items():
        setattr(cluster, name, value)
    cluster.save()
    [finding] = plan_load_test(wanted()).refusals
    assert finding.code == "load_test.account"
    assert "GRANT CREATE, DROP, INSERT, SELECT ON dbops_load.*" in finding.text


@pytest.mark.usefixtures("cluster")
def test_host_without_the_generator_or_with_another_serving_cluster_is_refused() -> None:
    there = make_host("busy")
    other = make_instance("shop-1", cluster=make_cluster("shop"), role="primary", host=there)
    facts = make_facts(read_only=False)
    assert facts.host
    set_facts(other, replace(facts, host=replace(facts.host, tools={})))
    assert set(refusals(plan_load_test(wanted(host="busy")))) == {"load_test.tool", "load_test.host"}
    Host.objects.create(name="unseen", ssh_address="unseen.example")
    assert refusals(plan_load_test(wanted(host="unseen"))) == ["load_test.host"]


@pytest.mark.usefixtures("cluster")
def test_person_types_the_name_of_the_cluster(olga: User) -> None:
    request = wanted()
    for typed in (request.host, "bench-t1", ""):
        with pytest.raises(Refused) as caught:
            make_load_test(request, actor=olga, typed_name=typed)
        assert caught.value.code == "load_test.name"
    row = make_load_test(request, actor=olga, typed_name="bench")
    [entry] = AuditEntry.objects.filter(action="load_test.requested")
    assert (entry.detail["cluster"], entry.detail["load_test"]) == ("bench", row.pk)
    assert "its own" not in str([row.plan, row.request, entry.detail])


@pytest.mark.usefixtures("cluster")
def test_another_table_needs_another_confirmation(olga: User) -> None:
    shown = plan_load_test(wanted())
    given = {"typed_name": "bench", "reason": "before the move", "request_key": "one"}
    with pytest.raises(Refused) as caught:
        request_load_test(
            actor=olga, request=wanted(ddl=f"{DDL} SHARD_ROW_ID_BITS=4"), fingerprint=shown.fingerprint, **given
        )
    assert caught.value.code == "load_test.stale"


@pytest.mark.usefixtures("cluster")
def test_page_plans_confirms_and_shows_the_test(operator: Client) -> None:
    url = reverse("load-test-new", args=["bench"])
    page = operator.get(url)
    assert page.context["plan"] is None
    assert [name for name, _, _ in page.context["form"].sections] == ["Cluster", "Inserts", "Load"]
    given = {
        "table_ddl": DDL,
        "key_ranges": "u 1 100",
        "raised": "rate",
        "steps": "1000",
        "repeats": "1",
        "seconds": "5",
    }
    page = operator.post(url, given)
    plan = page.context["plan"]
    assert plan.tidb.table == DDL
    assert page.context["blocking_reasons"] == []
    assert any("DROP DATABASE dbops_load" in one.text for one in page.context["commands"])
    assert not any("password" in one.text.lower() for one in page.context["commands"])
    confirm = {name: page.context[name] for name in ("kept", "shown", "request_key")}
    confirm |= {"fingerprint": plan.fingerprint, "typed_name": "bench", "reason": "before the move"}
    done = operator.post(page.context["url"], confirm)
    row = LoadTest.objects.get()
    assert (done.status_code, done["Location"]) == (302, reverse("load-test", args=[row.pk]))
    assert row.request["workload"]["key_ranges"] == [["u", 1, 100]]
    shown = operator.get(done["Location"])
    assert shown.context["plan"].tidb.cluster == "bench"
    assert 'data-tidb="bench"' in shown.content.decode()
