"""Approval by a second operator: permission, effect, and concurrent decisions."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dbops.engine.errors import Refused
from dbops.engine.states import Approval
from dbops.fleetfile.write import cluster_content
from dbops.lifecycle import starts
from dbops.models import AuditEntry, Cluster, Rebuild
from dbops.operations.approvals import approve_rebuild, decline_rebuild, override_approval, who_may_approve
from dbops.operations.fleet import save_cluster
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.queries.audit.log import AuditFilter, entries
from dbops.worker import scheduler
from tests.app import rows

pytestmark = pytest.mark.django_db
APPROVE = 'name="decision" value="approve"'


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)


@pytest.fixture
def sue() -> User:
    return rows.make_user("sue", "operator")


@pytest.fixture
def waiting(sue: User) -> Rebuild:
    """A rebuild that olga requested and that waits for approval."""
    fleet = rows.make_fleet()
    Cluster.objects.update(needs_approval=True)
    target, source = fleet["replica-1"], fleet["backup-1"]
    return request_rebuild(
        actor=rows.operator(),
        target=target,
        source=source,
        typed_name=target.name,
        reason="the disk",
        fingerprint=plan_rebuild(target=target, source=source).fingerprint,
        request_key="one",
    )


def refused(verb: Any, **given: Any) -> str:
    with pytest.raises(Refused) as raised:
        verb(**given)
    entry = AuditEntry.objects.order_by("sequence").last()
    assert entry is not None
    assert (entry.action, entry.detail["code"]) == ("approval.refused", raised.value.code)
    return raised.value.code


def last() -> AuditEntry:
    return AuditEntry.objects.order_by("sequence").last()  # type: ignore[return-value]


def test_rebuild_waits_for_approval_and_starts_after_it(waiting: Rebuild, sue: User) -> None:
    assert scheduler.start_what_can() == []
    waiting.refresh_from_db()
    assert "olga" in waiting.waiting_for
    assert last().detail["approval"] == "waiting"
    assert who_may_approve(waiting) == ["sue"]
    approve_rebuild(actor=sue, rebuild=waiting)
    assert (last().action, last().actor, last().detail["requested_by"]) == ("rebuild.approved", "sue", "olga")
    assert scheduler.start_what_can() == [waiting.pk]
    waiting.refresh_from_db()
    assert (waiting.status, waiting.approval, waiting.approval_by) == ("running", "approved", "sue")


def offered(user: User, rebuild: Rebuild) -> set[str]:
    client = Client()
    client.force_login(user)
    text = client.get(f"/rebuilds/{rebuild.pk}/actions/").content.decode()
    return set(re.findall(r"approval-link|override-link|(?<=data-denied=.)decide", text))


def test_link_to_approve_is_shown_to_those_whose_decision_counts(waiting: Rebuild, sue: User) -> None:
    assert offered(sue, waiting) == {"approval-link"}
    assert offered(waiting.requested_by, waiting) == {"decide", "override-link"}
    assert offered(rows.make_user("cli-olga", "operator"), waiting) == {"decide", "override-link"}
    assert offered(rows.viewer(), waiting) == {"decide"}
    Rebuild.objects.update(approval_count=2)
    waiting.refresh_from_db()
    approve_rebuild(actor=sue, rebuild=waiting)
    assert offered(sue, waiting) == {"decide", "override-link"}
    Rebuild.objects.update(approvers_only=True)
    waiting.refresh_from_db()
    assert offered(rows.make_user("bob", "operator"), waiting) == {"decide", "override-link"}
    assert offered(rows.make_user("amy", "approver"), waiting) == {"approval-link"}


def test_possible_approvers_are_accounts_with_a_role_before_their_first_login(waiting: Rebuild, sue: User) -> None:
    new, away = rows.make_user("new", "approver"), rows.make_user("away", "operator")
    assert (new.last_login, sue.last_login) == (None, None)
    User.objects.filter(pk=away.pk).update(is_active=False)
    rows.make_user("cli-olga", "operator")  # the requester by command
    assert who_may_approve(waiting) == ["new", "sue"]


def test_start_stops_at_the_approval_gate_without_the_scheduler(waiting: Rebuild) -> None:
    assert "olga" in starts.start(waiting, lambda: scheduler._unmet_conditions_of(waiting.pk))
    waiting.refresh_from_db()
    assert waiting.status == "queued"


def test_approval_is_refused_to_the_requester_and_to_viewers(waiting: Rebuild) -> None:
    for verb in (approve_rebuild, decline_rebuild):
        assert refused(verb, actor=waiting.requested_by, rebuild=waiting, reason="mine") == "approval.own"
    victor = rows.viewer()
    for verb in (approve_rebuild, decline_rebuild, override_approval):
        assert refused(verb, actor=victor, rebuild=waiting, reason="I look") == "access.denied"
    assert scheduler.start_what_can() == []


def test_declined_rebuild_never_starts(waiting: Rebuild, sue: User) -> None:
    assert refused(decline_rebuild, actor=sue, rebuild=waiting, reason=" ") == "rebuild.reason"
    decline_rebuild(actor=sue, rebuild=waiting, reason="sale")
    assert (waiting.status, waiting.approval, waiting.target_slot_id) == ("cancelled", "declined", None)
    found = waiting.events.last()
    assert found is not None
    assert ("sue" in found.text, "sale" in found.text) == (True, True)
    entry = last()
    assert (entry.action, entry.actor, entry.outcome, entry.reason) == ("rebuild.declined", "sue", "declined", "sale")
    assert scheduler.start_what_can() == []


def test_override_needs_a_reason_and_is_listed(waiting: Rebuild) -> None:
    olga = waiting.requested_by
    assert refused(override_approval, actor=olga, rebuild=waiting, reason="") == "rebuild.reason"
    override_approval(actor=olga, rebuild=waiting, reason="no answer, the last replica is gone")
    (entry,) = entries(AuditFilter(view="overrides")).entries
    assert (entry.action, entry.actor, entry.instance, entry.cluster) == (
        *("override.approval", "olga"),
        *("replica-1", "shop"),
    )
    assert scheduler.start_what_can() == [waiting.pk]


@pytest.mark.parametrize("first", ["approve", "decline", "override", "cancel"])
def test_first_of_two_decisions_counts(waiting: Rebuild, sue: User, first: str) -> None:
    """Each begins with a row as it was before the other: what decides is the update, not what was read."""
    ann = rows.make_user("ann", "operator")
    stale = Rebuild.objects.get(pk=waiting.pk)
    verbs = {"approve": approve_rebuild, "decline": decline_rebuild, "override": override_approval}
    if first == "cancel":
        cancel_rebuild(actor=sue, rebuild=waiting)
    else:
        verbs[first](actor=sue, rebuild=waiting, reason="first")
    for verb in verbs.values():
        row = Rebuild.objects.get(pk=waiting.pk)
        row.status, row.approval = stale.status, stale.approval
        assert refused(verb, actor=ann, rebuild=row, reason="second") == "approval.not_waiting"
    found = Rebuild.objects.get()
    assert found.approval_by == ("" if first == "cancel" else "sue")
    assert found.status == ("cancelled" if first in ("cancel", "decline") else "queued")


def test_unapproved_rebuild_can_be_cancelled_and_expires(waiting: Rebuild) -> None:
    Rebuild.objects.update(expires_at=waiting.requested_at)
    scheduler.start_what_can()
    waiting.refresh_from_db()
    assert (waiting.status, waiting.approval, last().action) == ("expired", Approval.WAITING, "rebuild.expired")


def test_approval_page_shows_the_request_and_takes_a_decision(waiting: Rebuild, sue: User) -> None:
    client, address = Client(), f"/rebuilds/{waiting.pk}/approval/"
    client.force_login(sue)
    assert address in client.get(f"/rebuilds/{waiting.pk}/").content.decode()
    text = client.get(address).content.decode()
    assert waiting.reason in text
    assert APPROVE in text
    assert client.post(address, {"decision": "decline", "reason": ""}).status_code == 409
    assert client.post(address, {"decision": "nonsense"}).status_code == 404
    done = client.post(address, {"decision": "approve", "reason": ""}, follow=True).content.decode()
    assert re.search(r"\bsue\b", done)
    decided = client.get(address).content.decode()
    assert 'data-approval="approved" data-approval-by="sue"' in decided
    assert APPROVE not in decided


@pytest.mark.parametrize(("address", "flagged"), [("192.0.2.1", 1), ("192.0.2.2", 0)])
def test_approval_from_the_address_of_the_request_is_flagged(
    waiting: Rebuild, sue: User, address: str, flagged: int
) -> None:
    cancel_rebuild(actor=waiting.requested_by, rebuild=waiting)
    asks = Client(REMOTE_ADDR="192.0.2.1")
    asks.force_login(waiting.requested_by)
    page = asks.get("/instances/replica-1/rebuild/").content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))
    assert (
        asks.post(
            "/instances/replica-1/rebuild/", hidden | {"typed_name": "replica-1", "reason": "the disk"}
        ).status_code
        == 302
    )
    approves = Client(REMOTE_ADDR=address)
    approves.force_login(sue)
    rebuild = Rebuild.objects.latest("pk")
    assert approves.post(f"/rebuilds/{rebuild.pk}/approval/", {"decision": "approve", "reason": ""}).status_code == 302
    assert Rebuild.objects.get(pk=rebuild.pk).approval == Approval.APPROVED
    assert AuditEntry.objects.filter(action="override.approved_from_same_address", actor="sue").count() == flagged


def test_approval_page_offers_nothing_to_the_requester(waiting: Rebuild) -> None:
    client, address = Client(), f"/rebuilds/{waiting.pk}/approval/"
    client.force_login(waiting.requested_by)
    text = client.get(address).content.decode()
    assert f"/rebuilds/{waiting.pk}/cancel/" in text
    assert APPROVE not in text
    assert client.post(address, {"decision": "approve"}).status_code == 409
    client.force_login(rows.viewer())
    assert client.get(address).status_code == 403


def test_rebuild_command_approves(waiting: Rebuild, sue: User) -> None:
    with pytest.raises(SystemExit):
        call_command("rebuild", "replica-1", "--approve", "--as", "olga")
    call_command("rebuild", "replica-1", "--approve", "--as", "sue")
    assert Rebuild.objects.get().approval == "approved"


def test_switching_approval_off_is_listed_as_override(waiting: Rebuild, sue: User) -> None:
    cluster = Cluster.objects.get()
    assert cluster_content(cluster)["needs_approval"] is True
    save_cluster(actor=rows.superuser(), cluster=cluster, values={"needs_approval": False})
    assert "needs_approval" not in cluster_content(Cluster.objects.get())
    (entry,) = entries(AuditFilter(view="overrides")).entries
    assert (entry.action, entry.cluster) == ("override.approval_switched_off", "shop")
    assert scheduler.start_what_can() == []  # a queued rebuild keeps waiting


def test_approval_is_empty_when_the_cluster_needs_none() -> None:
    assert rows.started_rebuild().approval == ""
