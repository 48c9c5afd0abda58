"""A log of a hundred thousand lines in the browser: followed, searched, linked to, wrapped, scrolled."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.long_log import LINES, dashboard_with_log, write_lines
from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack, wait_for

from .chromium import Visitor, visitor

pytestmark = [pytest.mark.services, pytest.mark.browser]
MOST_LINES = 2000
BELOW = "log => log.scrollHeight - log.scrollTop - log.clientHeight"
# Scroll by a few lines in each frame, and give the milliseconds between frames.
FRAMES = """([count, pixels]) => new Promise((done) => {
  const log = document.getElementById("log"), times = [];
  let before = performance.now();
  const frame = (now) => {
    times.push(now - before); before = now;
    log.dispatchEvent(new WheelEvent("wheel", {deltaY: -pixels})); log.scrollTop -= pixels;
    if (times.length < count) requestAnimationFrame(frame); else done(times.slice(2));
  };
  requestAnimationFrame(frame);
})"""


@pytest.fixture(scope="module")
def logged() -> Iterator[tuple[Stack, str]]:
    with dashboard_with_log() as running:
        yield running


@pytest.fixture
def reader(logged: tuple[Stack, str], browser: Browser) -> Iterator[Visitor]:
    found = visitor(browser, logged[0].url)
    found.log_in(OPERATOR, OPERATOR_PASSWORD)
    yield found
    found.context.close()
    assert found.faults == []


def shown(page: Page) -> list[int]:
    keys: list[int] = page.evaluate(
        "[...document.querySelectorAll('#log-lines > li')].map((li) => Number(li.id.slice(6)))"
    )
    return keys


def is_seen(page: Page, key: int) -> bool:
    """Whether a line is inside the log's own frame."""
    seen: bool = page.evaluate(
        """(key) => {
          const box = document.getElementById("log").getBoundingClientRect();
          const line = document.getElementById(`event-${key}`)?.getBoundingClientRect();
          return Boolean(line) && line.bottom > box.top && line.top < box.bottom;
        }""",
        key,
    )
    return seen


def newest(stack: Stack) -> int:
    return int(stack.rows("SELECT max(id) AS newest FROM dbops_rebuildevent")[0]["newest"])


def scroll_up(page: Page, pixels: int = 400) -> None:
    page.locator("#log").hover()
    page.mouse.wheel(0, -pixels)


def test_log_stops_following_when_scrolled_up(logged: tuple[Stack, str], reader: Visitor) -> None:
    stack, path = logged
    page = reader.open(path)
    follow, pause = page.locator("#log-follow"), page.locator("#log-pause")
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(follow).to_have_attribute("aria-pressed", "true")
    write_lines(stack, "followed")
    expect(page.locator("#log-lines li").last).to_contain_text("followed")
    expect(page.locator("#log-lines li").last).to_have_id(f"event-{newest(stack)}")
    assert is_seen(page, newest(stack))
    wait_for("the end of the log", lambda: page.locator("#log").evaluate(BELOW) < 1)

    scroll_up(page)
    expect(follow).to_have_attribute("aria-pressed", "false")
    place = page.locator("#log").evaluate("log => log.scrollTop")
    write_lines(stack, "not followed")
    expect(follow).to_have_attribute("data-waiting", "1 new")
    assert abs(page.locator("#log").evaluate("log => log.scrollTop") - place) < 2
    assert not is_seen(page, newest(stack))
    follow.click()
    assert is_seen(page, newest(stack))

    pause.click()
    write_lines(stack, "while paused")
    expect(follow).to_have_attribute("data-waiting", "1 new")
    expect(page.locator("#log-lines li").last).to_contain_text("not followed")
    pause.click()
    expect(page.locator("#log-lines li").last).to_contain_text("while paused")
    keys = shown(page)
    assert keys == sorted(set(keys))
    assert page.locator("#log [aria-live], #log[aria-live], #log[role=log]").count() == 0


def test_log_search_finds_unloaded_lines(logged: tuple[Stack, str], reader: Visitor) -> None:
    page = reader.open(logged[1])
    find, found = page.locator("#log-search"), page.locator("#log-match-count")
    page.locator("#log").press("/")
    page.keyboard.type("ORDERS#P#P42.")
    count = len([number for number in range(1, LINES + 1) if number % 97 == 42 and number != 77777])
    expect(found).to_have_text(f"{count:,} of {count:,}")
    last = max(number for number in range(1, LINES + 1) if number % 97 == 42)
    expect(page.locator("#log-lines .is-current")).to_have_id(f"event-{last}")
    assert page.evaluate("CSS.highlights.get('log-current').size") == 1
    assert page.evaluate("CSS.highlights.get('log-match').size") > 1
    find.press("Enter")
    expect(found).to_have_text(f"1 of {count:,}")
    expect(page.locator("#log-lines .is-current")).to_have_id("event-42")
    wait_for("line 42 in the log's frame", lambda: is_seen(page, 42))
    find.press("Enter")
    expect(page.locator("#log-lines .is-current")).to_have_id("event-139")
    find.press("Shift+Enter")
    expect(page.locator("#log-lines .is-current")).to_have_id("event-42")
    find.press("Escape")
    expect(found).to_have_text("")
    expect(page.locator("#log")).to_be_focused()
    assert page.evaluate("CSS.highlights.get('log-match').size") == 0
    find.fill("is nowhere in it")
    expect(found).to_have_text("No match")


