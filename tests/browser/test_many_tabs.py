"""Many tabs of one browser on live pages, over HTTP/1.1: no tab is in the way of another, and none outlives its session."""

import os
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack, wait_for

from .chromium import Visitor
from .conftest import Open
from .pages import slow_rebuild, status, wait_for_stream

pytestmark = [pytest.mark.services, pytest.mark.browser]
#: Twice the connections of a browser. 30 work, too, and take both cores of a small machine for a minute: ``DBOPS_TEST_TABS=30``.
MANY = int(os.environ.get("DBOPS_TEST_TABS", "12"))
#: of six connections
STREAMS = 3
#: Without a free connection a click is never answered. On a quiet machine it takes less than a second.
CLICK_SECONDS = 10.0
#: for a page to load, on a busy machine
PATIENCE_MILLISECONDS = 60_000
BAR_MILLISECONDS = 15_000
HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (isHidden ? "hidden" : "visible") });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def live(pages: list[Page]) -> list[Page]:
    return [page for page in pages if page.locator("#live-state[data-live=live]").count()]


def open_tabs(visitor: Visitor, path: str, count: int) -> list[Page]:
    """Open more tabs of the same browser, all of them visible: a browser without windows hides none."""
    pages = [visitor.context.new_page() for _ in range(count)]
    for page in pages:
        page.goto(visitor.url + path, timeout=PATIENCE_MILLISECONDS)
    return pages


def seconds_of_click(page: Page, selector: str, leads_to: str) -> float:
    page.locator(selector).wait_for()
    began = time.monotonic()
    page.locator(selector).click()
    page.wait_for_url(f"**{leads_to}", wait_until="commit")
    return time.monotonic() - began


def test_every_click_goes_through_with_many_live_pages(stack: Stack, olga: Visitor) -> None:
    with slow_rebuild(stack, olga, share=0) as brake:
        wait_for_stream(olga.page)
        address = olga.page.url.removeprefix(stack.url)
        pages = [olga.page, *open_tabs(olga, address, MANY - 1)]
        for page in pages:
            expect(page.locator("#live-state")).to_have_attribute("data-live", re.compile("live|polling"))
        wait_for("as many streams as there may be", lambda: len(live(pages)) == STREAMS)
        streaming = live(pages)
        polling = [page for page in pages if page not in streaming]
        for page in (streaming[0], polling[0], polling[-1]):
            assert seconds_of_click(page, "#cancel-link", f"{address}cancel/") < CLICK_SECONDS
        # One of them had a stream: another page takes it.
        wait_for("as many streams as before", lambda: len(live(pages)) == STREAMS)
        brake.release()
        for page in (streaming[1], polling[1]):
            expect(status(page)).to_have_text("succeeded", timeout=90_000)


def test_hidden_page_gives_its_stream_away_and_learns_of_the_end(stack: Stack, olga: Visitor) -> None:
    with slow_rebuild(stack, olga, share=0) as brake:
        wait_for_stream(olga.page)
        pages = [olga.page, *open_tabs(olga, olga.page.url.removeprefix(stack.url), STREAMS)]
        *streaming, waiting = pages
        expect(waiting.locator("#live-state")).to_have_attribute("data-live", "polling")
        wait_for("the streams of the others", lambda: live(pages) == streaming)
        hidden = streaming[0]
        hidden.evaluate(HIDE, True)
        expect(waiting.locator("#live-state")).to_have_attribute("data-live", "live")
        assert hidden not in live(pages)
        waiting.close()
        hidden.evaluate(HIDE, False)
        expect(hidden.locator("#live-state")).to_have_attribute("data-live", "live")
        hidden.evaluate(HIDE, True)
        asked = len(olga.requested("/poll/"))
        brake.release()
        expect(status(streaming[1])).to_have_text("succeeded", timeout=90_000)
        expect(hidden).to_have_title(re.compile("^succeeded"), timeout=60_000)
        assert len(olga.requested("/poll/")) - asked <= 5, "a hidden page polls rarely"
        assert len(olga.requested("/events/")) == 2


def test_live_page_ends_with_its_session_and_continues_with_the_next(stack: Stack, visit: Open) -> None:
    olga = visit()
    olga.log_in(OPERATOR, OPERATOR_PASSWORD)
    page = olga.page
    with slow_rebuild(stack, olga, share=0):
        wait_for_stream(page)
        expect(page.locator("#live-state")).to_have_text("Live")
        page.evaluate("window.isSameDocument = true")
        address = page.url.removeprefix(stack.url)
        form, other, login = open_tabs(olga, f"{address}cancel/", 1) + open_tabs(olga, "/audit/", 2)
        other.locator(".menu summary").click()
        other.get_by_role("button", name="Log out").click()
        bar = page.locator("#bar-logged-out")
        expect(bar).to_be_visible(timeout=BAR_MILLISECONDS)
        expect(page.locator("#live-state")).to_be_hidden()
        expect(status(page)).to_have_text("running")

        # The bar's link opens a tab. Another tab has the form open as well.
        login.goto(f"{stack.url}/login/?next=/rebuilds/")
        for each, leads_to in ((other, "/"), (login, "/rebuilds/")):
            each.locator("#id_username").fill(OPERATOR)
            each.locator("#id_password").fill(OPERATOR_PASSWORD)
            each.locator("main button[type=submit]").click()
            each.wait_for_url(f"{stack.url}{leads_to}")
        expect(bar).to_have_count(0)
        expect(page.locator("#live-state")).to_have_text("Live")
        assert page.evaluate("window.isSameDocument")
        # A form that was opened before is as good as a new one.
        form.locator("main form[method=post] button[type=submit]").click()
        form.wait_for_url(f"**{address}")
        expect(status(page)).to_have_text("cancelled", timeout=60_000)
    olga.forgive(r"Failed to load|MIME type|\[object Event\]")
