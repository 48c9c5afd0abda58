"""Cancel from the page, while the stream runs."""

import pytest
from playwright.sync_api import expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, VIEWER, VIEWER_PASSWORD, Stack

from .chromium import Visitor
from .conftest import Open
from .pages import TARGET, figure, slow_rebuild, status, wait_for_stream

pytestmark = [pytest.mark.services, pytest.mark.browser]


def test_cancel_during_the_stream_and_a_page_that_says_what_is_left(stack: Stack, olga: Visitor, visit: Open) -> None:
    page = olga.page
    with slow_rebuild(stack, olga) as brake:
        wait_for_stream(page)
        expect(figure(page, "Copied")).to_be_visible()
        brake.share = 0  # it does not end while other windows are opened
        address = page.url.removeprefix(stack.url)

        victor = visit(VIEWER, VIEWER_PASSWORD)
        victor.open(f"{address}cancel/")
        expect(victor.page.locator("main form[method=post] button[type=submit]")).to_have_count(0)
        victor.forgive("403")
        # A proxy that lets no event stream through: the page says so, and asks again and again.
        polling = visit(OPERATOR, OPERATOR_PASSWORD)
        polling.context.route("**/events/", lambda route: route.abort())
        polling.open(address)
        expect(status(polling.page)).to_have_text("running")
        expect(polling.page.locator("#live-state")).to_contain_text("asking every 5 s")

        page.locator("#cancel-link").click()
        expect(page.locator(".facts")).to_contain_text("moved aside")
        page.locator("main form[method=post] button[type=submit]").click()
        page.wait_for_url(f"**{address}")
        expect(page.locator("#cancel-link")).to_have_count(0)
        for each in (page, polling.page):
            expect(status(each)).to_have_text("cancelled", timeout=60_000)
            expect(each.locator(".outcome")).to_contain_text("data.dbops-old-")
            expect(each.locator("#again-link")).to_be_visible()
        polling.forgive(r"ERR_FAILED|\[object Event\]")
    assert (stack.lab.host(TARGET).folder / "data").is_dir()
    assert stack.rows("SELECT * FROM dbops_hold") == []