def test_log_link_opens_an_old_line(logged: tuple[Stack, str], reader: Visitor) -> None:
    page = reader.open(f"{logged[1]}#event-77777")
    line = page.locator("#event-77777")
    expect(line).to_have_class(re.compile("is-target"))
    page.wait_for_timeout(200)
    assert is_seen(page, 77777)
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "false")
    # What the host wrote is text here, and no element.
    expect(line.locator(".log-words")).to_have_text("<img src=x onerror=alert(1)> needle \ufffd&amp;")
    assert line.locator("img").count() == 0
    page.locator("#event-77770 .log-time").click()
    expect(page.locator("#event-77770")).to_have_class(re.compile("is-target"))
    page.evaluate("location.hash = '#event-999999999'")
    expect(page.locator("#log-note")).to_have_text("This log has no line 999999999.")
    page.locator("#log-level").select_option("error")
    expect(page.locator("#log-lines > li")).to_have_count(0)
    page.evaluate("location.hash = '#event-5'")
    expect(page.locator("#event-5")).to_have_class(re.compile("is-target"))
    expect(page.locator("#log-level")).to_have_value("")
    reader.forgive("404")


def test_log_link_works_on_a_phone(logged: tuple[Stack, str], reader: Visitor) -> None:
    reader.page.set_viewport_size({"width": 360, "height": 780})
    page = reader.open(f"{logged[1]}#event-55555")
    wait_for("line 55555 in the log's frame", lambda: is_seen(page, 55555))
    page.locator("#log-search").fill("[055790]")
    expect(page.locator("#log-match-count")).to_have_text("1 of 1")
    wait_for("line 55790 in the log's frame", lambda: is_seen(page, 55790), 30)
    page.wait_for_timeout(500)
    assert is_seen(page, 55790)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_log_filters_search_the_whole_log(logged: tuple[Stack, str], reader: Visitor) -> None:
    stack, path = logged
    page = reader.open(path)
    page.locator("#log-level").select_option("warning")
    expect(page.locator("#log-lines > li")).to_have_count(LINES // 10_000)
    write_lines(stack, "no warning")
    write_lines(stack, "one more warning", level="warning")
    expect(page.locator("#log-lines > li")).to_have_count(LINES // 10_000 + 1)
    expect(page.locator("#log-lines > li").last).to_contain_text("warning: one more warning")
    page.locator("#log-level").select_option("")
    page.locator("#log-host").select_option("host-replica-1")
    expect(page.locator("#log-lines > li").first).to_have_attribute("data-host", "host-replica-1")
    assert set(shown(page)) <= {*range(0, LINES + 1, 1000), *range(LINES + 1, newest(stack) + 1)}
    page.locator("#log-host").select_option("")
    stack.write("DELETE FROM dbops_rebuildevent WHERE level = 'warning' AND id > ?", LINES)


def test_log_remembers_wrapping(logged: tuple[Stack, str], reader: Visitor) -> None:
    page = reader.open(f"{logged[1]}#event-77800")
    wide = "document.getElementById('log').scrollWidth > document.getElementById('log').clientWidth"
    expect(page.locator("#event-77800")).to_have_class(re.compile("is-target"))
    assert not page.evaluate(wide)
    page.locator("#log-wrap").click()
    wait_for("a line wider than the log", lambda: page.evaluate(wide))
    page.reload()
    expect(page.locator("#log-wrap")).to_have_attribute("aria-pressed", "false")
    wait_for("a line wider than the log", lambda: page.evaluate(wide))
    page.locator("#log-wrap").click()
    wait_for("lines that wrap", lambda: not page.evaluate(wide))


def test_log_scrolls_a_hundred_thousand_lines_without_gaps(logged: tuple[Stack, str], reader: Visitor) -> None:
    page = reader.open(logged[1])
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "true")
    scroll_up(page)
    before = shown(page)[0]
    # Printed and not asserted: a frame's time tells as much of the machine as of the page.
    for pixels in (0, 120, 300):
        times: list[float] = sorted(page.evaluate(FRAMES, [300, pixels]))
        median, late = times[len(times) // 2], times[int(len(times) * 0.95)]
        print(f"{pixels} pixels a frame: median {median:.1f} ms, p95 {late:.1f} ms, longest {times[-1]:.1f} ms")
    keys = shown(page)
    assert keys[0] <= before - 2000
    assert keys == list(range(keys[0], keys[-1] + 1))
    assert len(keys) <= MOST_LINES
    page.locator("#log").press("Home")
    expect(page.locator("#log-lines > li").first).to_have_id("event-1")
    expect(page.locator("#log-older")).to_be_hidden()
    page.locator("#log").press("End")
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "true")
    wait_for("the newest line", lambda: shown(page)[-1] >= LINES)


def test_log_is_paged_without_javascript(logged: tuple[Stack, str], browser: Browser) -> None:
    plain = visitor(browser, logged[0].url, java_script_enabled=False)
    plain.log_in(OPERATOR, OPERATOR_PASSWORD)
    page = plain.open(logged[1])
    expect(page.locator("#log-follow")).to_be_hidden()
    page.get_by_role("link", name="Older lines").click()
    page.wait_for_load_state()
    last = str(page.locator(".log-lines > li").last.get_attribute("id"))
    page.get_by_role("link", name="Older lines").first.click()
    page.wait_for_load_state()
    expect(page.locator(".log-lines > li").last).not_to_have_id(last)
    page.get_by_role("link", name="Newer lines").first.click()
    expect(page.locator(".log-lines > li").last).to_have_id(last)
    page.get_by_label("Search the log").fill("needle")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".log-lines > li")).to_have_count(1)
    page.locator(".log-time").click()
    expect(page.locator("#event-77777")).to_be_visible()
    plain.context.close()
    assert plain.faults == []
