"""Logins with a real OpenID Connect provider: Canaille, in this process."""

import io
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.models import AuditEntry, LoginSession
from dbops.security.permissions import group_of
from tests.app.factories import make_user
from tests.app.web.provider_logins import CALLBACK, PASSWORD, authorization_url, configure, last
from tests.provider import CLIENT_SECRET, Provider, iam_configuration, iam_server, iam_server_port

__all__ = ["iam_configuration", "iam_server", "iam_server_port"]

pytestmark = pytest.mark.django_db


# Canaille


class Canaille(Provider):
    """Canaille with its client, without a browser."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.register(CALLBACK)

    def person(self, name: str, *groups: str) -> Any:
        user = self.add_person(name, *groups)
        self.server.consent(user, self.client)
        return user

    def remove(self, user: Any, name: str) -> None:
        with self.server.app.app_context():
            group = self.server.backend.get(self.server.models.Group, display_name=name)
            others = [member for member in group.members if member.user_name != user.user_name]
            if others:
                self.server.backend.update(group, members=others)
                self.server.backend.save(group)
            else:
                self.server.backend.delete(group)

    def answer_to(self, url: str, user: Any) -> str:
        """Open the provider's page as a person and return the address that it sends the browser to."""
        with self.server.app.app_context():
            # of a login that failed: Canaille's memory can mistake it for the new one
            for code in self.server.backend.query(self.server.models.AuthorizationCode):
                self.server.backend.delete(code)
        self.server.login(user)
        answer = requests.get(url, allow_redirects=False, timeout=30)
        self.server.logout()
        assert answer.status_code in (302, 303), answer.text[:2000]
        return answer.headers["Location"]

    def log_in(self, user: Any, client: Client | None = None, following: str = "/audit/") -> tuple[Client, Any]:
        client = client or Client()
        address = self.answer_to(authorization_url(client, following), user)
        assert address.startswith(CALLBACK)
        answer = client.get(address.removeprefix("http://testserver"))
        return client, answer


@pytest.fixture(scope="module")
def canaille(iam_server: Any) -> Canaille:  # noqa: F811
    return Canaille(iam_server)


@pytest.fixture
def provider(canaille: Canaille, settings: Any) -> Canaille:
    configure(settings, canaille.issuer, "dbops", CLIENT_SECRET)
    return canaille


@pytest.fixture
def people(request: pytest.FixtureRequest) -> str:
    """A name that no other test of this session has: the provider remembers."""
    return f"p{abs(hash(request.node.name)) % 10**8}"


def test_first_login_makes_an_account_with_the_mapped_group(provider: Canaille, people: str) -> None:
    client, answer = provider.log_in(provider.person(people, "dba-team", "a group that dbops does not know"))
    assert (answer.status_code, answer.headers["Location"]) == (302, "/audit/")
    user = User.objects.get(username=people)
    assert (group_of(user), user.is_superuser, user.has_usable_password(), user.email) == ("operator", False, False, "")
    assert client.get("/audit/").status_code == 200
    assert last("login").detail == {"method": "provider"}
    assert last("account.created").detail["group"] == "operator"
    assert LoginSession.objects.get().method == "provider"
    link = SocialAccount.objects.get()
    assert link.extra_data["issuer"] == provider.issuer
    assert set(link.extra_data) == {"issuer", "subject"}


def test_login_uses_pkce_and_state(provider: Canaille, people: str) -> None:
    sent = parse_qs(urlsplit(authorization_url(Client())).query)
    assert (sent["code_challenge_method"], sent["response_type"], sent["redirect_uri"]) == (
        ["S256"],
        ["code"],
        [CALLBACK],
    )
    assert len(sent["state"][0]) >= 16
    assert "the secret" not in str(sent)


def test_highest_group_counts(provider: Canaille, people: str) -> None:
    provider.log_in(provider.person(people, "auditors", "admins"))
    user = User.objects.get(username=people)
    assert (group_of(user), user.is_superuser) == ("operator", True)


