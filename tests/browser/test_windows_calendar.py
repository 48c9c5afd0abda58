"""The fleet's strips, a cluster's day and its seven days: what is drawn can be seen, heard, reached and read on any screen."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack

from .chromium import Visitor
from .conftest import Open
from .windows import COPIES, NIGHTLY, Windows

pytestmark = [pytest.mark.services, pytest.mark.browser]
STRIPS = "/"
DAY = "/clusters/test/"
WEEK = "/clusters/test/calendar/"
PLAN = "/instances/replica-1/rebuild/"
ALL_CLUSTERS = "/calendar/"
HISTORY = "/backups/history/"
PAGES = (
    *(STRIPS, DAY, WEEK, PLAN, "/queue/", "/schedules/", "/schedules/add/", "/schedules/nightly/edit/"),
    *(ALL_CLUSTERS, "/calendar/?span=week", HISTORY, "/backups/", "/availability/"),
)
WIDTHS = (360, 1280, 1920)


def shapes(page: Page, css: str, title: str) -> Locator:
    """Return what is drawn with a class and with these words at the pointer."""
    drawn = page.locator("svg.timeline-chart rect", has_text=re.compile(title)).and_(page.locator(css))
    return drawn.or_(page.locator("svg.timeline-chart > svg", has_text=re.compile(title)).locator(css))


def heard(page: Page) -> str:
    """What a screen reader says of the page's drawings; their shapes are no elements for it."""
    return "\n".join(page.get_by_role("main").get_by_role("img").evaluate_all("all => all.map(one => one.ariaLabel)"))


@pytest.fixture(scope="module")
def ran_lately(stack: Stack, windows: Windows) -> None:
    """Make the backup the last run: the text names only the last few, and other tests leave their rebuilds."""
    stack.manage("backup", COPIES, "--watch")


@pytest.mark.usefixtures("ran_lately")
@pytest.mark.parametrize("address", [STRIPS, DAY, WEEK])
def test_timeline_separates_states_without_color(victor: Visitor, windows: Windows, address: str) -> None:
    page = victor.open(address)
    ran = rf"\({COPIES}\): [^;\n]*, succeeded"
    planned = rf"{NIGHTLY}: [^;\n]*, planned"
    expect(shapes(page, ".bar-backup", ran).first).to_be_visible()
    expect(shapes(page, ".bar-window", planned).first).to_be_visible()
    blocked = shapes(page, ".band-blocked", NIGHTLY).first
    expect(blocked).to_be_visible()
    # a window over midnight is two shapes in a week
    boxes = [shape.bounding_box() for shape in shapes(page, ".band-blocked", NIGHTLY).all()]
    assert max(box["width"] for box in boxes if box) > 10, "two hours are seen"
    told = heard(page)
    for words in (ran, planned, rf"blocked [^;\n]*{NIGHTLY}"):
        assert re.search(words, told), f"{words} is missing:\n{told}"
    # Hatched, and the pattern is there: a fill that leads nowhere draws nothing.
    assert "#hatch" in blocked.evaluate("shape => getComputedStyle(shape).fill")
    expect(page.locator("pattern#hatch")).to_have_count(1)
    expect(page.get_by_role("list", name="Legend").get_by_text("blocked", exact=True)).to_be_visible()


