"""Approval rules of a cluster: how many, who, never oneself, each person once, whichever way they come."""

import getpass
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dbops.audit.log import RequestOrigin, request_origin
from dbops.engine.errors import Refused
from dbops.models import AuditEntry, Cluster, ClusterRole, Rebuild, RebuildApproval
from dbops.operations.approvals import approve_rebuild, decline_rebuild, override_approval, who_may_approve
from dbops.operations.fleet import save_cluster
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.worker import scheduler
from tests.app import rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
Ask = Callable[..., Rebuild]


@pytest.fixture
def ask() -> Ask:
    """Ask for a rebuild in a cluster with these rules."""
    fleet = rows.make_fleet()
    target, source = fleet["replica-1"], fleet["backup-1"]

    def asked(actor: User | None = None, ticket: str = "", **rules: object) -> Rebuild:
        Cluster.objects.update(**{"needs_approval": True, **rules})
        return request_rebuild(
            actor=actor or rows.operator(),
            target=target,
            source=source,
            typed_name=target.name,
            reason="the disk",
            fingerprint=plan_rebuild(target=target, source=source).fingerprint,
            request_key="one",
            ticket=ticket,
        )

    return asked


def code_of(actor: User, rebuild: Rebuild, verb: Callable[..., None] = approve_rebuild) -> str:
    with pytest.raises(Refused) as raised:
        verb(actor=actor, rebuild=rebuild, reason="for a test")
    return raised.value.code


def people(*names: str, group: str = "operator") -> list[User]:
    return [rows.make_user(name, group) for name in names]


def test_two_people_must_approve(ask: Ask) -> None:
    rebuild, (ann, bob, cal) = ask(approval_count=2), people("ann", "bob", "cal")
    assert who_may_approve(rebuild) == ["ann", "bob", "cal"]
    approve_rebuild(actor=ann, rebuild=rebuild, reason="seen")
    assert (rebuild.approval, rebuild.approval_by, scheduler.start_what_can()) == ("waiting", "", [])
    assert who_may_approve(rebuild) == ["bob", "cal"]
    assert code_of(ann, rebuild) == "approval.twice"
    for who, is_done in ((ann, True), (bob, False)):
        client = Client()
        client.force_login(who)
        page = client.get(f"/rebuilds/{rebuild.pk}/approval/")
        assert (page.context["has_approved"], 'value="approve"' in page.content.decode()) == (is_done, not is_done)
    approve_rebuild(actor=bob, rebuild=rebuild)
    assert (rebuild.approval, rebuild.approval_by) == ("approved", "ann, bob")
    assert code_of(cal, rebuild) == "approval.not_waiting"
    entries = AuditEntry.objects.filter(action="rebuild.approved").order_by("sequence")
    assert [(one.actor, one.detail["approvals"]) for one in entries] == [("ann", "1 of 2"), ("bob", "2 of 2")]
    assert scheduler.start_what_can() == [rebuild.pk]


def test_one_person_declines_after_an_approval(ask: Ask) -> None:
    rebuild, (ann, bob) = ask(approval_count=2), people("ann", "bob")
    approve_rebuild(actor=ann, rebuild=rebuild)
    decline_rebuild(actor=bob, rebuild=rebuild, reason="a sale")
    assert (rebuild.status, rebuild.approval) == ("cancelled", "declined")


def test_only_approvers_may_approve(ask: Ask) -> None:
    rebuild, [ann], [amy], [vic] = (
        ask(approvers_only=True),
        people("ann"),
        people("amy", group="approver"),
        people("vic", group="viewer"),
    )
    ClusterRole.objects.create(user=vic, cluster=rebuild.target.cluster, role="approver")
    assert who_may_approve(rebuild) == ["amy", "vic"]
    for verb in (approve_rebuild, decline_rebuild):
        assert code_of(ann, rebuild, verb) == "access.denied"
    assert code_of(amy, rebuild, override_approval) == "access.denied"
    approve_rebuild(actor=vic, rebuild=rebuild)
    assert rebuild.approval == "approved"


def test_approver_need_not_be_an_operator_and_cannot_act(ask: Ask) -> None:
    rebuild, [amy] = ask(), people("amy", group="approver")
    client = Client()
    client.force_login(amy)
    page = client.get(f"/rebuilds/{rebuild.pk}/approval/")
    assert (page.status_code, 'value="approve"' in page.content.decode()) == (200, True)
    assert 'value="override"' not in page.content.decode()
    assert 'id="approval-link"' in client.get(f"/rebuilds/{rebuild.pk}/actions/").content.decode()
    assert client.get(f"/rebuilds/{rebuild.pk}/cancel/").status_code == 403
    assert (
        client.post(f"/rebuilds/{rebuild.pk}/approval/", {"decision": "override", "reason": "I may not"}).status_code
        == 409
    )
    assert client.post(f"/rebuilds/{rebuild.pk}/approval/", {"decision": "approve"}).status_code == 302
    assert Rebuild.objects.get().approval == "approved"


def test_approver_of_another_cluster_is_refused(ask: Ask) -> None:
    rebuild, [vic] = ask(), people("vic", group="viewer")
    ClusterRole.objects.create(user=vic, cluster=Cluster.objects.create(name="away"), role="approver")
    assert code_of(vic, rebuild) == "access.denied"
    assert vic.username not in who_may_approve(rebuild)


