"""The words by which tests find things on the pages."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page, expect

from tests.slow_process import Brake, braked
from tests.stack import Stack

from .chromium import Visitor

TARGET = "replica-1"
#: Of the time that a copy may run; on a busy machine it is more.
LITTLE = 0.01
REASON = "Disk replaced, ticket OPS-4711"
#: Of a telephone and of a notebook, with heights.
WIDTHS = {360: 780, 1280: 800}
#: The width that the page needs, the window's without its scroll bar, and the innermost elements and texts that stick out of the window.
STICKS_OUT = """() => {
  const {scrollWidth, clientWidth} = document.documentElement, found = [];
  const range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (scrollWidth > clientWidth && found.length < 5 && walker.nextNode()) {
    const node = walker.currentNode, element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    if (node === element ? element.firstElementChild : !node.data.trim()) continue;
    range.selectNode(node);
    if (range.getBoundingClientRect().right + scrollX > clientWidth + 1)
      found.push(`${element.tagName.toLowerCase()}.${element.getAttribute("class")}: ${element.textContent.trim().slice(0, 40)}`);
  }
  return [scrollWidth, clientWidth, [...new Set(found)]];
}"""

#: What a box cuts or scrolls sideways, beside what does so on purpose.
CUT_OFF = """() => [...document.querySelectorAll("main .card, main .card *")].filter(element => {
  const {overflowX, position} = getComputedStyle(element);
  return overflowX !== "visible" && position !== "absolute" && element.clientWidth > 1
    && element.scrollWidth > element.clientWidth + 1 && !element.matches(".status-cause, .table-scroll, .log *, pre");
}).map(element => `${element.tagName.toLowerCase()}.${element.className}: ${element.textContent.trim().slice(0, 40)}`)"""

#: Lists whose longest choice has no room, by the width of its text.
CUT_CHOICES = """() => [...document.querySelectorAll("main select")].filter(list => list.checkVisibility()).filter(list => {
  const {font, paddingLeft, paddingRight} = getComputedStyle(list), pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const longest = Math.max(...[...list.options].map(choice => pen.measureText(choice.text).width));
  return longest > list.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) + 1;
}).map(list => `select ${list.name}`)"""


def too_wide(page: Page) -> list[str]:
    """Return each width of the window at which the page is wider, with what sticks out."""
    found = []
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        needed, room, what = page.evaluate(STICKS_OUT)
        if needed > room:
            found.append(f"needs {needed} of {room} pixels: {what}")
    return found


def cut_off(page: Page, width: int) -> list[str]:
    """Return what a window of this width cuts off."""
    page.set_viewport_size({"width": width, "height": 800})
    found: list[str] = page.evaluate(CUT_OFF) + page.evaluate(CUT_CHOICES)
    return found


def figure(page: Page, name: str) -> Locator:
    """Return one number of the step that runs, at the top of a rebuild's page."""
    return page.locator(".current-step-figures > div", has=page.get_by_text(name, exact=True)).locator("dd")


def status(page: Page) -> Locator:
    return page.locator(".status-strip .state").first


def wait_for_stream(page: Page) -> None:
    """Wait until the copy runs; fail with the outcome of a rebuild that ends instead."""
    title, outcome = page.locator(".current-step-title", has_text="Stream the backup"), page.locator(".outcome")
    expect(title.or_(outcome)).to_be_visible(timeout=60_000)
    if outcome.count():
        raise AssertionError(f"it ended before the stream:\n{page.locator('#stream').inner_text()}")


def log_texts(page: Page) -> list[str]:
    # What is scrolled out of sight is not laid out, and so has no inner text.
    return page.locator("#log-lines .log-text").all_text_contents()


def step_states(page: Page) -> list[tuple[str, str]]:
    return list(
        zip(
            page.locator(".steps-list .step-title").all_inner_texts(),
            page.locator(".steps-list .step-head .state").all_inner_texts(),
            strict=True,
        )
    )


def open_plan(visitor: Visitor) -> Page:
    """Go from the fleet to the plan of the broken replica by the links on the pages."""
    page = visitor.open("/")
    page.locator("#cluster-test").click()
    page.locator(f"#plan-{TARGET}").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Rebuild {TARGET}")
    return page


def confirm(page: Page, typed: str = TARGET) -> None:
    page.locator("#typed-name").fill(typed)
    page.locator("#reason").fill(REASON)
    page.get_by_role("button", name=f"Wipe {TARGET}").click()


def let_some_through(page: Page, brake: Brake) -> None:
    """Of a copy that is held, let so much through that the page tells how much, and hold it again."""
    copied = figure(page, "Copied")
    before = copied.inner_text() if copied.is_visible() else ""
    brake.share = LITTLE
    expect(copied).to_be_visible()
    expect(copied).not_to_have_text(before, use_inner_text=True)
    brake.share = 0


@contextmanager
def slow_rebuild(stack: Stack, visitor: Visitor, share: float = 0.02) -> Iterator[Brake]:
    """Break the replica, confirm its plan in the browser, and be on the page of a rebuild whose stream is slow."""
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_possible_plan(TARGET)
    with braked(stack.lab.host(TARGET), share) as brake:
        confirm(open_plan(visitor))
        visitor.page.wait_for_url("**/rebuilds/*/")
        yield brake
