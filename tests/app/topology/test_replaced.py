"""Data replaced by hand: found by its files and history, logged once, explained by a user or a rebuild."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from dbops.engine.facts.instance import to_record
from dbops.engine.rebuilds.lineage import DataOrigin
from dbops.engine.states import Status
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.models import AuditEntry, Hold, Instance, InstanceState, ServerIdentity, TopologyDifference
from dbops.operations import topology
from dbops.operations.fleet import save_instance
from dbops.queries.rebuilds.lineage import lineage_of
from dbops.worker import prober
from tests.app import rows

from .test_differences import blocked, compare, differences

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def fleet() -> dict[str, Instance]:
    return rows.make_fleet()


def on_files(name: str, files: str) -> None:
    """Store what a probe reads of a server whose data is in these files."""
    facts = rows.facts_of(name.replace("renamed", "replica-1"), timezone.now())
    assert facts.datadir is not None
    made_at = datetime.fromtimestamp(int(files.rpartition(" ")[2]), UTC)
    facts = replace(facts, observed_at=timezone.now(), datadir=replace(facts.datadir, files=files, made_at=made_at))
    InstanceState.objects.filter(instance__name=name).update(record=to_record(facts), observed_at=facts.observed_at)
    compare()


def test_replaced_data_is_found_logged_once_and_accepted(fleet: dict[str, Instance], olga: User) -> None:
    compare()
    on_files("replica-1", "ibdata1 7 1700000000")  # the first time that files are read: nothing to compare them with
    assert ServerIdentity.objects.get(instance__name="replica-1").files == "ibdata1 7 1700000000"
    for _ in range(3):
        on_files("replica-1", "ibdata1 9 1763800000")
    assert differences(confirmed_at__isnull=False) == {("data_replaced", "replica-1")}
    assert blocked(fleet) == set()
    entry = AuditEntry.objects.get(action="instance.found_replaced")
    assert (entry.actor, entry.instance) == ("dbops", "replica-1")
    assert "2025-11-22 08:26:40 UTC" in entry.detail["seen"]
    [first, *_] = lineage_of(fleet["replica-1"], timezone.now()).ancestors
    assert first.known is DataOrigin.REPLACED_BY_HAND

    save_instance(actor=olga, instance=fleet["replica-1"], values={"name": "renamed"})
    on_files("renamed", "ibdata1 9 1763800000")
    row = TopologyDifference.objects.get(code="data_replaced")
    assert (row.subject, row.gone_at) == ("renamed", None)
    reason = "moved to the new disks"
    topology.accept_as_intended(actor=olga, row=row, reason=reason)
    on_files("renamed", "ibdata1 9 1763800000")
    assert differences() == set()
    fleet["replica-1"].refresh_from_db()
    [first, *_] = lineage_of(fleet["replica-1"], timezone.now()).ancestors
    assert first.generation.found is not None
    assert "olga" in first.generation.found.description
    assert reason in first.generation.found.description


def test_files_of_a_rebuild_are_learned(db: None) -> None:
    rebuild = rows.started_rebuild()
    Hold.objects.all().delete()
    name = rebuild.target.name
    on_files(name, "ibdata1 7 1700000000")
    ServerIdentity.objects.update(noted_at=timezone.now() - timedelta(hours=1))
    InstanceState.objects.filter(instance=rebuild.target).update(gtid_lost="0-11-40")
    done = {"status": Status.SUCCEEDED, "finished_at": timezone.now(), "target_slot": None}
    type(rebuild).objects.update(checkpoint={"touched": True}, **done)
    for _ in range(2):
        on_files(name, "ibdata1 9 1763800000")
    assert not {item for item in differences() if item[0] in REPLACED}
    assert InstanceState.objects.get(instance=rebuild.target).gtid_lost == ""


@pytest.mark.parametrize("is_read", [True, False])
def test_server_of_a_swapped_address_is_not_learned_after_a_failed_rebuild(db: None, is_read: bool) -> None:
    """Its own server is learned when it answers again, and no one has to accept anything."""
    rebuild = rows.started_rebuild()
    Hold.objects.all().delete()
    compare()
    name = rebuild.target.name
    before = ServerIdentity.objects.get(instance=rebuild.target).identity
    ServerIdentity.objects.update(noted_at=timezone.now() - timedelta(hours=1))
    done = {"status": Status.FAILED, "finished_at": timezone.now(), "target_slot": None}
    type(rebuild).objects.update(checkpoint={"touched": True}, **done)

    def answer(server_id: int) -> None:
        facts = replace(rows.facts_of(name, timezone.now()), observed_at=timezone.now())
        assert facts.server is not None
        facts = replace(
            facts, server=replace(facts.server, server_id=server_id), config=facts.config if is_read else None
        )
        InstanceState.objects.filter(instance=rebuild.target).update(
            record=to_record(facts), observed_at=facts.observed_at
        )
        compare()

    own = rows.facts_of(name, timezone.now()).server
    assert own is not None
    for wrong in (12, 99):  # the source's, and one that no instance has
        answer(wrong)
        assert ServerIdentity.objects.get(instance=rebuild.target).identity == before
    assert ("identity", name) in differences()
    answer(own.server_id)
    assert ServerIdentity.objects.get(instance=rebuild.target).identity == before
    assert differences() == set()


def test_gtid_reset_is_reported_until_explained(
    fleet: dict[str, Instance], olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(gtid: str) -> None:
        facts = rows.facts_of("replica-1", timezone.now())
        assert facts.server is not None
        found = replace(facts, observed_at=timezone.now(), server=replace(facts.server, gtid_executed=gtid))
        monkeypatch.setattr("dbops.worker.prober.read", lambda _, is_fresh=False: found)
        instances = Instance.objects.select_related("host", "cluster", "state__period")
        assert prober.probe_all([instances.get(name="replica-1")]) == 1

    probe("0-11-40")
    probe("0-11-30")  # older data is in its place
    for position in ("0-11-35", "0-11-50"):  # and it catches up
        probe(position)
    assert differences(confirmed_at__isnull=False) == {("history_lost", "replica-1")}
    row = TopologyDifference.objects.get(code="history_lost")
    assert "0-11-40" in row.detail
    topology.accept_as_intended(actor=olga, row=row, reason="restored from the backup of Sunday")
    probe("0-11-51")
    assert differences() == set()
