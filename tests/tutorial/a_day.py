"""What `docs/tutorial/a-day.md` asks its readers to do by clicking."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.provider import CLIENT_SECRET
from tests.stack import ROOT

from .demo import DemoLesson
from .provider import ProviderPages

TICKET = "CHG0012345"


class ADay(DemoLesson):
    page = ROOT / "docs" / "tutorial" / "a-day.md"

    def __init__(self, checkout: Path, environment: dict[str, str], browser: Browser, provider: ProviderPages) -> None:
        super().__init__(checkout, environment, browser)
        self._provider = provider
        self.typed |= {"issuer": provider.issuer, "client_secret": CLIENT_SECRET}
        #: what no command line may say
        self.secrets = {"client": CLIENT_SECRET}
        provider.add_person_with_password("petra", "dba-team")
        provider.add_person_with_password("anton", "dba-leads")

    def register_the_client(self) -> None:
        self._provider.register(f"{self.url}/login/oidc/callback/")

    def set_the_rules(self) -> None:
        window = self.person("operator")
        window.log_in("operator", self.password("operator"))
        page = window.open("/inventory/cluster/demo/")
        page.locator("#id_needs_approval").check()
        page.locator("#id_ticket_pattern").fill("CHG[0-9]{7}")
        page.locator("#id_ticket_url").fill("https://tickets.example.com/{ticket}")
        page.locator("main form button[type=submit]").first.click()
        expect(page.locator(".messages .alert-success")).to_be_visible()

    def petra_makes_a_token(self) -> None:
        window = self.person("petra")
        self._provider.log_in("petra", window)
        expect(window.page.locator(".user-name")).to_have_text("petra")
        page = window.open("/account/tokens/new/")
        page.locator("#id_name").fill("petra-cli")
        page.locator("#id_scope").select_option("operate")
        page.locator("#id_days").fill("1")
        page.locator("main form button[type=submit]").click()
        self.secrets["token"] = self.typed["token"] = page.locator("#api-token").inner_text()
        for name in ("webhook.secret", "dbops.token"):
            self.secrets[name] = (self.checkout / "var" / "day" / name).read_text().strip()

    def petra_cannot_approve(self) -> None:
        page = self.person("petra").open(f"/rebuilds/{self._rebuild}/approval/")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[name=decision][value=approve]")).to_have_count(0)

    def anton_approves(self) -> None:
        window = self.person("anton")
        self._provider.log_in("anton", window)
        page = window.open("/rebuilds/")
        page.locator(f"a[href='/rebuilds/{self._rebuild}/']").first.click()
        page.locator("#approval-link").click()
        ticket = page.get_by_role("link", name=TICKET)
        expect(ticket).to_have_attribute("href", f"https://tickets.example.com/{TICKET}")
        page.locator("[name=decision][value=approve]").click()
        expect(page.locator(".messages .alert-success")).to_be_visible()

    def find_the_evidence(self) -> None:
        window = self.person("anton")
        page = window.open("/audit/?action=rebuild.requested")
        page.locator("main tbody tr a[href^='/audit/']").first.click()
        expect(page.get_by_text(TICKET).first).to_be_visible()
        answer = page.request.get(f"{window.url}/rebuilds/{self._rebuild}/evidence/")
        assert answer.status == 200
        assert all(word in answer.text() for word in (TICKET, "petra", "anton"))

    def stop(self) -> None:
        self._close_windows()
        assert self.interrupt("demo") == 0, self.shown_in("demo")

    @property
    def _rebuild(self) -> int:
        """The number of the newest rebuild, as the lesson's command has stored it."""
        [found] = re.findall(r'^\{"id": ?(\d+)', (self.checkout / "var" / "day" / "rebuild.json").read_text())
        return int(found)