def test_person_without_a_mapped_group_gets_no_account(provider: Canaille, people: str) -> None:
    client, answer = provider.log_in(provider.person(people, "a group that dbops does not know"))
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.no_group")
    assert not User.objects.filter(username=people).exists()
    assert client.get("/audit/").status_code == 302
    assert (last("login").action, last("login").detail) == ("login.refused", {"code": "login.no_group"})


def test_groups_are_followed_at_each_login(provider: Canaille, people: str) -> None:
    person = provider.person(people, "auditors")
    provider.log_in(person)
    provider.add_to_group(person, "dba-team")
    provider.log_in(person)
    assert group_of(User.objects.get(username=people)) == "operator"
    assert last("account.changed").detail["group"] == "viewer → operator"
    provider.remove(person, "dba-team")
    provider.log_in(person)
    assert group_of(User.objects.get(username=people)) == "viewer"
    assert User.objects.count() == 1


def test_removal_of_the_last_group_blocks_and_ends_sessions(provider: Canaille, people: str) -> None:
    person = provider.person(people, "admins")
    before, _ = provider.log_in(person)
    provider.remove(person, "admins")
    after, answer = provider.log_in(person)
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.no_group")
    user = User.objects.get(username=people)
    assert (group_of(user), user.is_superuser) == ("", False)
    assert [client.get("/audit/").status_code for client in (before, after)] == [302, 302]
    provider.add_to_group(person, "auditors")
    again, _ = provider.log_in(person)
    assert again.get("/audit/").status_code == 200


def test_deactivated_account_stays_out(provider: Canaille, people: str) -> None:
    person = provider.person(people, "dba-team")
    provider.log_in(person)
    User.objects.update(is_active=False)
    client, answer = provider.log_in(person)
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.inactive")
    assert client.get("/audit/").status_code == 302


@pytest.mark.parametrize("local", [str, str.upper])
def test_local_account_of_the_same_name_is_never_taken_over(provider: Canaille, people: str, local: Any) -> None:
    owner = make_user(local(people), "operator")
    owner.is_superuser, owner.email = True, f"{people}@example.org"
    owner.save()
    client, answer = provider.log_in(provider.person(people, "dba-team"))
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.name_taken")
    assert client.get("/audit/").status_code == 302
    assert not SocialAccount.objects.exists()


def test_local_account_of_the_same_address_is_never_taken_over(provider: Canaille, people: str) -> None:
    User.objects.create_user("local", email=f"{people}@example.org", password=PASSWORD)
    _, answer = provider.log_in(provider.person(people, "dba-team"))
    assert answer.status_code == 302
    assert SocialAccount.objects.get().user.username == people


def test_linked_account_keeps_its_name_and_follows_the_groups(provider: Canaille, people: str) -> None:
    make_user("local", "viewer")
    person = provider.person(people, "dba-team")
    call_command("account", "link", "local", people, stdout=io.StringIO())
    provider.log_in(person)
    user = User.objects.get()
    assert (user.username, group_of(user)) == ("local", "operator")
    assert last("account.linked").detail["provider_subject"] == people
    with pytest.raises(CommandError, match=r"account\.invalid"):
        call_command("account", "link", "local", people)
    call_command("account", "unlink", "local", stdout=io.StringIO())
    provider.log_in(person)
    assert set(User.objects.values_list("username", flat=True)) == {"local", people}


def test_subject_of_another_issuer_is_another_person(provider: Canaille, people: str, settings: Any) -> None:
    person = provider.person(people, "dba-team")
    provider.log_in(person)
    SocialAccount.objects.all().delete()
    settings.OIDC_ISSUER = "https://other.example.org"
    call_command("account", "link", people, people, stdout=io.StringIO())
    settings.OIDC_ISSUER = provider.issuer
    _, answer = provider.log_in(person)
    assert answer.context["error"]["code"] == "login.name_taken"


