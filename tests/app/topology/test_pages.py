"""The topology's pages, and discoveries from the click to the end."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import Attached, InstanceFacts, ProbeProblem, to_record
from dbops.engine.topology.nodes import DiscoveryResult, Node, ReplicationLink
from dbops.lifecycle import topology_differences
from dbops.models import AuditEntry, Cluster, Discovery, Host, Instance, InstanceState, TopologyDifference
from dbops.operations.topology import request_discovery
from dbops.queries import topology as queries
from dbops.queries.fleet.cluster import cluster_page
from dbops.worker import discovery
from tests.app.factories import make_channel, make_cluster, make_facts, make_instance, make_trio, set_facts

#: How a replica without an address is drawn.
ATTACHED = "server id 77"
PASSWORD = "open sesame"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


def tree(nodes: tuple[queries.Drawn, ...]) -> dict[str, Any]:
    return {node.name: tree(node.below) for node in nodes}


def drawn(cluster: Cluster) -> dict[str, Any]:
    return tree(queries.drawing(cluster_page(cluster)))


def replicating(source: str, **values: Any) -> InstanceFacts:
    return make_facts(replication=(make_channel(source_host=source),), **values)


def test_drawing_places_replicas_below_their_source() -> None:
    primary, backup, replica = make_trio()
    set_facts(replica, replicating(backup.address))
    assert drawn(primary.cluster) == {"primary-1": {"backup-1": {"replica-1": {}}}}


def test_drawing_shows_each_instance_of_a_ring_once_with_a_note() -> None:
    cluster = make_cluster()
    one, two = (make_instance(name, cluster=cluster) for name in ("one", "two"))
    set_facts(one, replicating(two.address, server_id=1))
    set_facts(two, replicating(one.address, server_id=2))
    (root,) = queries.drawing(cluster_page(cluster))
    assert tree((root,)) == {"one": {"two": {}}}
    (note,) = root.notes
    assert "two" in note


def test_drawing_includes_unknown_sources_and_replicas() -> None:
    primary, _, replica = make_trio()
    set_facts(replica, replicating("10.9.9.9", server_id=3))
    set_facts(primary, make_facts(read_only=False, server_id=1, replicas=(Attached(77, "", 3306),)))
    assert drawn(primary.cluster) == {
        "primary-1": {"backup-1": {}, ATTACHED: {}},
        "10.9.9.9:3306": {"replica-1": {}},
    }


def test_drawing_contains_every_member_of_a_deep_chain() -> None:
    cluster = make_cluster()
    names = [f"n-{number:02}" for number in range(25)]
    make_instance(names[0], cluster=cluster, role="primary", facts=make_facts(server_id=1, read_only=False))
    for number, name in enumerate(names[1:], 1):
        facts = replicating(f"{names[number - 1]}.example", server_id=number + 1)
        make_instance(name, cluster=cluster, facts=facts)

    def count(nodes: tuple[queries.Drawn, ...]) -> list[str]:
        return [name for node in nodes for name in (node.name, *count(node.below))]

    assert sorted(count(queries.drawing(cluster_page(cluster)))) == names


def test_topology_page_takes_fixed_queries_for_thirty_replicas(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    primary, _, _ = make_trio()
    with django_assert_num_queries(8):
        page = cluster_page(primary.cluster)
        assert queries.drawing(page)
        queries.differences(primary.cluster_id)
    for number in range(30):
        facts = replicating(primary.address, server_id=number + 10)
        make_instance(f"more-{number}", cluster=primary.cluster, facts=facts)
    with django_assert_num_queries(8):
        page = cluster_page(primary.cluster)
        assert queries.drawing(page)
        queries.differences(primary.cluster_id)


def test_topology_poll_returns_the_drawing_only(viewer: Client) -> None:
    make_trio()
    answer = viewer.get("/clusters/shop/topology/", headers={"HX-Request": "true"})
    assert "<html" not in answer.content.decode()
    assert 'data-source="primary-1"' in answer.content.decode()


def fail_over() -> TopologyDifference:
    primary, backup, replica = make_trio()
    for _ in range(2):
        set_facts(primary, make_facts(read_only=True, server_id=1))
        set_facts(backup, replicating(replica.address, server_id=2))
        set_facts(replica, make_facts(read_only=False, server_id=3))
        topology_differences.note_differences([primary.cluster_id])
    return TopologyDifference.objects.get(code="failover")


def test_cluster_page_and_topology_page_show_an_open_difference(viewer: Client, operator: Client) -> None:
    row = fail_over()
    address = f"/clusters/shop/topology/{row.pk}/"
    assert "data-stopping" in viewer.get("/clusters/shop/").content.decode()
    page = viewer.get("/clusters/shop/topology/")
    text = page.content.decode()
    assert "data-stopping" in text
    assert row.pk in [item.row.pk for item in page.context["differences"].stopping]
    assert f'id="difference-{row.pk}"' in text
    assert address not in text
    assert address in operator.get("/clusters/shop/topology/").content.decode()
    assert viewer.get(address).status_code == 403


def test_topology_page_accepts_and_withdraws_a_difference(operator: Client) -> None:
    row = fail_over()
    address = f"/clusters/shop/topology/{row.pk}/"
    assert 'value="roles"' in operator.get(address).content.decode()
    assert operator.get(f"/clusters/other/topology/{row.pk}/").status_code == 404
    answer = operator.post(address, {"action": "intended", "reason": ""})
    assert answer.status_code == 409
    assert answer.context["refused"].code == "topology.reason"
    assert operator.post(address, {"action": "intended", "reason": "a test"}).status_code == 302
    again = operator.get(address).content.decode()
    assert 'value="withdraw"' in again
    assert 'value="roles"' not in again
    assert operator.post(address, {"action": "withdraw"}).status_code == 302
    answer = operator.post(address, {"action": "roles", "typed_name": "replica-1", "reason": "it died"}, follow=True)
    assert answer.redirect_chain == [("/clusters/shop/topology/", 302)]
    *_, message = answer.context["messages"]
    assert message.level_tag == "success"
    assert "replica-1" in message.message
    assert Instance.objects.get(name="replica-1").role == "primary"


# --- discoveries ------------------------------------------------------------------------------------------------------
def node(key: str, number: int, *sources: str, **values: Any) -> Node:
    links = tuple(ReplicationLink("", f"{source}.example", 3306, source, is_running=True) for source in sources)
    given: dict[str, Any] = {
        "addresses": ((f"{key}.example", 3306),),
        "flavor": "mariadb",
        "version": "10.11.19",
        "server_id": number,
        "hostname": key,
        "port": 3306,
        "datadir": "/var/lib/mysql/",
        "read_only": bool(sources),
        "links": links,
        "attached": 0,
    }
    return Node(key=key, **(given | values))


def found(*nodes: Node) -> Discovery:
    now = timezone.now()
    record = to_record(DiscoveryResult(nodes, 0.5))
    return Discovery.objects.create(
        requested_by="olga", requested_at=now, address="p.example", user="dbops", status="done", result=record
    )


def test_discovery_needs_an_operator(viewer: Client, operator: Client) -> None:
    row = found(node("p", 1))
    for page in ("/discoveries/", f"/discoveries/{row.pk}/", f"/discoveries/{row.pk}/add/0/"):
        assert viewer.get(page).status_code == 403
        assert operator.get(page).status_code == 200


def test_discovery_password_is_encrypted_and_removed_at_the_end(
    operator: Client, django_capture_on_commit_callbacks: Any, sent: list[tuple[Any, ...]]
) -> None:
    given = {"address": "127.0.0.1", "port": "1", "user": "dbops", "password": PASSWORD}
    with django_capture_on_commit_callbacks(execute=True):
        answer = operator.post("/discoveries/", given)
    row = Discovery.objects.get()
    assert answer["Location"] == f"/discoveries/{row.pk}/"
    assert [ids for _, *ids in sent] == [[row.pk]]
    assert row.password == PASSWORD
    assert PASSWORD not in str(AuditEntry.objects.values_list("detail", flat=True))
    assert f'hx-get="/discoveries/{row.pk}/' in operator.get(f"/discoveries/{row.pk}/").content.decode()
    assert discovery.run_discovery(row.pk) is True
    assert discovery.run_discovery(row.pk) is False
    row.refresh_from_db()
    assert (row.status, row.password) == ("done", "")
    page = operator.get(f"/discoveries/{row.pk}/")
    text = page.content.decode()
    assert [node.problem.code for node in page.context["found"].nodes] == ["mysql.unreachable"]
    assert 'data-state="unreachable"' in text
    assert 'hx-get="/discoveries/' not in text
    assert operator.get(f"/discoveries/{row.pk}/", headers={"HX-Request": "true"}).status_code == 286
    assert PASSWORD not in text


def test_discovery_of_a_dead_worker_fails_and_loses_its_password() -> None:
    old = timezone.now() - timedelta(seconds=discovery.RUNS_AT_MOST_SECONDS + 5)
    values = {"requested_by": "olga", "address": "x", "user": "dbops", "password": PASSWORD}
    dead = Discovery.objects.create(**values, requested_at=old, started_at=old, status="running")
    waiting = Discovery.objects.create(**values, requested_at=timezone.now(), status="queued")
    assert discovery.discoveries_due() == [waiting.pk]
    dead.refresh_from_db()
    assert (dead.status, dead.password) == ("failed", "")


@pytest.mark.parametrize(
    "values",
    [{"address": "-oops"}, {"address": "a b"}, {"port": 0}, {"user": ""}, {"cluster": "an empty one"}],
)
def test_request_discovery_refuses_invalid_values(db: None, values: dict[str, Any]) -> None:
    given: dict[str, Any] = {"address": "db.example", "port": 3306, "user": "dbops", "password": "x"} | values
    if "cluster" in given:
        given["cluster"] = make_cluster()
    with pytest.raises(Refused) as error:
        request_discovery(actor="olga", **given)
    assert error.value.code == "discovery.invalid"
    assert not Discovery.objects.exists()


def answers(**values: str) -> dict[str, str]:
    given = {
        "cluster": "found",
        "ssh_user": "root",
        "ssh_port": "22",
        "ssh_key_file": "",
        "defaults_file": "/etc/mysql/my.cnf",
        "systemd_unit": "mariadb",
        "action": "import",
    }
    for number, (name, role) in enumerate((("p", "primary"), ("r", "replica"))):
        given |= {
            f"m{number}-include": "on",
            f"m{number}-name": name,
            f"m{number}-role": role,
            f"m{number}-datadir": "/var/lib/mysql",
            f"m{number}-host": f"host-{name}",
            f"m{number}-ssh_address": f"{name}.example",
        }
    return given | values


def test_discovery_import_names_missing_values_and_changes_nothing(operator: Client) -> None:
    row = found(node("p", 1), node("r", 2, "p"))
    answer = operator.post(f"/discoveries/{row.pk}/add/0/", answers(admin_user="dbops"))
    assert answer.status_code == 422
    paths = {error.path for error in answer.context["errors"]}
    assert paths == {"clusters[0].accounts.admin", "hosts[0].ssh.key_file", "hosts[1].ssh.key_file"}
    assert not Host.objects.exists()


def test_discovery_import_refuses_two_primaries(operator: Client) -> None:
    row = found(node("p", 1, "r", read_only=False), node("r", 2, "p", read_only=False))
    (proposal,) = operator.get(f"/discoveries/{row.pk}/").context["proposals"]
    assert len(proposal.cluster.co_primaries) == 2
    assert proposal.cluster.remarks
    answer = operator.post(f"/discoveries/{row.pk}/add/0/", answers(**{"m1-role": "primary"}))
    assert "clusters[0].instances[1].role" in [error.path for error in answer.context["errors"]]
    assert not Instance.objects.exists()


def test_discovery_adds_a_new_replica_to_its_cluster_only(operator: Client) -> None:
    primary, _, _ = make_trio()
    Cluster.objects.update(write_addresses=["shop-db:3306"], admin_user="dbops", admin_password="secret")
    Host.objects.update(ssh_private_key="stored")
    known = node("primary-1", 1)
    row = found(known, node("new", 9, "primary-1"))
    (proposal,) = operator.get(f"/discoveries/{row.pk}/").context["proposals"]
    assert proposal.stored_in == "shop"
    given = answers(cluster="shop", action="import")
    given = {key: value for key, value in given.items() if not key.startswith("m1")}
    given |= {"m0-name": "new", "m0-role": "replica", "m0-host": primary.host.name, "m0-ssh_address": "new.example"}
    # The same directory on a host that has an instance already: the import's own checks hold here too.
    clash = operator.post(f"/discoveries/{row.pk}/add/0/", given)
    assert [error.path for error in clash.context["errors"]] == ["clusters[0].instances[0].datadir"]
    done = operator.post(f"/discoveries/{row.pk}/add/0/", given | {"m0-datadir": "/data/new"})
    assert done.status_code == 302
    assert Instance.objects.get(name="new").cluster.write_addresses == ["shop-db:3306"]
    assert Instance.objects.filter(cluster__name="shop").count() == 4


def test_discovery_form_omits_unticked_nodes(operator: Client) -> None:
    row = found(node("p", 1), node("r", 2, "p"))
    given = {key: value for key, value in answers().items() if not key.endswith("include")}
    answer = operator.post(f"/discoveries/{row.pk}/add/0/", given)
    assert [error.code for error in answer.context["form"].cluster.non_field_errors().as_data()] == ["none_ticked"]
    assert not InstanceState.objects.exists()


def test_discovery_form_requires_fields_of_an_unread_node_only_when_ticked(operator: Client) -> None:
    unread = node(
        "x", 3, "p", problem=ProbeProblem("mysql.access_denied", "1045: Access denied"), datadir="", hostname=""
    )
    row = found(node("p", 1), unread)
    page = operator.get(f"/discoveries/{row.pk}/")
    assert unread.problem is not None
    assert unread.problem.text in page.content.decode()
    (proposal,) = page.context["proposals"]
    (primary,) = proposal.drawn
    assert (primary.name, primary.role) == ("p", "primary")
    (below,) = primary.below
    assert (below.name, below.role, below.state) == ("x", "", "unreachable")
    assert [(arrow.source, arrow.runs) for arrow in below.arrows] == [("p", None)]
    given = {key: value for key, value in answers(action="check").items() if not key.startswith("m1")}
    blank = {f"m1-{name}": "" for name in ("name", "role", "datadir", "host", "ssh_address")}
    answer = operator.post(f"/discoveries/{row.pk}/add/0/", given | blank)
    form = answer.context["form"]
    assert not any(part.errors for part in (form.cluster, *form.members))
    answer = operator.post(f"/discoveries/{row.pk}/add/0/", given | blank | {"m1-include": "on"})
    missing = answer.context["form"].members[1].errors.as_data()
    assert {field: [error.code for error in errors] for field, errors in missing.items()} == dict.fromkeys(
        ("name", "role", "datadir", "host", "ssh_address"), ["required"]
    )
