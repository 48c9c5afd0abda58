"""The company's OpenID Connect provider: Canaille, with people who log in through its own pages."""

from typing import Any

from playwright.sync_api import expect

from tests.browser.chromium import Visitor

CLIENT_SECRET = "the secret of the day's client"
SCOPES = ["openid", "profile", "groups"]


class Provider:
    """Canaille in this process, served on this machine."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.issuer = server.url.rstrip("/")
        self.passwords: dict[str, str] = {}

    def register(self, redirect: str) -> None:
        """Add dbops as a client, with the address that the provider may send browsers back to."""
        with self.server.app.app_context():
            client = self.server.models.Client(
                client_id="dbops",
                client_secret=CLIENT_SECRET,
                client_name="dbops",
                redirect_uris=[redirect],
                contacts=["dba@example.org"],
                scope=SCOPES,
                response_types=["code"],
                grant_types=["authorization_code"],
                token_endpoint_auth_method="client_secret_post",
            )
            self.server.backend.save(client)
            client.audience = [client]
            self.server.backend.save(client)

    def add_person(self, name: str, group: str) -> None:
        """Add a person with a password, alone in a group."""
        self.passwords[name] = f"{name} horse correct staple"
        person = self.server.random_user(user_name=name, display_name=name, password=self.passwords[name])
        with self.server.app.app_context():
            self.server.backend.save(self.server.models.Group(display_name=group, members=[person]))

    def log_in(self, name: str, window: Visitor) -> None:
        """Log a person in from dbops's login page, on the provider's own pages, and agree to what dbops wants to know."""
        page = window.open("/login/")
        page.locator("[data-provider]").click()
        page.locator("input[name=login]").fill(name)
        page.locator("button[type=submit]").last.click()
        page.locator("input[name=password]").fill(self.passwords[name])
        page.locator("button[type=submit]").last.click()
        accept, arrived = page.locator("button[name=answer][value=accept]"), page.locator(".user-name")
        expect(accept.or_(arrived)).to_be_visible()
        if accept.count():  # Canaille does not ask everybody
            accept.click()
        expect(arrived).to_have_text(name)
