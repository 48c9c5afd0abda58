"""Status bars in the browser: they appear, show since when, and disappear without a click."""

import pytest
from playwright.sync_api import expect

from tests.networks import answers
from tests.stack import Stack, wait_for

from .chromium import Visitor

pytestmark = [pytest.mark.services, pytest.mark.browser]

# A page without a live stream asks every 20 s; a stopped web process also refuses what the page asks.
NETWORK = "ERR_CONNECTION|Failed to load resource|htmx"


def test_stale_bar_appears_and_goes_with_the_connection(stack: Stack, victor: Visitor) -> None:
    page = victor.open("/clusters/test/")
    page.evaluate("window.isSameDocument = true")
    bar = page.locator("#stale")
    expect(bar).to_be_hidden()
    stack.stop("web")
    try:
        expect(bar).to_be_visible()
        expect(bar).to_contain_text("dbops does not respond.")
        expect(bar).to_contain_text("this computer's clock")
        before = bar.locator("[data-for]").inner_text()
        wait_for("the bar to count on", lambda: bar.locator("[data-for]").inner_text() != before)
    finally:
        stack.start("web")
    wait_for("the web process", lambda: answers(f"{stack.url}/healthz/"))
    expect(bar).to_be_hidden()
    assert page.evaluate("window.isSameDocument")
    victor.forgive(NETWORK)


def test_worker_bar_appears_and_goes_with_the_worker(stack: Stack, victor: Visitor) -> None:
    page = victor.open("/")
    bar = page.locator("#bar-workeraway")
    expect(bar).to_have_count(0)
    stack.stop("worker")
    try:
        expect(bar).to_be_visible(timeout=90_000)
        expect(bar).to_contain_text("No worker has reported for")
        expect(bar).to_contain_text("worker.away")
        assert page.locator("#bars [role=alert]").count() == 1
    finally:
        stack.start("worker")
    expect(bar).to_have_count(0, timeout=60_000)
