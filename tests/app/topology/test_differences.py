"""Differences as rows: confirmed by a second probe, gone with the reason, accepted by a person, and what they stop."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import ProbeProblem, to_record
from dbops.engine.states import Role, Status
from dbops.lifecycle import starts, topology_differences
from dbops.models import AuditEntry, Cluster, Hold, Instance, InstanceState, ServerIdentity, TopologyDifference
from dbops.operations import topology
from dbops.operations.fleet import save_instance
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from tests.app import rows
from tests.engine import builders

pytestmark = pytest.mark.django_db
#: How a server without a UUID is known.
SEVENTY_SEVEN = "server id 77"
FROM_REPLICA = (builders.link("10.0.0.13"),)


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def fleet() -> dict[str, Instance]:
    return rows.make_fleet()


def read(name: str, *, seconds_ago: float = 0, **changes: Any) -> datetime:
    """Store facts as a probe would; ``server=None`` for a server that does not answer."""
    at = timezone.now() - timedelta(seconds=seconds_ago)
    facts = replace(rows.facts_of(name, at), observed_at=at)
    if "server" in changes:
        facts = replace(facts, server=None, server_problem=ProbeProblem("mysql.unreachable", "Connection refused"))
    else:
        assert facts.server is not None
        facts = replace(facts, server=replace(facts.server, **changes))
        assert facts.config is not None
        assert facts.server is not None
        facts = replace(facts, config=replace(facts.config, server_id=facts.server.server_id))
    InstanceState.objects.filter(instance__name=name).update(record=to_record(facts), observed_at=at)
    return at


def compare() -> None:
    topology_differences.note_differences(list(Cluster.objects.values_list("pk", flat=True)))


def fail_over(times: int = 2, **old: Any) -> None:
    """replica-1 was promoted by hand, backup-1 follows it; every probe after that sees it."""
    for _ in range(times):
        read("primary-1", **(old or {"read_only": True}))
        read("backup-1", replication=FROM_REPLICA)
        read("replica-1", read_only=False, replication=())
        compare()


def differences(**wanted: Any) -> set[tuple[str, str]]:
    return set(TopologyDifference.objects.filter(gone_at=None, **wanted).values_list("code", "subject"))


def failover() -> TopologyDifference:
    return TopologyDifference.objects.get(code="failover", gone_at=None)


def blocked(fleet: dict[str, Instance]) -> set[tuple[str, str]]:
    """Return the code and subject of each difference that stops rebuilds."""
    cluster = fleet["replica-1"].cluster_id
    return {(item.code, item.subject) for item in topology_differences.blocks_rebuilds([cluster]).get(cluster, ())}


def test_compare_writes_nothing_and_takes_four_queries_when_healthy(
    fleet: dict[str, Instance], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    compare()  # learns who answers
    assert ServerIdentity.objects.count() == 3
    clusters = list(Cluster.objects.values_list("pk", flat=True))
    with django_assert_num_queries(4):
        topology_differences.note_differences(clusters)
    assert not TopologyDifference.objects.exists()


def test_difference_counts_from_the_second_probe(fleet: dict[str, Instance]) -> None:
    fail_over(times=1)
    assert ("failover", "replica-1") in differences(confirmed_at=None)
    assert blocked(fleet) == set()
    compare()  # the same facts once more are no second look
    assert differences(confirmed_at__isnull=False) == set()
    fail_over(times=1)
    assert ("failover", "replica-1") in differences(confirmed_at__isnull=False)
    assert ("failover", "replica-1") in blocked(fleet)


def test_difference_is_confirmed_when_every_server_was_probed_again(fleet: dict[str, Instance]) -> None:
    fail_over(times=1)
    read("replica-1", read_only=False, replication=())
    read("backup-1", replication=FROM_REPLICA)
    compare()
    assert failover().confirmed_at is None
    read("primary-1", read_only=True)
    compare()
    assert failover().confirmed_at is not None


def test_transient_state_leaves_no_row(fleet: dict[str, Instance]) -> None:
    read("replica-1", read_only=False, replication=())
    compare()
    assert differences() == {("writes_alone", "replica-1")}
    read("replica-1")
    compare()
    assert not TopologyDifference.objects.exists()


def test_compare_ignores_a_failed_probe(fleet: dict[str, Instance]) -> None:
    for name in fleet:
        read(name, server=None)
        compare()
        read(name)
    assert not TopologyDifference.objects.exists()
    fail_over()
    read("replica-1", server=None)
    compare()
    assert failover().gone_at is None
    assert blocked(fleet)


def test_difference_that_is_gone_blocks_nothing_and_stays_in_the_history(fleet: dict[str, Instance]) -> None:
    fail_over()
    for name in fleet:
        read(name)
    compare()
    assert blocked(fleet) == set()
    row = TopologyDifference.objects.get(code="failover")
    assert row.gone_at is not None
    assert row.open_key is None
    fail_over()
    assert TopologyDifference.objects.filter(code="failover").count() == 2


def test_compare_ignores_old_facts(fleet: dict[str, Instance]) -> None:
    for _ in range(2):
        read("replica-1", seconds_ago=3600, read_only=False, replication=())
        compare()
    assert differences() == set()


def test_plan_is_refused_while_a_relevant_difference_is_open(fleet: dict[str, Instance], olga: User) -> None:
    target, source = fleet["backup-1"], fleet["replica-1"]
    before = plan_rebuild(target=target, source=source)
    fail_over()
    plan = plan_rebuild(target=target, source=source)
    assert "topology.differs" in {finding.code for finding in plan.refusals}
    with pytest.raises(Refused) as found:
        request_rebuild(
            actor=olga,
            target=target,
            source=source,
            typed_name=target.name,
            reason="for a test",
            fingerprint=before.fingerprint,
            request_key="one",
        )
    assert found.value.code == "plan.refused"
    assert "topology.differs" in found.value.audit_detail["findings"]


def test_harmless_difference_blocks_nothing(fleet: dict[str, Instance]) -> None:
    for _ in range(2):
        read("backup-1")
        read("replica-1", replication=(builders.link("10.0.0.12"),))
        compare()
    assert ("chain", "replica-1") in differences(confirmed_at__isnull=False)
    assert blocked(fleet) == set()
    plan = plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"])
    assert "topology.differs" not in {finding.code for finding in plan.refusals}


def test_accept_roles_changes_roles_and_unblocks_the_cluster(fleet: dict[str, Instance], olga: User) -> None:
    fail_over()
    reason = "the disk of primary-1 died"
    topology.accept_roles(actor=olga, row=failover(), typed_name="replica-1", reason=reason)
    assert dict(Instance.objects.values_list("name", "role")) == {
        "primary-1": Role.REPLICA,
        "replica-1": Role.PRIMARY,
        "backup-1": Role.BACKUP,
    }
    row = TopologyDifference.objects.get(code="failover")
    assert (row.accepted_by, row.accepted_as, row.reason) == ("olga", "roles", reason)
    assert row.gone_at is not None
    assert blocked(fleet) == set()
    assert differences(confirmed_at__isnull=False) == set()
    entries = dict(AuditEntry.objects.values_list("action", "detail"))
    assert entries["topology.roles_accepted"]["was"] == "primary-1"


@pytest.mark.parametrize(
    ("typed", "reason", "code"),
    [
        ("primary-1", "it died", "topology.name"),
        ("", "it died", "topology.name"),
        ("replica-1", " ", "topology.reason"),
    ],
)
def test_accept_roles_needs_name_and_reason(
    fleet: dict[str, Instance], olga: User, typed: str, reason: str, code: str
) -> None:
    fail_over()
    with pytest.raises(Refused) as found:
        topology.accept_roles(actor=olga, row=failover(), typed_name=typed, reason=reason)
    assert found.value.code == code
    assert Instance.objects.get(role=Role.PRIMARY).name == "primary-1"


def test_accept_refuses_a_viewer(fleet: dict[str, Instance], victor: User) -> None:
    fail_over()
    for accept in (
        lambda row: topology.accept_roles(actor=victor, row=row, typed_name="replica-1", reason="it died"),
        lambda row: topology.accept_as_intended(actor=victor, row=row, reason="it died"),
        lambda row: topology.withdraw(actor=victor, row=row),
    ):
        with pytest.raises(Refused) as found:
            accept(failover())
        assert found.value.code == "access.denied"


def test_accept_is_refused_for_a_stale_difference(fleet: dict[str, Instance], olga: User) -> None:
    fail_over()
    row = failover()
    topology.accept_roles(actor=olga, row=row, typed_name="replica-1", reason="it died")
    with pytest.raises(Refused) as found:
        topology.accept_roles(actor=olga, row=row, typed_name="replica-1", reason="it died")
    assert found.value.code == "topology.stale"
    with pytest.raises(Refused) as found:
        topology.accept_as_intended(actor=olga, row=row, reason="it died")
    assert found.value.code == "topology.stale"


def test_accept_roles_refuses_a_difference_without_roles(fleet: dict[str, Instance], olga: User) -> None:
    fail_over()
    row = TopologyDifference.objects.get(code="primary_read_only")
    with pytest.raises(Refused) as found:
        topology.accept_roles(actor=olga, row=row, typed_name="primary-1", reason="it died")
    assert found.value.code == "topology.roles"


def test_accept_roles_is_refused_while_a_rebuild_needs_an_instance(fleet: dict[str, Instance], olga: User) -> None:
    target, source = fleet["backup-1"], fleet["replica-1"]
    request_rebuild(
        actor=olga,
        target=target,
        source=source,
        typed_name=target.name,
        reason="for a test",
        fingerprint=plan_rebuild(target=target, source=source).fingerprint,
        request_key="one",
    )
    fail_over()
    with pytest.raises(Refused) as found:
        topology.accept_roles(actor=olga, row=failover(), typed_name="replica-1", reason="it died")
    assert found.value.code == "fleet.busy"
    assert failover().accepted_at is None


def test_intended_difference_blocks_nothing_until_it_changes(fleet: dict[str, Instance], olga: User) -> None:
    for _ in range(2):
        read("replica-1", replication=(builders.link("172.16.0.1"),))
        compare()
    assert blocked(fleet) == {("outside_source", "replica-1")}
    assert differences(about__contains="172.16.0.1") == blocked(fleet)
    row = TopologyDifference.objects.get(code="outside_source")
    topology.accept_as_intended(actor=olga, row=row, reason="a migration from the old data centre")
    assert blocked(fleet) == set()
    for _ in range(2):
        read("replica-1", replication=(builders.link("172.16.0.2"),))
        compare()
    assert blocked(fleet) == {("outside_source", "replica-1")}
    assert differences(about__contains="172.16.0.2") == blocked(fleet)


def test_acceptance_can_be_withdrawn(fleet: dict[str, Instance], olga: User) -> None:
    fail_over()
    topology.accept_as_intended(actor=olga, row=failover(), reason="a test of the failover")
    assert ("failover", "replica-1") not in blocked(fleet)
    topology.withdraw(actor=olga, row=failover())
    assert ("failover", "replica-1") in blocked(fleet)
    with pytest.raises(Refused) as found:
        topology.withdraw(actor=olga, row=failover())
    assert found.value.code == "topology.stale"


def test_changed_server_identity_is_found_and_accepted(fleet: dict[str, Instance], olga: User) -> None:
    compare()
    for _ in range(2):
        read("replica-1", server_id=77)
        compare()
    assert ("identity", "replica-1") in blocked(fleet)
    row = TopologyDifference.objects.get(code="identity")
    assert row.about == SEVENTY_SEVEN
    topology.accept_as_intended(actor=olga, row=row, reason="restored by hand")
    read("replica-1", server_id=77)
    compare()
    assert differences() == set()
    assert ServerIdentity.objects.get(instance__name="replica-1").identity == SEVENTY_SEVEN


def test_compare_accepts_a_server_identity_made_by_a_rebuild(fleet: dict[str, Instance], olga: User) -> None:
    compare()
    ServerIdentity.objects.update(noted_at=timezone.now() - timedelta(hours=1))
    target, source = fleet["replica-1"], fleet["backup-1"]
    rebuild = request_rebuild(
        actor=olga,
        target=target,
        source=source,
        typed_name=target.name,
        reason="for a test",
        fingerprint=plan_rebuild(target=target, source=source).fingerprint,
        request_key="one",
    )
    assert starts.start(rebuild) == ""
    read("replica-1", server_id=77, replication=(builders.link("10.0.0.12"),))
    compare()
    assert differences() == set()  # it is in our hands
    Hold.objects.all().delete()
    now = timezone.now()
    type(rebuild).objects.update(
        status=Status.SUCCEEDED, finished_at=now, checkpoint={"touched": True}, target_slot=None
    )
    for _ in range(2):
        read("replica-1", server_id=77)
        compare()
    assert differences() == set()
    assert ServerIdentity.objects.get(instance=target).identity == SEVENTY_SEVEN


def test_rebuild_explains_one_identity_change_only(db: None) -> None:
    rebuild = rows.started_rebuild()
    Hold.objects.all().delete()
    compare()
    ServerIdentity.objects.update(noted_at=timezone.now() - timedelta(days=100))
    ended = timezone.now() - timedelta(days=90)
    type(rebuild).objects.update(
        status=Status.SUCCEEDED, finished_at=ended, checkpoint={"touched": True}, target_slot=None
    )
    name = rebuild.target.name
    read(name)  # MariaDB keeps its server id: it is the same identity as before
    compare()
    for _ in range(2):
        read(name, server_id=77)
        compare()
    assert ("identity", name) in differences(confirmed_at__isnull=False)


def test_server_identity_is_discarded_when_the_address_changes(fleet: dict[str, Instance], olga: User) -> None:
    compare()
    save_instance(actor=olga, instance=fleet["replica-1"], values={"address": "10.0.0.99"})
    assert not ServerIdentity.objects.filter(instance__name="replica-1").exists()


def test_blocks_rebuilds_takes_one_query_for_many_clusters(
    fleet: dict[str, Instance], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    fail_over()
    ids = [*Cluster.objects.values_list("pk", flat=True), 4711]
    with django_assert_num_queries(1):
        assert set(topology_differences.blocks_rebuilds(ids)) == {fleet["replica-1"].cluster_id}
    with django_assert_num_queries(2):
        assert topology_differences.blocks_rebuilds() == topology_differences.blocks_rebuilds(ids)
