"""The company's OpenID Connect provider, with people who log in through its own pages."""

from typing import Any

from playwright.sync_api import expect

from tests.browser.chromium import Visitor
from tests.provider import Provider


class ProviderPages(Provider):
    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.passwords: dict[str, str] = {}

    def add_person_with_password(self, name: str, group: str) -> None:
        """Add a person with a password to a group."""
        self.passwords[name] = f"{name} horse correct staple"
        self.add_person(name, group, password=self.passwords[name])

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
        # what its own pages lack is no fault of dbops
        window.faults[:] = [fault for fault in window.faults if self.issuer not in fault]
