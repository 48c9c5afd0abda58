"""A real load test from the page: planned, started, watched while its rounds end, and stopped."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.stack import Stack

from .axe import objections
from .chromium import Visitor
from .pages import status
from .validity import mistakes

pytestmark = [pytest.mark.services, pytest.mark.browser]
#: Small: one second for a round, on an empty server.
CHOICES = {
    "host": "backup-1",
    "backup": "0",
    "profile": "point-select",
    "tables": "1",
    "table_rows": "500",
    "steps": "1, 2, 3, 4",
    "repeats": "20",
    "seconds": "1",
    "warm_up_seconds": "0",
    "pool_mib": "64",
}


def fill(page: Any, values: dict[str, str]) -> None:
    for name, value in values.items():
        field = page.locator(f"#choices [name={name}]")
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def test_plan_start_watch_and_stop(stack: Stack, olga: Visitor, tmp_path: Path) -> None:
    page = olga.open("/clusters/test/capacity/")
    page.get_by_role("link", name="New load test").click()
    fill(page, CHOICES)
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator("[data-planned]")).to_have_count(4)
    assert objections(page) == []

    page.locator("#typed-name").fill("backup-1")
    page.locator("#reason").fill("Baseline, ticket OPS-4711")
    page.get_by_role("button", name=re.compile("Run this load test")).click()
    page.wait_for_url("**/load-tests/*/")
    documents = olga.documents

    # Rounds appear without another load of the page.
    expect(page.locator("[data-rounds]")).not_to_have_attribute("data-rounds", "0", timeout=120_000)
    expect(page.locator("[data-chart=latency] svg").first).to_be_visible()
    shown = page.locator("[data-rounds]").get_attribute("data-rounds")
    expect(page.locator("[data-rounds]")).not_to_have_attribute("data-rounds", str(shown), timeout=60_000)
    assert olga.documents == documents
    for width, scheme in ((360, "light"), (1280, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert objections(page) == []
    (tmp_path / "live.html").write_text(page.request.get(page.url).text())

    page.locator("#cancel-link").click()
    assert objections(page) == []
    (tmp_path / "cancel.html").write_text(page.request.get(page.url).text())
    page.locator("#reason").fill("Seen enough")
    page.locator("main form[method=post] button[type=submit]").click()
    page.wait_for_url("**/load-tests/*/")
    expect(status(page)).to_have_text("cancelled", timeout=60_000)
    expect(page.locator("#report [data-step]")).not_to_have_count(0)
    assert mistakes(tmp_path) == []
    [row] = stack.rows("SELECT status, has_leftovers FROM dbops_loadtest")
    assert (row["status"], row["has_leftovers"]) == ("cancelled", 0)