def test_drawing_links_name_their_destination(victor: Visitor, windows: Windows) -> None:
    page = victor.open(STRIPS)
    page.get_by_role("link", name=re.compile("^Timeline of test: ")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Calendar of test")


# The innermost elements that reach over the window's right edge and that nothing around them scrolls or cuts off.
STICKS_OUT = """() => {
  const cuts = element => { for (let one = element; one && one.tagName !== "BODY"; one = one.parentElement)
    if (getComputedStyle(one).overflowX !== "visible" && one !== element) return true; return false; };
  const over = [...document.body.querySelectorAll("*")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 0.5 && !cuts(one));
  return over.filter(one => !over.some(other => other !== one && one.contains(other)))
    .map(one => `${one.tagName}.${one.className.baseVal ?? one.className} to ${one.getBoundingClientRect().right} ${one.textContent}`)
    .slice(0, 5).join(" | ");
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_the_window_width(visit: Open, windows: Windows, scheme: Any) -> None:
    olga = visit(OPERATOR, OPERATOR_PASSWORD, color_scheme=scheme)
    too_wide = []
    for address in PAGES:
        page = olga.open(address)
        expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        page.evaluate("document.querySelectorAll('main details').forEach(details => { details.open = true; })")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            needed = page.evaluate("document.documentElement.scrollWidth")
            if needed > page.evaluate("innerWidth"):
                too_wide.append(f"{address} needs {needed} pixels of {width}")
    assert too_wide == []


# What a person can do something with, in the order of the page. A chart's usual points are for the pointer: a table below has them all.
TO_REACH = """() => {
  const wanted = "[tabindex='0'], a[href]:not(.trend-point[tabindex]), button:enabled, summary, input:enabled:not([type=hidden]), "
    + "select:enabled, textarea:enabled";
  window.toReach = [...document.querySelectorAll(wanted)].filter((one) => one.checkVisibility());
  window.reached = new Set();
  return window.toReach.length;
}"""
# Returns what is wrong with the element that has the focus now; nothing at the end of the page.
LOOK = """() => {
  const one = document.activeElement;
  if (one === document.body) return null;
  window.reached.add(one);
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const name = one.outerHTML.slice(0, 90);
  // The button inside of a date draws its ring itself.
  if (["date", "datetime-local"].includes(one.type) && !one.matches(":focus-visible")) return "";
  if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return `no ring: ${name}`;
  if (style.outlineColor === "rgba(0, 0, 0, 0)") return `a ring of no colour: ${name}`;
  const seen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return seen && box.width && box.height ? "" : `out of sight: ${name}`;
}"""
MISSED = "() => window.toReach.filter((one) => !window.reached.has(one)).map((one) => one.outerHTML.slice(0, 90))"


def without_news(route: Route) -> None:
    """Answer polls without content: the test checks the page as it is."""
    if route.request.headers.get("hx-request"):
        route.fulfill(status=204)
    else:
        route.continue_()


def test_pages_are_usable_by_keyboard_with_a_focus_ring(visit: Open, windows: Windows) -> None:
    olga = visit(OPERATOR, OPERATOR_PASSWORD, reduced_motion="reduce")
    olga.context.route("**/*", without_news)
    wrong = []
    for address in PAGES:
        page = olga.open(address)
        page.locator("main details:not([open]) > summary").evaluate_all("all => all.forEach((one) => one.click())")
        many = page.evaluate(TO_REACH)
        assert many > 10
        for _ in range(many + 20):  # a date has several parts, and what scrolls is a stop too
            page.keyboard.press("Tab")
            problem = page.evaluate(LOOK)
            if problem is None:
                break
            if problem:
                wrong.append(f"{address}: {problem}")
        wrong += [f"{address}: not reached: {missed}" for missed in page.evaluate(MISSED)]
    assert wrong == []


def test_focus_survives_a_poll(olga: Visitor, windows: Windows) -> None:
    page = olga.open(DAY)
    for wanted in ("#tools-backup-1 > summary", "#instances a[href$='/lineage/']", "#plan-replica-1"):
        element = page.locator(wanted).first
        element.evaluate("element => { element.focus(); element.dataset.isOld = 1; }")
        expect(page.locator("[data-is-old]")).to_have_count(0)
        expect(element).to_be_focused()


def test_chart_point_links_to_its_run(victor: Visitor, windows: Windows) -> None:
    page = victor.open(HISTORY)
    chart = page.get_by_role("group", name=re.compile(rf"^Duration of {COPIES}: \d+ runs?, "))
    expect(chart).to_be_visible()
    # other tests may have let it run again: points seconds apart lie on each other
    point = chart.locator(f"a.trend-point[href$='/{windows.past_run}/']")
    point.focus()
    point.press("Enter")
    page.wait_for_url(f"**/backups/runs/{windows.past_run}/")
    page.go_back()
    page.get_by_label(re.compile("^Period")).select_option("365")
    page.get_by_label("Schedule, instance or cluster").fill(COPIES)
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/backups/history/?text=copies&days=365")
    expect(page.locator(".trend-card")).to_have_count(1)


def test_fleet_calendar_moves_from_day_to_day(victor: Visitor, windows: Windows) -> None:
    page = victor.open(ALL_CLUSTERS)
    shown = page.locator("#calendar-title")
    today = shown.inner_text()
    page.get_by_role("link", name="Next day").click()
    expect(shown).not_to_have_text(today)
    page.get_by_role("link", name="Today").click()
    expect(shown).to_have_text(today)
    page.get_by_label("Show").select_option("week")
    page.get_by_role("button", name="Show").click()
    expect(shown).to_contain_text(" to ")
    expect(shapes(page, ".bar-backup", rf"\({COPIES}\): ").first).to_be_visible()
    expect(shapes(page, ".bar-window", rf"{NIGHTLY}: [^;\n]*, planned").first).to_be_visible()
    page.get_by_role("link", name=re.compile("^test: ")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Calendar of test")


PAPER = {"width": 718, "height": 1000}  # A4 between margins, at 96 dots an inch


@pytest.mark.parametrize("address", [ALL_CLUSTERS, HISTORY, "/schedules/", "/backups/", "/audit/", DAY])
def test_pages_print_without_screen_controls(visit: Open, windows: Windows, address: str) -> None:
    page = visit(OPERATOR, OPERATOR_PASSWORD, color_scheme="dark", viewport=PAPER).open(address)
    page.emulate_media(media="print")
    for hidden in (page.locator(".topbar"), page.locator(".filters"), page.locator("main .btn")):
        for one in hidden.all():
            expect(one).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER["width"], "nothing is cut off"
    for row in page.locator("details tbody tr").all()[:1]:
        assert row.evaluate("row => row.checkVisibility({contentVisibilityAuto: true}) && row.offsetHeight > 0")
