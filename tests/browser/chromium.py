"""Debian's browsers without their own windows, driven by Playwright, with a witness of everything that a page should not do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request, sync_playwright

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
FIREFOX = Path("/usr/bin/firefox-esr")
ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Also what the console does not repeat: each violation of the Content-Security-Policy becomes a line of the console.
TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`));
"""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        try:
            yield browser
        finally:
            browser.close()


def launch_chromium(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)


def launch_firefox(playwright: Playwright) -> Browser:
    """Launch Firefox as Debian has it: this channel speaks WebDriver BiDi, not the protocol of Playwright's own build."""
    return playwright.firefox.launch(executable_path=FIREFOX, channel="moz-firefox")


@dataclass
class Visitor:
    """One person at one browser. ``faults`` is what went wrong in it; it must stay empty."""

    context: BrowserContext
    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def log_in(self, user: str, password: str) -> None:
        self.open("/login/")
        self.page.locator("#id_username").fill(user)
        self.page.locator("#id_password").fill(password)
        self.page.locator("#id_password").press("Enter")
        self.page.wait_for_url(f"{self.url}/")

    def forgive(self, pattern: str) -> None:
        """Take back faults that the test itself brought about; there must be some."""
        kept = [fault for fault in self.faults if not re.search(pattern, fault)]
        assert len(kept) < len(self.faults), f"no fault is like {pattern}: {self.faults}"
        self.faults[:] = kept

    def requested(self, pattern: str) -> list[Request]:
        """Return the requests so far whose address holds the pattern."""
        return [request for request in self.requests if re.search(pattern, request.url)]

    def documents(self) -> int:
        """Return how many whole pages were requested."""
        return sum(request.is_navigation_request() for request in self.requests)


def visitor(browser: Browser, url: str, **options: Any) -> Visitor:
    """Open a browser window of its own cookies. ``options`` are those of Playwright's ``new_context``."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options})
    context.add_init_script(TELL_VIOLATIONS)
    context.set_default_timeout(15_000)
    found = Visitor(context, context.new_page(), url)

    def heard(kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            found.faults.append(f"{kind}: {text}")

    found.page.on("console", lambda message: heard(message.type, f"{message.text} ({message.location['url']})"))
    found.page.on("pageerror", lambda error: found.faults.append(f"exception: {error}"))
    found.page.on("request", lambda request: found.requests.append(request))
    return found
