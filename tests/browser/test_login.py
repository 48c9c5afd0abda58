"""Logins in a real browser: authenticator app, passkeys by Chromium's virtual authenticator, sessions, and a real provider."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.app.web.totp import code
from tests.networks import answers, free_port
from tests.provider import CLIENT_SECRET, Provider, iam_configuration, iam_server, iam_server_port
from tests.run_folder import new_folder
from tests.stack import ROOT, wait_for

from .axe import objections
from .chromium import Visitor, visitor

__all__ = ["iam_configuration", "iam_server", "iam_server_port"]
pytestmark = [pytest.mark.services, pytest.mark.browser]
NAME, PASSWORD = "alice", "horse correct staple battery"
FACTORS = "/account/factors/"


@contextmanager
def running_web(**settings: str) -> Iterator[tuple[str, Path]]:
    """Run a web process alone, on a database of its own with one superuser; yield its address and its folder."""
    folder, port = new_folder("login"), free_port()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("DBOPS_")},
        **settings,
        "DBOPS_STATE_DIR": str(folder),
        "DBOPS_WEB_PORT": str(port),
    }

    def run(*words: str, stdin: str = "") -> None:
        subprocess.run(words, env=environment, cwd=ROOT, input=stdin.encode(), check=True, capture_output=True)

    try:
        run("script/run", "migrate")
        create = ("account", "create", NAME, "--group", "operator", "--superuser", "--password-stdin")
        run(str(ROOT / ".venv" / "bin" / "python"), "manage.py", *create, stdin=PASSWORD)
        with (folder / "web.log").open("wb") as log:
            web = subprocess.Popen(
                [ROOT / "script" / "run", "web"], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for("the web process", lambda: answers(f"http://localhost:{port}/healthz/"))
            yield f"http://localhost:{port}", folder
        finally:
            web.send_signal(signal.SIGTERM)
            web.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def dashboard() -> Iterator[tuple[str, Path]]:
    with running_web() as running:
        yield running


@pytest.fixture
def alice(browser: Browser, dashboard: tuple[str, Path]) -> Iterator[Visitor]:
    """Someone at the login page, whose account has no factor. Nothing may violate the Content-Security-Policy."""
    url, folder = dashboard
    with sqlite3.connect(folder / "dbops.sqlite3") as database:
        for table in ("mfa_authenticator", "dbops_failedattempts"):
            database.execute(f"DELETE FROM {table}")
    found = visitor(browser, url)
    found.open("/login/")
    yield found
    faults = list(found.faults)
    found.context.close()
    assert faults == []


def send_password(person: Visitor) -> None:
    person.page.locator("#id_username").fill(NAME)
    person.page.locator("#id_password").fill(PASSWORD)
    person.page.get_by_role("button", name="Log in", exact=True).click()


def log_in(person: Visitor) -> None:
    send_password(person)
    person.page.wait_for_url(f"{person.url}/")


def log_out(person: Visitor) -> None:
    person.page.locator(".menu summary").click()
    person.page.get_by_role("button", name="Log out").click()
    person.page.wait_for_url(re.compile("/login/"))


def confirm(person: Visitor, path: str) -> None:
    """Open a page that needs the password again."""
    person.open(path)
    person.page.locator("#id_password").fill(PASSWORD)
    person.page.get_by_role("button", name="Continue").click()
    person.page.wait_for_url(person.url + path)


def add_authenticator(person: Visitor, *, verifies: bool = True) -> None:
    """Give the browser an authenticator that answers at once."""
    line = person.context.new_cdp_session(person.page)
    line.send("WebAuthn.enable")
    options = {
        **{"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": verifies},
        **{"isUserVerified": verifies, "automaticPresenceSimulation": True},
    }
    line.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def add_passkey(person: Visitor, *, alone: bool) -> None:
    confirm(person, f"{FACTORS}passkeys/add/")
    if alone:
        person.page.locator("#id_passwordless").check()
    person.page.locator("#passkey-add").click()
    person.page.wait_for_url(re.compile("/account/factors/"))


def test_authenticator_app_by_its_picture_and_key(alice: Visitor) -> None:
    log_in(alice)
    confirm(alice, f"{FACTORS}app/add/")
    assert alice.page.locator(".qr-code").evaluate("image => image.complete && image.naturalWidth > 0")
    assert objections(alice.page) == []
    secret = alice.page.locator("[data-key]").inner_text()
    alice.page.locator("#id_code").fill(code(secret, time.time()))
    alice.page.get_by_role("button", name="Add app").click()
    codes = alice.page.locator("[data-codes]").inner_text().split()
    assert len(codes) == 10
    assert objections(alice.page) == []
    log_out(alice)
    send_password(alice)
    alice.page.wait_for_url(f"{alice.url}/login/code/")
    assert objections(alice.page) == []
    alice.page.locator("#id_code").fill(codes[3])
    alice.page.get_by_role("button", name="Log in", exact=True).click()
    alice.page.wait_for_url(f"{alice.url}/")
    assert objections(alice.open(FACTORS)) == []


def test_passkey_as_second_factor(alice: Visitor) -> None:
    add_authenticator(alice)
    log_in(alice)
    add_passkey(alice, alone=False)
    log_out(alice)
    send_password(alice)
    alice.page.wait_for_url(f"{alice.url}/login/code/")
    alice.page.locator("#passkey-use").click()
    alice.page.wait_for_url(f"{alice.url}/")


def test_passkey_alone_logs_in_and_is_removed(alice: Visitor) -> None:
    add_authenticator(alice)
    log_in(alice)
    add_passkey(alice, alone=True)
    log_out(alice)
    alice.page.locator("#passkey-login").click()
    alice.page.wait_for_url(f"{alice.url}/")
    assert objections(alice.open("/account/sessions/")) == []
    expect(alice.page.locator("[data-current]")).to_contain_text("passkey")
    alice.open(FACTORS)
    alice.page.get_by_role("link", name="Remove Passkey 1").click()
    alice.page.locator("#id_password").fill(PASSWORD)
    alice.page.get_by_role("button", name="Continue").click()
    assert objections(alice.page) == []
    alice.page.get_by_role("button", name="Remove passkey").click()
    alice.page.wait_for_url(alice.url + FACTORS)
    log_out(alice)
    alice.page.locator("#passkey-login").click()
    alice.page.wait_for_url(f"{alice.url}/login/")
    expect(alice.page.locator(".messages .alert-danger")).to_be_visible()


def test_authenticator_without_verification_does_not_replace_the_password(alice: Visitor) -> None:
    add_authenticator(alice, verifies=False)
    log_in(alice)
    confirm(alice, f"{FACTORS}passkeys/add/")
    alice.page.locator("#id_passwordless").check()
    alice.page.locator("#passkey-add").click()
    expect(alice.page.locator("[data-passkey-error]")).to_be_visible()


def test_session_that_another_browser_ends_is_over(alice: Visitor, browser: Browser) -> None:
    log_in(alice)
    other = visitor(browser, alice.url)
    other.open("/login/")
    log_in(other)
    alice.open("/account/sessions/")
    alice.page.get_by_role("button", name="End all other sessions").click()
    expect(alice.page.locator("[data-session]")).to_have_count(1)
    other.open("/audit/")
    assert "/login/" in other.page.url
    other.context.close()


def test_provider_in_a_browser(browser: Browser, iam_server: Any) -> None:  # noqa: F811
    """From the login page over the provider's own form and back, under the strict policy."""
    provider = Provider(iam_server)
    with running_web(
        DBOPS_OIDC_ISSUER=provider.issuer,
        DBOPS_OIDC_CLIENT_ID="dbops",
        DBOPS_OIDC_CLIENT_SECRET=CLIENT_SECRET,
        DBOPS_OIDC_GROUPS="dba-team=operator",
        DBOPS_OIDC_SCOPES="openid,profile,groups",
    ) as (url, _):
        provider.register(f"{url}/login/oidc/callback/")
        provider.log_in_silently(provider.add_person("petra", "dba-team"))
        petra = visitor(browser, url)
        petra.open("/login/?next=/audit/")
        petra.page.locator("[data-provider]").click()
        petra.page.wait_for_url(f"{url}/audit/")
        expect(petra.page.locator(".user-name")).to_have_text("petra")
        assert petra.faults == []
        petra.context.close()
