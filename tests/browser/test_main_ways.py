"""The main ways of the DBA, the manager and the auditor, each at every size and in both schemes.

A person has six windows, one for each size and scheme. Each walks the way by its own clicks; what changes something is sent from one of
them, a different one each time. That one stays, the others come to look and go: six live pages at once would judge the machine.
"""

import os
import signal
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.faults.injectors.hosts import wait_for_backup
from tests.slow_process import Brake, braked
from tests.stack import OPERATOR, OPERATOR_PASSWORD, VIEWER, VIEWER_PASSWORD, Stack

from .axe import objections
from .chromium import Visitor
from .conftest import Open
from .pages import REASON, TARGET, figure, let_some_through, open_plan, status, wait_for_stream
from .windows import Windows

pytestmark = [pytest.mark.services, pytest.mark.browser]
HEIGHTS = {360: 780, 1280: 800, 1920: 1080}
LOOKS = [(width, scheme) for width in HEIGHTS for scheme in ("light", "dark")]
#: axe takes its time: it sees each page at two sizes, and every size within three pages.
AT_ONCE = 2
REASON_TO_GO_BACK = "The old disk is well after all"
END_MILLISECONDS = 120_000
#: For a page to load, on a machine that is as busy as these tests make it.
PATIENCE_MILLISECONDS = 60_000

Walk = Callable[[Visitor], object]
Expected = Callable[[Page], object]


class SixWindows:
    """One person at every size and in both schemes, logged in once. ``acting`` is the number of the window that sends."""

    def __init__(self, visit: Open, user: str, password: str, acting: int = 0) -> None:
        first = visit(user, password, **_options(*LOOKS[0]))
        session = first.context.storage_state()
        self.visitors = [first, *(visit(storage_state=session, **_options(*look)) for look in LOOKS[1:])]
        for visitor in self.visitors:
            visitor.context.set_default_timeout(PATIENCE_MILLISECONDS)
        self._acting = self.visitors[acting]
        self._judged = 0

    @property
    def acting(self) -> Visitor:
        return self._acting

    def see(self, walk: Walk, expected: Expected) -> None:
        """Walk there in each window, the acting one last: check the page in each, and that nothing is outside the window.

        axe looks at the next two of them.
        """
        judged = {(self._judged + more) % len(LOOKS) for more in range(AT_ONCE)}
        self._judged += AT_ONCE
        numbers = sorted(range(len(LOOKS)), key=lambda number: self.visitors[number] is self._acting)
        for number in numbers:
            visitor = self.visitors[number]
            try:
                walk(visitor)
                self._look(visitor.page, expected, is_judged=number in judged)
            except BaseException as error:
                error.add_note("in the window of {} px, {}".format(*LOOKS[number]))
                raise
            if visitor is not self._acting:
                visitor.page.goto("about:blank")

    def _look(self, page: Page, expected: Expected, *, is_judged: bool) -> None:
        expected(page)
        if is_judged:
            assert objections(page) == []
        needed, there = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert needed <= there, page.url

    def press(self, button: str) -> str:
        """Press a button in the acting window, and return the address of the rebuild that it leads to."""
        page = self._acting.page
        before = page.url
        page.get_by_role("button", name=button).click()
        page.wait_for_url(lambda url: url != before and url.rstrip("/").rpartition("/")[2].isdigit())
        return page.url.removeprefix(self._acting.url)

    def to(self, address: str) -> Walk:
        """Return the walk to a rebuild's page, by the menu and the list; the acting window is there."""

        def walk(visitor: Visitor) -> None:
            if visitor is not self._acting:
                menu(visitor, "Rebuilds")
                visitor.page.locator(f"main a[href='{address}']").first.click()
                visitor.page.wait_for_url(f"**{address}")

        return walk


def _options(width: int, scheme: str) -> dict[str, object]:
    return {
        "color_scheme": scheme,
        "viewport": {"width": width, "height": HEIGHTS[width]},
        "reduced_motion": "reduce",
    }


def menu(visitor: Visitor, name: str) -> None:
    if not visitor.page.url.startswith(visitor.url):
        visitor.open("/")
    visitor.page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()


def fill_in(page: Page, reason: str) -> None:
    page.locator("#typed-name").fill(TARGET)
    page.locator("#reason").fill(reason)


def fill_plan(visitor: Visitor) -> None:
    fill_in(open_plan(visitor), REASON)


def held_at_the_stream(dba: SixWindows, brake: Brake) -> str:
    """Confirm the plan that the acting window shows; return the address of the rebuild when its copy is held."""
    address = dba.press(f"Wipe {TARGET}")
    wait_for_stream(dba.acting.page)
    let_some_through(dba.acting.page, brake)
    return address


def ends_as(word: str) -> Expected:
    return lambda page: expect(status(page)).to_have_text(word, timeout=END_MILLISECONDS)


