"""Discovering in the browser, with real servers, a real worker and real polls."""

import re

from playwright.sync_api import expect

from tests.stack import Stack

from .chromium import Visitor


def test_discovery_is_polled_until_its_end(olga: Visitor, stack: Stack) -> None:
    page = olga.page
    olga.open("/clusters/test/topology/")
    expect(page.locator("[data-stops=no]")).to_be_visible()
    olga.open("/discoveries/")
    page.locator("#id_address").fill(stack.lab.primary.address)
    page.get_by_label("Stored account of cluster").select_option("test")
    page.get_by_role("button", name="Discover").click()
    expect(page.locator("[data-new='0']")).to_be_visible()
    # what was done to the replica by the tests before is nothing of this one's
    expect(page.get_by_text(re.compile(r"\b[23] servers in"))).to_be_visible()
    asked = len(olga.requested(r"/discoveries/\d+/$"))
    page.wait_for_timeout(5_000)
    assert len(olga.requested(r"/discoveries/\d+/$")) == asked


def test_drawing_is_updated_by_polls_and_fits_a_phone(olga: Visitor) -> None:
    page = olga.open("/clusters/test/topology/")
    with page.expect_response(
        lambda answer: (
            answer.url.endswith("/clusters/test/topology/") and answer.request.is_navigation_request() is False
        )
    ):
        pass
    expect(page.locator("#topology-title")).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 780})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
