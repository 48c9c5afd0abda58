"""What `docs/tutorial/first-rebuild.md` asks its reader to do by clicking."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from lab.processes import working_for
from tests.browser.pages import wait_for_stream
from tests.stack import ROOT, wait_for

from .demo import DemoLesson

REPLICA = "replica-1"
#: Of what comes of real work on real servers; a busy machine takes its time.
PROBE_MS, COPY_MS = 60_000, 180_000


class FirstRebuild(DemoLesson):
    page = ROOT / "docs" / "tutorial" / "first-rebuild.md"

    def __init__(self, checkout: Path, environment: dict[str, str], browser: Browser, last: Callable[[], None]) -> None:
        """``last`` is what else is done with the demo before it is stopped."""
        super().__init__(checkout, environment, browser)
        self._last = last

    def look_at_the_cluster(self) -> None:
        self.person("operator").log_in("operator", self.password("operator"))
        self._window.locator("#cluster-demo").click()
        for name in ("primary-1", "backup-1", REPLICA):
            expect(self._window.locator(f"#row-{name}")).to_be_visible()
        expect(self._window.locator(".rebuild-status[data-answer=now]").first).to_be_visible(timeout=PROBE_MS)

    def see_the_broken_replica(self) -> None:
        expect(self._window.locator(f"#row-{REPLICA} .state-unreachable")).to_be_visible(timeout=PROBE_MS)

    def announce_maintenance(self) -> None:
        page = self._window
        page.locator("#maintenance-fold > summary").click()
        page.locator("#announce > summary").click()
        page.locator("#announce [name=reason]").fill("A new switch")
        page.locator("#announce button[type=submit]").click()
        expect(page.locator(".rebuild-status[data-answer=now]")).to_have_count(0)

    def end_maintenance(self) -> None:
        self._window.locator(".maintenance button").click()
        expect(self._window.locator(".rebuild-status[data-answer=now]").first).to_be_visible(timeout=PROBE_MS)

    def open_the_plan(self) -> None:
        self._window.locator(f"#plan-{REPLICA}").click()
        for part in ("#destroys-title", "#source-label", "#fold-checks", "#fold-steps"):
            expect(self._window.locator(part)).to_be_visible()

    def rebuild(self) -> None:
        page = self._window
        page.locator("#typed-name").fill(REPLICA)
        page.locator("#reason").fill("Disk replaced")
        page.locator("[data-confirm]").click()
        page.wait_for_url(re.compile("/rebuilds/1/"))
        self._wait_for_success()

    def wait_for_a_possible_plan(self) -> None:
        """The reader sees the broken replica on the page first."""
        self._window.goto(f"{self.url}/clusters/demo/")
        self.see_the_broken_replica()

    def see_the_copy(self) -> None:
        self._window.goto(f"{self.url}/rebuilds/2/")
        wait_for_stream(self._window)

    def see_the_success(self) -> None:
        wait_for("the demo to start the worker again", lambda: "worker has ended" in self.shown_in("demo"))
        self._wait_for_success()
        events = self._window.locator("#log-lines .log-text").all_text_contents()
        assert [text for text in events if re.search("attach", text)], events

    def look_at_the_audit_log(self) -> None:
        page = self._window
        page.goto(f"{self.url}/audit/?action=rebuild.")
        assert page.locator("main tbody tr").count() >= 6

    def stop(self) -> None:
        self._last()
        self._close_windows()
        assert self.interrupt("demo") == 0, self.shown_in("demo")
        left = [pid for pid in working_for(self.checkout.parent) if pid != self._shell.pid]
        assert left == []

    @property
    def _window(self) -> Page:
        return self.person("operator").page

    def _wait_for_success(self) -> None:
        expect(self._window.locator(".live-root[data-status=succeeded]")).to_have_count(1, timeout=COPY_MS)
