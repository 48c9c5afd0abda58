"""The three test buttons, pressed in a browser on real servers."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.host_state import nothing_changes, processes_of
from tests.stack import Stack, wait_for

from .chromium import Visitor

SOURCE, TARGET = "backup-1", "replica-1"


def state(said: Locator) -> Locator:
    return said.locator(".state").first


def fits(page: Page, width: int) -> bool:
    page.set_viewport_size({"width": width, "height": 780})
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_ssh_test_keeps_typed_input(olga: Visitor) -> None:
    page = olga.open(f"/inventory/host/{TARGET}/")
    page.get_by_label("SSH user").fill("somebody-else")
    page.get_by_role("button", name="Test SSH").dblclick()
    said = page.locator("#test-result-ssh")
    expect(state(said)).to_have_text("passed")
    expect(said).to_contain_text("Work directory")
    expect(page.get_by_label("SSH user")).to_have_value("somebody-else")
    assert len(olga.requested(r"/admin/connection-tests/ssh/")) == 1
    asked = len(olga.requested(r"/admin/connection-tests/\d+/$"))
    page.wait_for_timeout(2_500)
    assert len(olga.requested(r"/admin/connection-tests/\d+/$")) == asked
    assert fits(page, 360)
    assert fits(page, 1280)


def test_mysql_test_shows_both_accounts(olga: Visitor) -> None:
    page = olga.open(f"/inventory/instance/{SOURCE}/")
    page.get_by_role("button", name="Test MySQL").click()
    said = page.locator("#test-result-mysql")
    expect(state(said)).to_have_text("passed")
    expect(said).to_contain_text(re.compile(r"Dashboard's account:.*logged in"))
    expect(said).to_contain_text(re.compile(r"Backup account:.*allowed"))
    assert fits(page, 360)


def test_stream_test_shows_a_rate_and_leaves_nothing(olga: Visitor, stack: Stack) -> None:
    page = olga.open(f"/inventory/host/{TARGET}/")
    page.get_by_label(f"Source that sends to {TARGET}").select_option(SOURCE)
    with nothing_changes(stack):
        page.get_by_role("button", name="Test stream").click()
        said = page.locator("#test-result-stream")
        expect(state(said)).to_have_text("passed")
        expect(said).to_contain_text(re.compile(r"\d+ MiB/s"))
        expect(said).to_contain_text("aes128-gcm@openssh.com")
    row = stack.rows("SELECT * FROM dbops_connectiontest ORDER BY id DESC LIMIT 1")[0]
    wait_for("the processes of the test to end", lambda: processes_of(row["uid"]) == [], 30)
    said.get_by_text("Commands").click()
    expect(said).to_contain_text("cat /dev/zero")
    page.get_by_role("link", name=f"Test {row['id']}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Stream test of {SOURCE} → {TARGET}")
    assert fits(page, 360)
    olga.open("/admin/connection-tests/")
    expect(page.locator("tbody tr").first).to_contain_text("MiB/s")
    assert fits(page, 360)
    assert fits(page, 1280)
