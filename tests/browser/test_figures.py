"""The figures of a real rebuild over time: charts that grow, the tab's icon and title, and a notification at the end."""

import re
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from tests.stack import Stack, wait_for

from .chromium import Visitor
from .pages import slow_rebuild, status, wait_for_stream

pytestmark = [pytest.mark.services, pytest.mark.browser]

#: Headless Chromium shows no notifications: what would be shown is kept.
KEEP_NOTIFICATIONS = """
window.notifications = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title) { window.notifications.push(title); }
  addEventListener() {}
};
"""


def icon(page: Page) -> str:
    return unquote(page.locator("link[rel=icon]").get_attribute("href") or "")


def points(page: Page, rebuild: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = page.evaluate(
        "address => fetch(address).then(answer => answer.status === 200 ? answer.json() : {number: []})",
        f"{rebuild}samples/",
    )
    return found


def test_charts_icon_title_and_notification_of_a_rebuild(stack: Stack, olga: Visitor) -> None:
    page = olga.page
    olga.context.add_init_script(KEEP_NOTIFICATIONS)
    with slow_rebuild(stack, olga) as brake:
        wait_for_stream(page)
        page.get_by_role("button", name="Notify me at the end").click()
        expect(page.locator("#notify-toggle")).to_contain_text("This browser will notify you")

        copied = page.locator("[data-line=rate] [data-summary]")
        expect(copied).to_have_text(re.compile(r"^min \S+, median \S+, max \S+ MiB/s$"))
        expect(page.locator("[data-chart=rate] canvas")).to_be_visible()
        expect(page.get_by_role("img", name="Copy rate in MiB/s over time: copied min")).to_be_visible()
        expect(page).to_have_title(re.compile(r"^\d+ % – "))
        assert "stroke-dasharray" in icon(page)
        before = icon(page)
        wait_for("the ring to fill", lambda: icon(page) != before)

        # New points come with the page's updates: each viewer requests the history once.
        words = copied.inner_text()
        expect(copied).not_to_have_text(words)
        assert len(olga.requested("/samples/")) <= 2
        page.set_viewport_size({"width": 360, "height": 740})
        wait_for("no sideways scrolling", lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
        page.set_viewport_size({"width": 1280, "height": 800})
        brake.release()
        expect(status(page)).to_have_text("succeeded", timeout=90_000)

    expect(page).to_have_title(re.compile("^succeeded"))
    assert "stroke-dasharray" not in icon(page)
    assert "M5 17l8 8L27 8" in icon(page), "a check, not only a colour"
    assert [text.split(" ")[0] for text in page.evaluate("window.notifications")] == ["succeeded"]
    expect(page.locator("#summary-title")).to_be_visible()
    found = points(page, page.url)
    known = [value for value in found["rate"] if value is not None]
    assert known
    assert all(rate >= 0 for rate in known)
    assert any(value is not None for value in found["written"])
    assert found["number"] == sorted(set(found["number"]))
