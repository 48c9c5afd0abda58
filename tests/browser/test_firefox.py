"""The main ways in Firefox: one rebuild from the login to its cancellation, then calendar and audit log."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack

from .chromium import Visitor, visitor
from .pages import REASON, TARGET, figure, let_some_through, slow_rebuild, status, too_wide, wait_for_stream

pytestmark = [pytest.mark.services, pytest.mark.browser]
#: the number of streams of one browser, see static/dbops/stream.js
STREAMS = 3


@pytest.fixture
def olga(stack: Stack, firefox: Browser) -> Iterator[Visitor]:
    found = visitor(firefox, stack.url)
    found.log_in(OPERATOR, OPERATOR_PASSWORD)
    yield found
    found.context.close()
    assert found.faults == []


def test_operator_rebuilds_and_cancels_in_firefox(stack: Stack, olga: Visitor) -> None:
    page = olga.page
    with slow_rebuild(stack, olga, share=0) as brake:
        wait_for_stream(page)
        address = page.url.removeprefix(stack.url)
        expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
        let_some_through(page, brake)
        copied = figure(page, "Copied").inner_text()
        let_some_through(page, brake)
        expect(figure(page, "Copied")).not_to_have_text(copied, use_inner_text=True)
        assert too_wide(page) == []

        tabs = [olga.context.new_page() for _ in range(STREAMS)]
        for tab in tabs:
            tab.goto(page.url)
        for tab in tabs:
            expect(tab.locator("#live-state")).to_have_attribute("data-live", re.compile("live|polling"))
        assert [tab.locator("#live-state").get_attribute("data-live") for tab in tabs].count("polling") == 1

        page.locator("#cancel-link").click()
        page.locator("main form[method=post] button[type=submit]").click()
        page.wait_for_url(f"**{address}")
        for each in (page, *tabs):
            expect(status(each)).to_have_text("cancelled", timeout=60_000)
            expect(each.locator("#again-link")).to_be_visible()

    for path, shows in (
        ("/calendar/", "main h1"),
        ("/availability/", "main h1"),
        ("/backups/", "main h1"),
        ("/audit/", f"tbody tr:has-text('{REASON}')"),
    ):
        olga.open(path)
        expect(page.locator(shows).first).to_be_visible()
        assert too_wide(page) == [], path
    expect(page.locator("tbody tr", has_text=TARGET).first).to_contain_text(OPERATOR)
