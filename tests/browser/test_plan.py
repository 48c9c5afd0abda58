"""The plan's page where the facts change between the look and the click, and a start with the keyboard alone."""

import pytest
from playwright.sync_api import Page, expect

from tests.stack import Stack

from .chromium import Visitor
from .pages import REASON, TARGET, open_plan, status

pytestmark = [pytest.mark.services, pytest.mark.browser]
#: More stops than any of these pages has.
MOST_STOPS = 200


def tab_to(page: Page, selector: str) -> None:
    """Press the Tab key until that element has the focus."""
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.locator(selector).evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{selector} is not reached with the Tab key")


def test_stale_plan_shows_changes_and_is_confirmed_by_keyboard(olga: Visitor, stack: Stack) -> None:
    if not stack.wait_for_facts(TARGET)["server"]:
        stack.rebuild(TARGET)  # what other tests have left
    stack.wait_for_possible_plan(TARGET)
    page = open_plan(olga)
    tab_to(page, "#typed-name")
    page.keyboard.type(TARGET)
    page.keyboard.press("Tab")
    page.keyboard.type(REASON)
    stack.lab.host(TARGET).stop_server()
    stack.wait_for_facts(TARGET, answering=False)
    page.keyboard.press("Enter")
    changes = page.locator("#changes")
    expect(changes.get_by_role("row").filter(has_text="Target: server answers")).to_contain_text("yes")
    olga.forgive("409")
    expect(page.locator("#reason")).to_have_value(REASON)
    assert not stack.rows("SELECT 1 FROM dbops_rebuild WHERE status = 'queued'")

    expect(page.locator("#typed-name")).to_have_value("")
    tab_to(page, "#typed-name")
    page.keyboard.type(TARGET)
    tab_to(page, "#confirm button[type=submit]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rebuilds/*/")
    expect(status(page)).to_have_text("succeeded", timeout=120_000)