def test_rule_is_that_of_the_request(ask: Ask) -> None:
    rebuild, [ann] = ask(approval_count=2), people("ann")
    save_cluster(actor=rows.superuser(), cluster=rebuild.target.cluster, values={"approval_count": 1})
    approve_rebuild(actor=ann, rebuild=rebuild)
    assert rebuild.approval == "waiting"
    entry = AuditEntry.objects.get(action="override.approval_switched_off")
    assert entry.detail == {"approval_count": "2 → 1"}


def test_command_of_the_requester_is_the_requester(ask: Ask) -> None:
    """Requested in the browser as the person whose login runs the command that approves with another account."""
    me = getpass.getuser()
    rebuild = ask(rows.make_user(me, "operator"))
    people("bob")
    for account in ("bob", ""):
        with pytest.raises(SystemExit):
            call_command("rebuild", "replica-1", "--approve", *(["--as", account] if account else []))
    rebuild.refresh_from_db()
    assert (rebuild.approval, RebuildApproval.objects.count()) == ("waiting", 0)
    assert AuditEntry.objects.filter(action="approval.refused", detail__code="approval.own").count() == 2


def test_two_commands_of_one_login_are_one_person(ask: Ask) -> None:
    people("ann", "bob")
    with request_origin(RequestOrigin(logins=("carol",))):
        rebuild = ask(approval_count=2)
    assert rebuild.requested_login == "carol"
    ann, bob = User.objects.get(username="ann"), User.objects.get(username="bob")
    with request_origin(RequestOrigin(logins=("carol", "root"))):
        assert code_of(ann, rebuild) == "approval.own"
    with request_origin(RequestOrigin(logins=("dave",))):
        approve_rebuild(actor=ann, rebuild=rebuild)
    assert AuditEntry.objects.get(action="rebuild.approved").detail["login"] == "dave"
    with request_origin(RequestOrigin(logins=("dave",))):
        assert code_of(bob, rebuild) == "approval.twice"
    [dave] = people("dave")
    assert code_of(dave, rebuild) == "approval.twice"
    approve_rebuild(actor=bob, rebuild=rebuild)
    assert rebuild.approval == "approved"


def test_ticket_is_needed_shown_and_recorded(ask: Ask) -> None:
    rules = {"ticket_pattern": "CHG[0-9]+", "ticket_url": "https://sn.example/{ticket}"}
    olga = rows.operator()
    for ticket in ("", "INC1", "CHG1\0"):
        with pytest.raises(Refused) as raised:
            ask(olga, ticket, **rules)
        assert raised.value.code == "rebuild.ticket"
    rebuild = ask(olga, "CHG7", **rules)
    assert (rebuild.ticket, AuditEntry.objects.get(action="rebuild.requested").detail["ticket"]) == ("CHG7", "CHG7")
    client = Client()
    client.force_login(rows.make_user("ann", "operator"))
    for address in (f"/rebuilds/{rebuild.pk}/", f"/rebuilds/{rebuild.pk}/approval/", "/rebuilds/"):
        assert 'href="https://sn.example/CHG7"' in client.get(address).content.decode(), address
    approve_rebuild(actor=User.objects.get(username="ann"), rebuild=rebuild)
    assert AuditEntry.objects.get(action="rebuild.approved").detail["ticket"] == "CHG7"


@pytest.mark.parametrize(
    ("ticket", "status"), [("CHG1", 302), ("", 409), ("x", 409), ("CHG1\0", 409), ("C" * 3000, 409)]
)
def test_plan_page_asks_for_the_ticket(ticket: str, status: int) -> None:
    fleet = rows.make_fleet()
    target, source = fleet["replica-1"], fleet["backup-1"]
    Cluster.objects.update(ticket_pattern="CHG[0-9]+")
    client = Client()
    client.force_login(rows.operator())
    assert 'name="ticket"' in client.get("/instances/replica-1/rebuild/").content.decode()
    given = {
        "source": source.name,
        "fingerprint": plan_rebuild(target=target, source=source).fingerprint,
        "request_key": "6a4a1d9e-3f0f-4c53-9f0e-0d8f6a1f9d11",
        "typed_name": target.name,
        "reason": "the disk",
        "ticket": ticket,
    }
    answer = client.post("/instances/replica-1/rebuild/", given)
    assert answer.status_code == status
    assert [one.ticket for one in Rebuild.objects.all()] == (["CHG1"] if status == 302 else [])
    assert status == 302 or answer.context["bad_field"] == "ticket"


def test_rebuild_command_takes_a_ticket() -> None:
    rows.make_fleet()
    Cluster.objects.update(ticket_pattern="CHG[0-9]+")
    rows.operator()
    with pytest.raises(SystemExit) as ended:
        call_command("rebuild", "replica-1", "--reason=the disk", "--as=olga")
    assert (ended.value.code, Rebuild.objects.count()) == (2, 0)
    call_command("rebuild", "replica-1", "--reason=the disk", "--as=olga", "--ticket=CHG9")
    assert Rebuild.objects.get().ticket == "CHG9"
