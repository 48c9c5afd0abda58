"""The ways to start a rebuild while its source is being backed up, and the one that waits for the backup's end."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.stack import Stack, wait_for

from .chromium import Visitor
from .pages import REASON, TARGET, status
from .windows import HELD, NIGHTLY, Windows, held_backup, run_status

pytestmark = [pytest.mark.services, pytest.mark.browser]
PLAN = f"/instances/{TARGET}/rebuild/"
TIME = re.compile(r"\b\d\d:\d\d\b")


@pytest.fixture(scope="module", autouse=True)
def history(stack: Stack) -> None:
    """One rebuild that has succeeded: without one the duration of the next is unknown. And a target that answers.

    Tests of other files leave a wiped one.
    """
    has_succeeded = stack.rows("SELECT 1 FROM dbops_rebuild WHERE status = 'succeeded'")
    if not has_succeeded or not stack.wait_for_facts(TARGET)["server"]:
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)


def way(page: Page, title: str) -> Locator:
    return page.locator(".start-options > li").filter(has=page.get_by_text(title, exact=True))


def finish(item: Locator) -> Locator:
    return item.locator("[data-time=end] dd")


def state_of_target(stack: Stack) -> dict[str, object]:
    """What a rebuild would change, on the target's disk and in its server."""
    host = stack.lab.host(TARGET)
    server = stack.wait_for_facts(TARGET, answering=True)["server"]
    return {
        "directories": sorted((path.name, path.stat().st_ino) for path in host.folder.iterdir() if path.is_dir()),
        "files": sorted(path.name for path in host.data_dir.iterdir() if path.is_dir()),
        "server": server["server_id"],
        "runs": sorted(path.name for path in (host.work_dir / "rebuilds").iterdir()),
        "holds of it": stack.rows(
            "SELECT * FROM dbops_hold h JOIN dbops_instance i ON i.id = h.instance_id WHERE i.name = ?", TARGET
        ),
    }


def test_start_options_show_a_finish_and_use_a_free_source(olga: Visitor, windows: Windows) -> None:
    page = olga.open(PLAN)
    page.locator("#start-options > summary").click()
    for title in ("Now", f"Before the backup {NIGHTLY}", f"After the backup {NIGHTLY}"):
        expect(finish(way(page, title))).to_have_text(TIME, use_inner_text=True)
        expect(way(page, title).get_by_role("link", name=title)).to_be_visible()
    expect(way(page, "Now").get_by_role("link")).to_have_attribute("aria-current", "true")
    expect(page.locator(".confirm-start strong").first).to_have_text("Now")


def test_start_after_a_backup_waits_and_leaves_nothing_when_cancelled(
    olga: Visitor, stack: Stack, windows: Windows
) -> None:
    stack.wait_for_possible_plan(TARGET)
    before = state_of_target(stack)
    with held_backup(stack) as (run, brake):
        page = olga.open(PLAN)
        expect(page.locator(".eligibility")).to_contain_text("Blocked")
        name = f"backup run {run} ({HELD})"
        after, stopping = f"When {name} ends", f"Stop {name}, rebuild, then back up again"
        expect(way(page, "Now")).to_have_count(0)
        for title in ("As soon as possible", after, stopping):
            expect(finish(way(page, title))).to_have_text(TIME, use_inner_text=True)
        way(page, after).get_by_role("link", name=after).click()
        expect(way(page, after).get_by_text("chosen", exact=True)).to_be_visible()

        page.locator("#typed-name").fill(TARGET)
        page.locator("#reason").fill(REASON)
        page.get_by_role("button", name=re.compile(re.escape(f", when {name} ends") + "$")).click()
        page.wait_for_url("**/rebuilds/*/")
        expect(status(page)).to_have_text("queued")
        why = page.locator(".status-strip")
        expect(why.locator("[data-waits]")).to_contain_text(f"backup run {run}")
        expect(why.locator("[data-passes]")).to_contain_text(re.compile(r"\d\d:\d\d"))
        expect(page.locator("[data-began=no]")).to_be_visible()
        olga.open("/queue/")
        lines = page.get_by_role("row").filter(has_text=f"{TARGET} from backup-1")
        expect(lines.locator("[data-label=Position] .number")).to_have_count(2)  # of its source, and of its target
        page.go_back()

        page.locator("#cancel-link").click()
        expect(page.locator(".facts")).to_be_visible()
        page.locator("main form[method=post] button[type=submit]").click()
        page.wait_for_url(re.compile(r"/rebuilds/\d+/$"))
        expect(status(page)).to_have_text("cancelled")
        expect(page.locator("[data-began=no]")).to_be_visible()
        assert run_status(stack, run) == "running", "the backup is nothing of the cancelled rebuild's"
        brake.release()
        wait_for("the end of the backup", lambda: run_status(stack, run) == "succeeded", 60)
    assert state_of_target(stack) == before
    page.reload()
    expect(status(page)).to_have_text("cancelled")
