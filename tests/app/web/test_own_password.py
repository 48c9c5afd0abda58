"""A person changes their own password, and must do so when another person set it."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dbops.engine.audit.entries import OVERRIDES
from dbops.models import AuditEntry, GivenPassword
from dbops.operations.account_admin import add_account, set_password
from dbops.operations.login_limits import ACCOUNT_AT_ADDRESS
from tests.app.factories import make_user

pytestmark = pytest.mark.django_db

OLD, GIVEN, NEW = "correct horse battery", "given by a superuser", "known to one person only"


@pytest.fixture
def sue(db: None) -> User:
    return User.objects.create_superuser("sue")


def logged_in(password: str, name: str = "olga") -> Client:
    client = Client()
    assert client.post("/login/", {"username": name, "password": password}).status_code == 302
    return client


def change(client: Client, current: str, password: str = NEW) -> int:
    values = {"current": current, "password": password, "password_again": password}
    return client.post("/password/", values).status_code


def test_password_of_another_person_must_be_changed_first(olga: User, sue: User) -> None:
    set_password(actor=sue, user=olga, password=GIVEN)
    client = logged_in(GIVEN)
    for path in ("/", "/audit/", "/rebuilds/1/events/", "/instances/replica-1/rebuild/"):
        assert client.get(path).headers.get("Location") == "/password/", path
    assert client.post("/rebuilds/1/approval/", {"decision": "approve"}).headers["Location"] == "/password/"
    fragment = client.get("/queue/", headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment.headers["HX-Redirect"]) == (204, "/password/")
    assert client.get("/password/").context["is_given"]
    assert change(client, GIVEN, GIVEN) == 422
    assert change(client, GIVEN) == 302
    assert client.get("/").status_code == 200
    assert not GivenPassword.objects.exists()
    assert logged_in(NEW).get("/").status_code == 200


def test_set_password_is_listed_among_the_overrides(olga: User, sue: User) -> None:
    set_password(actor=sue, user=olga, password=GIVEN)
    entry = AuditEntry.objects.get(subject="olga")
    assert (entry.actor, entry.action) == ("sue", "account.password_set")
    assert entry.action in OVERRIDES
    set_password(actor=sue, user=sue, password=GIVEN)
    assert AuditEntry.objects.get(subject="sue").action not in OVERRIDES


def test_new_account_changes_its_password_at_the_first_login(sue: User) -> None:
    add_account(actor=sue, name="new", group="operator", password=GIVEN)
    assert logged_in(GIVEN, "new").get("/").headers["Location"] == "/password/"


def test_own_password_ends_other_sessions_and_not_this_one(olga: User) -> None:
    this, other = logged_in(OLD), logged_in(OLD)
    assert change(this, OLD) == 302
    assert this.get("/").status_code == 200
    assert other.get("/").status_code == 302
    assert AuditEntry.objects.filter(actor="olga", action="account.password_changed").count() == 1


def test_wrong_current_passwords_are_limited(olga: User) -> None:
    client = logged_in(OLD)
    assert [change(client, "wrong") for _ in range(ACCOUNT_AT_ADDRESS.most)] == [422] * ACCOUNT_AT_ADDRESS.most
    assert change(client, OLD) == 422
    assert olga.check_password(OLD)


def test_page_needs_a_login() -> None:
    assert Client().get("/password/").headers["Location"].startswith("/login/")


def test_person_without_a_group_can_change_their_password() -> None:
    make_user("sam", group=None)
    assert change(logged_in(OLD, "sam"), OLD) == 302
