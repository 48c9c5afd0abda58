"""Links and forms do it alone: planned, confirmed and read to the end with JavaScript switched off."""

import pytest
from playwright.sync_api import expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack, wait_for

from .conftest import Open
from .pages import REASON, TARGET, confirm, log_texts, open_plan, status, step_states

pytestmark = [pytest.mark.services, pytest.mark.browser]


def test_rebuild_works_without_javascript(stack: Stack, visit: Open) -> None:
    olga = visit(OPERATOR, OPERATOR_PASSWORD, java_script_enabled=False)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_possible_plan(TARGET)
    page = open_plan(olga)
    confirm(page)
    page.wait_for_url("**/rebuilds/*/")
    expect(page.locator("noscript")).to_be_visible()
    expect(page.locator("#cancel-link")).to_be_visible()

    def ended() -> bool:
        page.reload()
        return status(page).inner_text() not in ("queued", "running")

    wait_for("the end of the rebuild", ended, 90)
    assert status(page).inner_text() == "succeeded", stack.state_of_rebuilds()
    assert {state for _, state in step_states(page)} == {"done"}
    assert any(REASON in text for text in log_texts(page))