def test_dba_rebuilds_from_start_to_end(stack: Stack, visit: Open) -> None:
    dba = SixWindows(visit, OPERATOR, OPERATOR_PASSWORD, acting=0)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_possible_plan(TARGET)
    with braked(stack.lab.host(TARGET), 0) as brake:
        dba.see(fill_plan, lambda page: expect(page.get_by_role("button", name=f"Wipe {TARGET}")).to_be_enabled())
        address = held_at_the_stream(dba, brake)
        dba.acting.page.evaluate("window.isSameDocument = true")
        dba.see(dba.to(address), lambda page: expect(figure(page, "Copied")).to_be_visible())
        brake.release()
        ends_as("succeeded")(dba.acting.page)
    assert dba.acting.page.evaluate("window.isSameDocument")
    dba.see(dba.to(address), lambda page: expect(page.locator("#summary-title")).to_be_visible())


def test_dba_cancels_a_rebuild(stack: Stack, visit: Open) -> None:
    dba = SixWindows(visit, OPERATOR, OPERATOR_PASSWORD, acting=4)
    button = f"Cancel rebuild of {TARGET}"
    stack.wait_for_possible_plan(TARGET)
    with braked(stack.lab.host(TARGET), 0) as brake:
        fill_plan(dba.acting)
        address = held_at_the_stream(dba, brake)

        def ask(visitor: Visitor) -> None:
            dba.to(address)(visitor)
            visitor.page.locator("#cancel-link").click()

        dba.see(ask, lambda page: expect(page.get_by_role("button", name=button)).to_be_visible())
        assert dba.press(button) == address
        ends_as("cancelled")(dba.acting.page)
    dba.see(dba.to(address), lambda page: expect(page.locator("#again-link")).to_be_visible())


def test_dba_rolls_back_and_the_auditor_finds_both(stack: Stack, visit: Open) -> None:
    dba = SixWindows(visit, OPERATOR, OPERATOR_PASSWORD, acting=3)
    target = stack.lab.host(TARGET)
    stack.wait_for_possible_plan(TARGET)
    before = target.data_dir.stat().st_ino
    with braked(target, 0) as brake:
        fill_plan(dba.acting)
        address = held_at_the_stream(dba, brake)
        [rebuild] = stack.rows("SELECT uid FROM dbops_rebuild WHERE id = ?", int(address.strip("/").rpartition("/")[2]))
        os.kill(wait_for_backup(stack.lab.host("backup-1"), rebuild["uid"]), signal.SIGKILL)
        brake.release()
        ends_as("failed")(dba.acting.page)
    assert target.data_dir.stat().st_ino != before
    dba.see(dba.to(address), ends_as("failed"))

    def ask(visitor: Visitor) -> None:
        dba.to(address)(visitor)
        visitor.page.locator("#rollback-link").click()
        fill_in(visitor.page, REASON_TO_GO_BACK)

    dba.see(ask, lambda page: expect(page.locator("#typed-name")).to_be_visible())
    follow_up = dba.press(f"Roll back {TARGET}")
    assert follow_up != address
    ends_as("succeeded")(dba.acting.page)
    assert target.data_dir.stat().st_ino == before
    dba.see(dba.to(follow_up), ends_as("succeeded"))

    auditor = SixWindows(visit, VIEWER, VIEWER_PASSWORD)
    auditor.see(search_audit_log, found_both)
    auditor.see(open_what_was_found, lambda page: expect(page.get_by_role("heading", level=1)).to_contain_text(TARGET))


def search_audit_log(visitor: Visitor) -> None:
    menu(visitor, "Audit log")
    visitor.page.get_by_label("Actor").fill(OPERATOR.upper())
    visitor.page.get_by_label("Subject").fill(TARGET)
    visitor.page.get_by_role("button", name="Filter").click()


def found(page: Page, text: str) -> Locator:
    return page.locator("tbody tr").filter(has_text=text)


def found_both(page: Page) -> None:
    expect(found(page, REASON_TO_GO_BACK)).to_have_count(1)
    expect(found(page, REASON).first).to_contain_text(OPERATOR)


def open_what_was_found(visitor: Visitor) -> None:
    search_audit_log(visitor)
    found(visitor.page, REASON_TO_GO_BACK).get_by_role("link").first.click()


def test_manager_reads_a_week(stack: Stack, visit: Open, windows: Windows) -> None:
    manager = SixWindows(visit, VIEWER, VIEWER_PASSWORD)

    def choose_a_week(visitor: Visitor) -> None:
        menu(visitor, "Availability")
        visitor.page.get_by_label("Period").select_option("7")
        visitor.page.get_by_role("button", name="Filter").click()

    def open_what_is_unknown(visitor: Visitor) -> None:
        # the lab was first probed minutes ago: before that everything is unknown
        choose_a_week(visitor)
        link = "main a[href^='/availability/test/'][href*='days=7'][href*='not_observed']"
        visitor.page.locator(link).click()
        expect(visitor.page.locator("#intervals-title")).to_have_text("Not observed: intervals")

    def open_tab(name: str) -> Walk:
        def walk(visitor: Visitor) -> None:
            menu(visitor, "Backups")
            visitor.page.get_by_role("link", name=name, exact=True).click()

        return walk

    for walk, heading in (
        (choose_a_week, "Availability"),
        (open_what_is_unknown, "Availability of test"),
        (open_tab("Trends"), "Backup trends"),
        (open_tab("Calendar"), "Calendar"),
    ):
        manager.see(walk, lambda page, text=heading: expect(page.get_by_role("heading", level=1)).to_have_text(text))
