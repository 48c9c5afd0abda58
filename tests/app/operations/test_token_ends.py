"""What ends personal tokens of the API: a person's wish at a new password or at the end of sessions, and the account's state."""

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client

from dbops.models import AccessToken, AuditEntry, Cluster, ClusterRole
from dbops.operations import account_admin
from tests.app import rows
from tests.app.api.calls import Program, problem, program_of

pytestmark = pytest.mark.django_db
PASSWORD, NEW = "correct horse battery", "known to one person only"


@pytest.fixture(autouse=True)
def _no_requests_of_other_tests(no_broker: None) -> None:
    cache.clear()


def works(program: Program) -> bool:
    return program.get("/clusters").status_code == 200


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def revoked() -> list[str]:
    return list(AuditEntry.objects.filter(action="token.revoked").order_by("subject").values_list("subject", flat=True))


@pytest.mark.parametrize(("given", "ends"), [({}, False), ({"revoke_tokens": "on"}, True)])
@pytest.mark.parametrize("address", ["/password/", "/account/sessions/end-others/"])
def test_own_tokens_end_on_request(address: str, given: dict[str, str], ends: bool, olga: User, victor: User) -> None:
    mine, other = [program_of(olga, name=name) for name in ("a", "b")], program_of(victor, "read")
    passwords = {"current": PASSWORD, "password": NEW, "password_again": NEW}
    assert logged_in(olga).post(address, passwords | given).status_code == 302
    assert [works(one) for one in mine] == [not ends, not ends]
    assert works(other)
    assert revoked() == (["a", "b"] if ends else [])
    entry = AuditEntry.objects.filter(action__in=["account.password_changed", "session.ended"]).get()
    assert entry.detail["tokens_revoked"] == 2 * ends


def test_box_is_on_where_all_sessions_end_and_off_for_a_new_password(olga: User) -> None:
    client = logged_in(olga)
    assert 'name="revoke_tokens" checked' in client.get("/account/sessions/").content.decode()
    assert not client.get("/password/").context["form"]["revoke_tokens"].value()


def test_superuser_ends_sessions_with_tokens_or_without(olga: User) -> None:
    program, sue = program_of(olga, name="a"), rows.superuser()
    for given, stays in (({}, True), ({"revoke_tokens": "on"}, False)):
        assert logged_in(sue).post(f"/admin/users/{olga.pk}/end-sessions/", given).status_code == 302
        assert works(program) is stays
    entry = AuditEntry.objects.get(action="token.revoked")
    assert (entry.actor, entry.subject, entry.detail["account"]) == (sue.get_username(), "a", "olga")


def test_command_revokes_tokens_unless_told_to_keep_them(olga: User) -> None:
    program, out = program_of(olga), io.StringIO()
    call_command("account", "end-sessions", "olga", "--keep-tokens", stdout=out)
    assert works(program)
    call_command("account", "end-sessions", "olga", stdout=out)
    assert not works(program)


def test_token_of_a_deactivated_account_is_refused(olga: User) -> None:
    program, sue = program_of(olga), rows.superuser()
    account_admin.deactivate(actor=sue, user=olga, seen=account_admin.access_of(olga))
    problem(program.get("/clusters"), 401, "token.unknown")
    olga.refresh_from_db()
    account_admin.reactivate(actor=sue, user=olga, seen=account_admin.access_of(olga))
    assert works(program)


def test_token_has_no_more_rights_than_the_account_has_now(victor: User) -> None:
    target = rows.make_fleet()["replica-1"]
    ClusterRole.objects.create(user=victor, cluster=target.cluster, role="operator")
    program = program_of(victor, clusters=[Cluster.objects.get(pk=target.cluster_id)])
    stop: dict[str, Any] = {"reason": "disks replaced"}
    assert program.post(f"/clusters/{target.cluster.name}/maintenance", stop).status_code == 201
    ClusterRole.objects.all().delete()
    problem(program.post(f"/clusters/{target.cluster.name}/maintenance", stop), 403, "access.denied")
    victor.groups.clear()
    problem(program.get("/clusters"), 403, "access.denied")
    assert AccessToken.objects.get().revoked_at is None
