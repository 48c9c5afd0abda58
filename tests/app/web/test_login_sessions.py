"""Sessions of a person: list, end, end everywhere."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client

from dbops.database import clock
from dbops.models import AuditEntry, LoginSession
from dbops.operations import account_admin
from dbops.queries.admin.sessions import name_of
from dbops.web.middleware import login_sessions as middleware
from tests.app.factories import make_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
SESSIONS = "/account/sessions/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture(autouse=True)
def _noted() -> None:
    middleware._noted.clear()


def logged_in(name: str = "olga", address: str = "192.0.2.7") -> Client:
    client = Client(REMOTE_ADDR=address, headers={"User-Agent": FIREFOX})
    assert client.post("/login/", {"username": name, "password": PASSWORD}).status_code == 302
    return client


def works(client: Client) -> bool:
    return client.get("/audit/").status_code == 200


def listed(client: Client) -> list[Any]:
    return list(client.get(SESSIONS).context["sessions"])


@pytest.fixture
def root(db: None) -> User:
    user = make_user("root")
    user.is_superuser = True
    user.save()
    return user


def test_own_sessions_are_listed_with_this_one_first(olga: User, victor: User) -> None:
    here, _, _ = logged_in(), logged_in(address="198.51.100.2"), logged_in("victor")
    rows = listed(here)
    assert [(row.address, row.is_current, row.browser) for row in rows] == [
        ("192.0.2.7", True, "Firefox on Linux"),
        ("198.51.100.2", False, "Firefox on Linux"),
    ]


def test_last_use_is_noted_at_most_once_a_minute(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = logged_in()
    works(client)
    LoginSession.objects.update(last_used_at=clock.now() - timedelta(hours=1))
    works(client)
    assert clock.now() - LoginSession.objects.get().last_used_at > timedelta(minutes=59)
    monkeypatch.setattr(middleware, "SECONDS", -1.0)
    works(client)
    assert clock.now() - LoginSession.objects.get().last_used_at < timedelta(minutes=1)


def test_ended_session_ends_at_once(olga: User) -> None:
    here, there = logged_in(), logged_in()
    other = next(row for row in listed(here) if not row.is_current)
    assert here.post(f"{SESSIONS}{other.id}/end/").status_code == 302
    assert (works(here), works(there)) == (True, False)
    assert AuditEntry.objects.get(action="session.ended").detail == {"sessions_ended": 1, "address": "192.0.2.7"}
    here.post(f"{SESSIONS}{other.id}/end/")  # the second click
    assert AuditEntry.objects.filter(action="session.ended").count() == 1


def test_nobody_ends_a_session_of_another_person(olga: User, victor: User) -> None:
    here, there = logged_in(), logged_in("victor")
    row = LoginSession.objects.get(user=victor)
    here.post(f"{SESSIONS}{row.pk}/end/")
    assert works(there)
    assert not AuditEntry.objects.filter(action="session.ended").exists()


def test_all_others_end(olga: User, victor: User) -> None:
    here, there, victors = logged_in(), logged_in(), logged_in("victor")
    unlisted = Client()
    unlisted.force_login(olga)
    assert here.post(f"{SESSIONS}end-others/").status_code == 302
    assert [works(client) for client in (here, there, unlisted, victors)] == [True, False, False, True]
    assert [row.is_current for row in listed(here)] == [True]
    assert AuditEntry.objects.get(action="session.ended").detail == {"sessions_ended": 2, "tokens_revoked": 0}


def test_superuser_ends_all_sessions_of_an_account(olga: User, root: User) -> None:
    there, admin = logged_in(), Client()
    admin.force_login(root)
    assert [row.address for row in admin.get(f"/admin/users/{olga.pk}/").context["sessions"]] == ["192.0.2.7"]
    assert admin.post(f"/admin/users/{olga.pk}/end-sessions/").status_code == 302
    assert not works(there)
    entry = AuditEntry.objects.get(action="session.ended")
    assert (entry.actor, entry.subject) == ("root", "olga")


def test_ending_sessions_of_others_is_for_superusers(olga: User, victor: User, operator: Client) -> None:
    there = logged_in("victor")
    assert operator.post(f"/admin/users/{victor.pk}/end-sessions/").status_code == 403
    with pytest.raises(Exception, match=r"access\.denied"):
        account_admin.end_sessions(actor=olga, user=victor, with_tokens=True)
    assert works(there)


def test_command_lists_and_ends_sessions(olga: User) -> None:
    there, out = logged_in(), io.StringIO()
    call_command("account", "sessions", "olga", stdout=out)
    assert "192.0.2.7" in out.getvalue()
    call_command("account", "end-sessions", "olga", stdout=io.StringIO())
    assert not works(there)
    assert AuditEntry.objects.get(action="session.ended").actor.endswith("(manage.py)")


def test_deactivated_account_has_no_sessions(olga: User, root: User) -> None:
    logged_in()
    account_admin.deactivate(actor=root, user=olga, seen=account_admin.access_of(olga))
    assert not LoginSession.objects.exists()


def test_new_password_leaves_this_session_alone_in_the_list(olga: User) -> None:
    here, there = logged_in(), logged_in()
    new = "a brand new horse battery"
    here.post("/password/", {"current": PASSWORD, "password": new, "password_again": new})
    assert [row.is_current for row in listed(here)] == [True]
    assert (works(here), works(there)) == (True, False)


def test_logout_removes_the_session_from_the_list(olga: User) -> None:
    here, there = logged_in(), logged_in()
    there.post("/logout/")
    assert len(listed(here)) == 1


def test_expired_sessions_are_not_listed_and_their_rows_go(olga: User) -> None:
    here = logged_in()
    logged_in()
    Session.objects.exclude(pk=here.session.session_key).update(expire_date=clock.now() - timedelta(seconds=1))
    assert len(listed(here)) == 1
    LoginSession.objects.update(started_at=clock.now() - timedelta(days=3))
    logged_in()
    assert LoginSession.objects.count() == 1


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("<script>alert(1)</script>\x1b[31m", "Unknown browser"),
        ("", "Unknown browser"),
    ],
)
def test_browser_has_a_short_name(header: str, name: str) -> None:
    assert name_of(header) == name


def test_hostile_browser_name_is_shown_as_text(olga: User) -> None:
    client = Client(headers={"User-Agent": "<script>alert(1)</script>" + "x" * 5000})
    client.post("/login/", {"username": "olga", "password": PASSWORD})
    assert "<script>alert" not in client.get(SESSIONS).content.decode()
    assert len(LoginSession.objects.get().browser) == 300
