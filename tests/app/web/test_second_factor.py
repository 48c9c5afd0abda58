"""Second factors: adding, logging in with them, limits, and what happens to somebody who lost them."""

import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.database import clock
from dbops.models import AuditEntry, LoginSession
from dbops.operations import account_admin
from dbops.operations.login_limits import SECOND_FACTOR
from tests.app.factories import make_user
from tests.app.web.totp import code

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FACTORS = "/account/factors/"
ADD = "/account/factors/app/add/"


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the authenticator app and of the check; tests advance it to get another code."""
    at = [float(int(time.time()) // 30 * 30)]
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time.time", lambda: at[0])
    return at


def password_step(name: str = "olga") -> tuple[Client, str]:
    """Send the login form and return where it leads."""
    client = Client()
    answer = client.post("/login/", {"username": name, "password": PASSWORD, "next": "/audit/"})
    assert answer.status_code == 302
    return client, answer.headers["Location"]


def logged_in(name: str = "olga") -> Client:
    client, leads_to = password_step(name)
    assert leads_to == "/audit/"
    return client


def confirm(client: Client, then: str) -> None:
    """Open a page that needs the password again, and enter it."""
    asked = client.get(then)
    assert (asked.status_code, asked.headers["Location"].partition("?")[0]) == (302, "/account/confirm/")
    answer = client.post("/account/confirm/", {"password": PASSWORD, "next": then})
    assert (answer.status_code, answer.headers["Location"]) == (302, then)


def add_app(client: Client, at: list[float]) -> str:
    """Add an authenticator app and return its secret."""
    confirm(client, ADD)
    page = client.get(ADD)
    secret: str = page.context["form"].secret
    assert page.context["totp_svg_data_uri"].startswith("data:image/svg+xml;base64,")
    answer = client.post(ADD, {"code": code(secret, at[0])})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/account/factors/codes/")
    return secret


@pytest.fixture
def secret(olga: User, now: list[float]) -> str:
    found = add_app(logged_in(), now)
    now[0] += 30
    return found


def actions(prefix: str) -> list[str]:
    return list(AuditEntry.objects.filter(action__startswith=prefix).order_by("pk").values_list("action", flat=True))


def last_login() -> dict[str, Any]:
    return AuditEntry.objects.filter(action="login").order_by("pk").last().detail  # type: ignore[union-attr]


def test_login_without_a_factor_has_one_step(olga: User) -> None:
    assert logged_in().get("/audit/").status_code == 200
    assert last_login() == {"method": "password"}


def test_secret_of_an_app_is_encrypted_at_rest(secret: str) -> None:
    row = Authenticator.objects.get(type="totp")
    assert secret not in str(row.data)
    assert row.data["secret"].startswith("gAAAA")
    assert "seed" not in AuditEntry.objects.values_list("detail", flat=True)
    assert secret not in str(list(AuditEntry.objects.values()))


def test_password_alone_does_not_log_in(secret: str) -> None:
    client, leads_to = password_step()
    assert leads_to == "/login/code/"
    for page in ("/", "/audit/", FACTORS, "/account/sessions/"):
        assert client.get(page).headers["Location"].startswith("/login/")
    assert actions("login") == ["login"]


def test_code_finishes_the_login_at_the_wanted_page(secret: str, now: list[float]) -> None:
    client, _ = password_step()
    assert client.get("/login/code/").status_code == 200
    answer = client.post("/login/code/", {"code": code(secret, now[0])})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/audit/")
    assert client.get("/audit/").status_code == 200
    assert last_login() == {"method": "password", "second_factor": "authenticator app"}


def test_code_works_once(secret: str, now: list[float]) -> None:
    used = code(secret, now[0])
    first, _ = password_step()
    assert first.post("/login/code/", {"code": used}).status_code == 302
    second, _ = password_step()
    assert second.post("/login/code/", {"code": used[:3] + " " + used[3:]}).status_code == 422


def test_code_works_once_in_all_web_processes(secret: str, now: list[float]) -> None:
    """The library remembers used codes in the memory of one process."""
    from django.core.cache import cache

    used = code(secret, now[0])
    first, _ = password_step()
    assert first.post("/login/code/", {"code": used}).status_code == 302
    cache.clear()
    second, _ = password_step()
    assert second.post("/login/code/", {"code": used}).status_code == 422


def test_recovery_code_works_once(secret: str, now: list[float]) -> None:
    client, _ = password_step()
    client.post("/login/code/", {"code": code(secret, now[0])})
    confirm(client, "/account/factors/codes/")
    codes = client.get("/account/factors/codes/").context["unused_codes"]
    assert len(codes) == 10
    first, _ = password_step()
    assert first.post("/login/code/", {"code": codes[0]}).status_code == 302
    assert last_login()["second_factor"] == "recovery code"
    second, _ = password_step()
    assert second.post("/login/code/", {"code": codes[0]}).status_code == 422


def test_wrong_codes_block_the_second_step_and_are_audited(secret: str, now: list[float]) -> None:
    client, _ = password_step()
    for number in range(SECOND_FACTOR.most):
        answer = client.post("/login/code/", {"code": f"{number:06}"})
        assert answer.context["form"].errors.as_data()["code"][0].code != "blocked"
    good, _ = password_step()  # the right password does not forget them
    answer = good.post("/login/code/", {"code": code(secret, now[0])})
    assert answer.status_code == 422
    assert answer.context["form"].errors.as_data()["code"][0].code == "blocked"
    failed = AuditEntry.objects.filter(action="login.failed")
    assert {(entry.actor, entry.detail["step"]) for entry in failed} == {("olga", "second factor")}
    call_command("account", "unblock", "olga", stdout=io.StringIO())
    assert good.post("/login/code/", {"code": code(secret, now[0] + 30)}).status_code == 302


def test_new_password_ends_a_login_that_waits_for_its_code(secret: str, now: list[float], olga: User) -> None:
    client, _ = password_step()
    olga.refresh_from_db()
    olga.set_password("staple battery horse")
    olga.save()
    answer = client.post("/login/code/", {"code": code(secret, now[0])})
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.stale")
    assert client.get("/audit/").status_code == 302


def test_deactivation_ends_a_login_that_waits_for_its_code(secret: str, now: list[float], olga: User) -> None:
    client, _ = password_step()
    User.objects.filter(pk=olga.pk).update(is_active=False)
    answer = client.post("/login/code/", {"code": code(secret, now[0])})
    assert (answer.status_code, answer.context["error"]["code"]) == (403, "login.inactive")
    assert AuditEntry.objects.filter(action="login.refused").get().detail == {"code": "login.inactive"}


@pytest.mark.parametrize(
    "page", [ADD, "/account/factors/passkeys/add/", "/account/factors/codes/renew/", "/account/factors/codes/"]
)
def test_changes_of_factors_need_the_password_again(secret: str, now: list[float], page: str) -> None:
    client, _ = password_step()
    client.post("/login/code/", {"code": code(secret, now[0])})
    assert client.get(page).headers["Location"].startswith("/account/confirm/")
    before = list(Authenticator.objects.values("type", "data"))
    assert client.post(page, {"code": code(secret, now[0] + 30)}).status_code in (302, 405)
    assert list(Authenticator.objects.values("type", "data")) == before


def test_wrong_password_does_not_confirm(olga: User) -> None:
    client = logged_in()
    answer = client.post("/account/confirm/", {"password": "wrong", "next": ADD})
    assert answer.status_code == 422
    assert client.get(ADD).status_code == 302
    for _ in range(5):
        answer = client.post("/account/confirm/", {"password": "wrong", "next": ADD})
    assert answer.context["form"].errors.as_data()["password"][0].code == "blocked"


@pytest.mark.parametrize(
    "page", ["https://evil.example/", "//evil.example/", "http://localhost:81/", "javascript:alert(1)"]
)
def test_confirmation_leads_to_no_other_site(olga: User, page: str) -> None:
    client = logged_in()
    answer = client.post("/account/confirm/", {"password": PASSWORD, "next": page})
    assert answer.headers["Location"] == "/"


def test_app_is_removed_with_its_recovery_codes(secret: str, now: list[float]) -> None:
    client, _ = password_step()
    client.post("/login/code/", {"code": code(secret, now[0])})
    confirm(client, "/account/factors/app/remove/")
    assert client.post("/account/factors/app/remove/").headers["Location"] == FACTORS
    assert not Authenticator.objects.exists()
    assert actions("factor") == ["factor.added", "factor.removed"]
    logged_in()


def test_second_tab_adds_no_second_app(olga: User, now: list[float]) -> None:
    client = logged_in()
    confirm(client, ADD)
    secret = client.get(ADD).context["form"].secret
    client.post(ADD, {"code": code(secret, now[0])})
    client.post(ADD, {"code": code(secret, now[0] + 30)})
    assert Authenticator.objects.filter(type="totp").count() == 1


# A group that needs a second factor


@pytest.fixture
def required(settings: Any) -> None:
    settings.SECOND_FACTOR_GROUPS = frozenset({"operator"})


def test_group_with_required_factor_sees_no_page_before(required: None, olga: User, victor: User) -> None:
    client = logged_in()
    for method, page in ((client.get, "/"), (client.post, "/audit/verify/"), (client.get, "/account/sessions/")):
        assert method(page).headers["Location"] == FACTORS
    assert "HX-Redirect" not in client.get("/status/", headers={"HX-Request": "true"}).headers  # every page polls it
    assert client.get("/audit/", headers={"HX-Request": "true"}).headers["HX-Redirect"] == FACTORS
    assert client.get(FACTORS).context["is_required"] is True
    assert logged_in("victor").get("/audit/").status_code == 200


def test_required_factor_opens_all_pages_once_added(required: None, olga: User, now: list[float]) -> None:
    client = logged_in()
    secret = add_app(client, now)
    assert client.get("/audit/").status_code == 200
    other, _ = password_step()
    other.post("/login/code/", {"code": code(secret, now[0] + 30)})
    assert other.get("/audit/").status_code == 200


def test_required_factor_cannot_be_removed_as_the_last(required: None, olga: User, now: list[float]) -> None:
    client = logged_in()
    add_app(client, now)
    answer = client.post("/account/factors/app/remove/")
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert Authenticator.objects.filter(type="totp").exists()


def test_session_from_before_the_requirement_is_redirected(olga: User, settings: Any) -> None:
    client = logged_in()
    assert client.get("/audit/").status_code == 200
    settings.SECOND_FACTOR_GROUPS = frozenset({"operator"})
    assert client.get("/audit/").headers["Location"] == FACTORS


def test_superusers_can_be_required(settings: Any) -> None:
    user = make_user("root")
    user.is_superuser = True
    user.save()
    settings.SECOND_FACTOR_GROUPS = frozenset({"superuser"})
    assert logged_in("root").get("/").headers["Location"] == FACTORS


# Somebody lost their factors


def reset_in_browser(olga: User) -> None:
    root = make_user("root")
    root.is_superuser = True
    root.save()
    client = Client()
    client.force_login(root)
    assert client.get(f"/admin/users/{olga.pk}/").context["factors"]
    assert client.post(f"/admin/users/{olga.pk}/reset-factors/").status_code == 302


def reset_by_command(_: User) -> None:
    call_command("account", "reset-factors", "olga", stdout=io.StringIO())


@pytest.mark.parametrize("reset", [reset_in_browser, reset_by_command])
def test_reset_removes_all_factors_and_sessions(
    secret: str, now: list[float], olga: User, reset: Callable[[User], None]
) -> None:
    client, _ = password_step()
    client.post("/login/code/", {"code": code(secret, now[0])})
    reset(olga)
    assert not Authenticator.objects.exists()
    assert client.get("/audit/").status_code == 302
    entry = AuditEntry.objects.get(action="account.factors_reset")
    assert (entry.subject, entry.detail["factors_removed"]) == ("olga", 1)
    logged_in()


def test_reset_is_for_superusers(secret: str, operator: Client, olga: User) -> None:
    assert operator.post(f"/admin/users/{olga.pk}/reset-factors/").status_code == 403
    assert Authenticator.objects.exists()
    with pytest.raises(Exception, match=r"access\.denied"):
        account_admin.reset_factors(actor=olga, user=olga)


@pytest.mark.parametrize("verb", ["reset-factors", "end-sessions", "sessions"])
def test_commands_name_an_unknown_account(verb: str) -> None:
    with pytest.raises(CommandError):
        call_command("account", verb, "unknown")


def test_session_row_names_the_methods(secret: str, now: list[float]) -> None:
    client, _ = password_step()
    client.post("/login/code/", {"code": code(secret, now[0])}, headers={"User-Agent": "Firefox/140 Linux"})
    row = LoginSession.objects.order_by("pk").last()
    assert row is not None
    assert (row.method, row.browser) == ("password, authenticator app", "Firefox/140 Linux")
    assert row.started_at <= clock.now()
