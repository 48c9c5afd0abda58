"""Web process or Redis is down while a rebuild is watched: the page recovers without a click."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.networks import answers
from tests.slow_process import Brake
from tests.stack import Stack, wait_for

from .chromium import Visitor
from .pages import LITTLE, figure, let_some_through, slow_rebuild, status, wait_for_stream

pytestmark = [pytest.mark.services, pytest.mark.browser]
#: A lost stream is reopened after seconds, and the page polls every five seconds until then; the rest is for a busy machine.
BACK_MILLISECONDS = 60_000
TROUBLE = r"ERR_|Failed to load resource|htmx|\[object Event\]"


def is_live_again(page: Page, brake: Brake) -> None:
    """Wait until the page is live again and its numbers move; the copy is paused outside this wait."""
    expect(page.locator("#stale")).to_be_hidden(timeout=BACK_MILLISECONDS)
    expect(page.locator("#live-state")).to_have_text("Live", timeout=BACK_MILLISECONDS)
    before = figure(page, "Copied").inner_text()
    brake.share = LITTLE
    wait_for("the copied bytes to move", lambda: figure(page, "Copied").inner_text() != before, 60)
    brake.share = 0


def test_live_page_recovers_after_each_outage(stack: Stack, olga: Visitor) -> None:
    page, stale = olga.page, olga.page.locator("#stale")

    def web_is_back() -> None:
        stack.start("web")
        wait_for("the web process", lambda: answers(f"{stack.url}/healthz/"))

    def web_away() -> None:
        stack.stop("web")
        expect(stale).to_be_visible(timeout=BACK_MILLISECONDS)

    def redis_away() -> None:
        stack.stop("redis")
        expect(page.locator("#bars")).to_contain_text("Redis is unreachable", timeout=BACK_MILLISECONDS)

    devices = olga.context.new_cdp_session(page)

    def asleep() -> None:
        devices.send("Page.setWebLifecycleState", {"state": "frozen"})
        olga.context.set_offline(True)
        time.sleep(20)

    def awake() -> None:
        olga.context.set_offline(False)
        devices.send("Page.setWebLifecycleState", {"state": "active"})

    troubles: list[tuple[Callable[[], None], Callable[[], object]]] = [
        (web_away, web_is_back),
        (redis_away, lambda: stack.start("redis")),
        (asleep, awake),
    ]
    with slow_rebuild(stack, olga, share=0) as brake:
        wait_for_stream(page)
        let_some_through(page, brake)
        expect(page.locator("#live-state")).to_have_text("Live")
        page.evaluate("window.isSameDocument = true")
        for away, back in troubles:
            try:
                away()
            finally:
                back()
            is_live_again(page, brake)
        expect(page.locator("#bars")).not_to_contain_text("Redis is unreachable", timeout=BACK_MILLISECONDS)
        # It ends while the laptop has no line: what the page has to ask for at the end it can only ask for afterwards.
        expect(page.locator("#cancel-link")).to_be_visible()
        olga.context.set_offline(True)
        brake.release()
        ended = "SELECT 1 FROM dbops_rebuild WHERE status = 'succeeded' AND id = ?"
        wait_for("the end", lambda: stack.rows(ended, page.url.rstrip("/").rpartition("/")[2]), 120)
        page.wait_for_timeout(5_000)
        olga.context.set_offline(False)
        expect(status(page)).to_have_text("succeeded", timeout=BACK_MILLISECONDS)
    expect(page.locator("#cancel-link")).to_have_count(0, timeout=BACK_MILLISECONDS)
    expect(stale).to_be_hidden(timeout=BACK_MILLISECONDS)
    expect(page.locator("#live-state")).to_be_hidden()
    assert page.evaluate("window.isSameDocument")
    olga.forgive(TROUBLE)
