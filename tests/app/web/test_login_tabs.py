"""Several tabs of one browser, and a login in one of them: forms that others opened before."""

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from dbops.models import AuditEntry
from tests.app.factories import make_user

PASSWORD = "correct horse battery"
REFUSED = (403, "")


@pytest.fixture
def browser(olga: User, victor: User) -> Client:
    return Client(enforce_csrf_checks=True)


def token(browser: Client, page: str = "/login/") -> str:
    """Open a page in a tab and return its forms' token."""
    return str(browser.get(page).context["csrf_token"])


def log_in(browser: Client, form: str, name: str = "olga", following: str = "/") -> str:
    """Send a login form and return where it leads; the test fails where it is refused."""
    sent = {"username": name, "password": PASSWORD, "next": following, "csrfmiddlewaretoken": form}
    answer = browser.post("/login/", sent)
    assert answer.status_code == 302, answer.status_code
    return answer.headers["Location"]


def verify(browser: Client, form: str) -> tuple[int, str]:
    """Send a form that was opened before, the audit log's check; return the status and where it leads."""
    sender = {"referer": "http://testserver/audit/"}
    answer = browser.post("/audit/verify/", {"csrfmiddlewaretoken": form}, headers=sender)
    return answer.status_code, answer.headers.get("Location", "")


@pytest.mark.parametrize(
    ("following", "leads_to"),
    [("/audit/?actor=olga", "/audit/?actor=olga"), ("https://evil.example/", "/"), ("//evil.example/", "/"), ("", "/")],
)
def test_second_login_form_leads_to_its_page(browser: Client, following: str, leads_to: str) -> None:
    first, second = token(browser), token(browser)
    assert log_in(browser, first) == "/"
    assert log_in(browser, second, following=following) == leads_to
    assert AuditEntry.objects.filter(action="login").count() == 1


def test_second_login_form_of_another_person_says_who_is_logged_in(browser: Client) -> None:
    first, second = token(browser), token(browser)
    log_in(browser, first)
    assert log_in(browser, second, name="victor", following="/audit/") == "/audit/"
    page = browser.get("/audit/")
    assert page.context["user"].get_username() == "olga"
    assert [message.level_tag for message in page.context["messages"]] == ["warning"]


def test_old_login_form_without_a_login_is_refused(browser: Client) -> None:
    token(browser)
    assert browser.post("/login/", {"username": "olga", "password": PASSWORD}).status_code == 403


def test_forms_stay_valid_when_their_user_logs_in_again(browser: Client) -> None:
    log_in(browser, token(browser))
    form = token(browser, "/audit/")
    Session.objects.all().delete()
    assert verify(browser, form) == (302, "/login/?next=/audit/")
    log_in(browser, token(browser))
    assert verify(browser, form) == (302, "/audit/")


@pytest.mark.parametrize("name", ["victor", "olga"])
def test_forms_are_refused_after_a_login_of_another_user(browser: Client, name: str) -> None:
    log_in(browser, token(browser))
    form = token(browser, "/audit/")
    browser.post("/logout/", {"csrfmiddlewaretoken": form})
    log_in(browser, token(browser), name="victor")
    if name == "olga":
        browser.post("/logout/", {"csrfmiddlewaretoken": token(browser, "/audit/")})
        log_in(browser, token(browser))
    assert verify(browser, form) == REFUSED


def test_forms_are_refused_after_a_new_password(browser: Client, olga: User) -> None:
    log_in(browser, token(browser))
    form = token(browser, "/audit/")
    olga.set_password(PASSWORD)
    olga.save()
    log_in(browser, token(browser))
    assert verify(browser, form) == REFUSED


def test_secret_that_another_site_planted_is_replaced(browser: Client) -> None:
    """Also where the planter has an account here, and so a cookie that is signed for another secret or another user."""
    planter = Client(enforce_csrf_checks=True)
    make_user("mallory", "viewer")
    log_in(planter, token(planter), name="mallory")
    for name in ("csrftoken", "csrftoken_owner"):
        browser.cookies[name] = planter.cookies[name].value
    planted = planter.cookies["csrftoken"].value
    log_in(browser, planted)
    assert browser.cookies["csrftoken"].value != planted
    assert verify(browser, planted) == REFUSED


def test_password_form_stays_valid_when_its_user_logs_in_again(browser: Client) -> None:
    log_in(browser, token(browser))
    form = token(browser, "/password/")
    Session.objects.all().delete()
    log_in(browser, token(browser))
    new = "a brand new horse battery"
    sent = {"current": PASSWORD, "password": new, "password_again": new, "csrfmiddlewaretoken": form}
    assert browser.post("/password/", sent).headers["Location"] == "/"