def test_answer_of_the_provider_works_once_and_in_its_browser(provider: Canaille, people: str) -> None:
    person, client = provider.person(people, "dba-team"), Client()
    address = provider.answer_to(authorization_url(client), person).removeprefix("http://testserver")
    for other in (Client(), None):
        if other is None:
            assert client.get(address).status_code == 302
            other = client
            other.post("/logout/")
        answer = other.get(address)
        assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.expired")
        assert other.get("/audit/").status_code == 302


def test_login_of_the_provider_replaces_one_of_another_person(provider: Canaille, people: str, olga: User) -> None:
    client = Client()
    address = provider.answer_to(authorization_url(client), provider.person(people, "dba-team"))
    client.force_login(olga)
    client.get(address.removeprefix("http://testserver"))
    page = client.get("/audit/")
    if page.status_code == 200:  # the login of olga may also have dropped the state
        assert page.context["user"].username in (people, "olga")


def test_other_sites_cannot_begin_a_login(provider: Canaille) -> None:
    assert Client().get("/login/oidc/").headers["Location"] == "/login/"
    assert Client(enforce_csrf_checks=True).post("/login/oidc/").status_code == 403


@pytest.mark.parametrize("following", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_login_leads_to_no_other_site(provider: Canaille, people: str, following: str) -> None:
    _, answer = provider.log_in(provider.person(people, "dba-team"), following=following)
    assert answer.headers["Location"] == "/"


def test_page_that_leads_to_the_provider_needs_no_wider_policy(provider: Canaille) -> None:
    page = Client().post("/login/oidc/")
    policy = page.headers["Content-Security-Policy"]
    assert "localhost" not in policy
    assert "form-action 'self'" in policy


def test_wrong_client_secret_is_a_failure_of_the_provider(provider: Canaille, people: str, settings: Any) -> None:
    settings.OIDC_CLIENT_SECRET = "another one"
    client, answer = provider.log_in(provider.person(people, "dba-team"))
    assert (answer.status_code, answer.context["error"]["code"]) == (502, "login.provider")
    assert not User.objects.exists()


def test_logout_ends_the_session(provider: Canaille, people: str) -> None:
    client, _ = provider.log_in(provider.person(people, "dba-team"))
    client.post("/logout/")
    assert client.get("/audit/").status_code == 302
    assert last("logout").actor == people


def test_people_of_the_provider_need_no_second_factor_here(provider: Canaille, people: str, settings: Any) -> None:
    settings.SECOND_FACTOR_GROUPS = frozenset({"operator"})
    client, _ = provider.log_in(provider.person(people, "dba-team"))
    assert client.get("/audit/").status_code == 200
    assert client.get("/account/factors/").context["has_password"] is False
    assert client.get("/account/factors/app/add/").status_code in (302, 403)


# The provider alone


@pytest.fixture
def recovery(provider: Canaille, settings: Any) -> User:
    settings.RECOVERY_ACCOUNT = "rescue"
    user = make_user("rescue", "operator")
    user.is_superuser = True
    user.save()
    return user


def test_local_passwords_do_not_work_where_the_provider_is_required(recovery: User, olga: User) -> None:
    for password in (PASSWORD, "wrong"):
        answer = Client().post("/login/", {"username": "olga", "password": password})
        assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.local_off")
    assert not AuditEntry.objects.filter(action="login").exists()


def test_recovery_account_logs_in_and_is_an_override_in_the_audit_log(recovery: User) -> None:
    client = Client()
    assert client.post("/login/", {"username": "rescue", "password": PASSWORD}).status_code == 302
    assert client.get("/audit/").status_code == 200
    assert last("login.recovery").actor == "rescue"
    shown = client.get("/audit/?view=overrides").context
    assert "login.recovery" in str(client.get("/audit/?view=overrides").content)
    assert shown is not None
    rows = client.get("/admin/users/").context["accounts"]
    assert [row.is_recovery for row in rows] == [True]


def test_recovery_account_cannot_be_linked(recovery: User) -> None:
    with pytest.raises(CommandError, match=r"account\.invalid"):
        call_command("account", "link", "rescue", "somebody")
