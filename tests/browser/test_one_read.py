"""Two replicas rebuilt from one read of the source, by clicks: for eyes, for screen readers, on a telephone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack, running_stack, wait_for

from .axe import objections
from .chromium import Visitor, visitor
from .pages import REASON
from .validity import mistakes

pytestmark = [pytest.mark.services, pytest.mark.browser]
TARGETS = ("replica-1", "replica-2")
SEVERAL = "/clusters/test/rebuild-group/"


@pytest.fixture(scope="module")
def two() -> Iterator[Stack]:
    with running_stack(replicas=2, size="96M") as running:
        for name in TARGETS:
            running.wait_for_possible_plan(name)
        yield running


@pytest.fixture
def people(two: Stack, browser: Browser) -> Iterator[dict[str, Visitor]]:
    """One operator at a desk in the dark, and with a telephone."""
    opened = {}
    for name, width, scheme in (("desk", 1280, "dark"), ("telephone", 360, "light")):
        opened[name] = visitor(
            browser, two.url, color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        opened[name].log_in(OPERATOR, OPERATOR_PASSWORD)
    yield opened
    faults = [fault for found in opened.values() for fault in found.faults]
    for found in opened.values():
        found.context.close()
    assert faults == []


def look(people: dict[str, Visitor], address: str, shown: str, folder: Path) -> None:
    """The page fits its window, axe objects to nothing, and its HTML is valid."""
    for name, who in people.items():
        page = who.open(address)
        expect(page.locator(shown).first).to_be_visible()
        widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1], (name, address)
        assert objections(page) == [], (name, address)
    (folder / "page.html").write_text(page.content(), encoding="utf-8")
    assert mistakes(folder) == []


def wait_for_the_end(stack: Stack) -> list[str]:
    def states() -> list[str]:
        return [row["status"] for row in stack.rows("SELECT status FROM dbops_rebuild ORDER BY id DESC LIMIT 2")]

    wait_for("both have ended", lambda: {"queued", "running", "lost"}.isdisjoint(states()), 180)
    return states()


def test_group_is_chosen_confirmed_and_rebuilt(two: Stack, people: dict[str, Visitor], tmp_path: Path) -> None:
    asked = f"{SEVERAL}?source=backup-1&target=replica-1&target=replica-2"
    look(people, SEVERAL, ".group-form", tmp_path)
    look(people, asked, "#confirm", tmp_path)
    page: Page = people["desk"].open("/clusters/test/")
    page.locator("#group-link").click()
    for name in TARGETS:
        page.get_by_label(name).check()
    page.locator(".group-form button[type=submit]").click()
    for name in TARGETS:
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        page.locator(f"#typed-{name}").fill(name)
    page.locator("#reason").fill(REASON)
    page.locator("#confirm button[type=submit]").click()
    expect(page.locator("#shared-read")).to_contain_text("of replica-2")
    assert wait_for_the_end(two) == ["succeeded", "succeeded"]
    [told] = two.rows(
        "SELECT count(*) AS n FROM dbops_rebuildevent WHERE text LIKE 'Shared read of backup-1 for this rebuild and%'"
    )
    assert told["n"] == 1


def test_waiting_rebuild_joins_and_leaves(two: Stack, people: dict[str, Visitor], tmp_path: Path) -> None:
    for name in TARGETS:
        two.wait_for_possible_plan(name)
    later = f"at:{datetime.now(UTC) + timedelta(hours=2):%Y%m%dT%H%M00Z}"
    for name in TARGETS:
        two.manage("rebuild", name, "--reason", REASON, "--start", later)
    first, second = (row["id"] for row in two.rows("SELECT id FROM dbops_rebuild WHERE status = 'queued' ORDER BY id"))
    try:
        look(people, f"/rebuilds/{second}/group/", f"[name=leader][value='{first}']", tmp_path)
        page = people["desk"].open(f"/rebuilds/{second}/")
        page.locator("#shared-read-link").click()
        page.locator(f"[name=leader][value='{first}']").click()
        page.wait_for_url(f"**/rebuilds/{second}/")
        expect(page.locator("#shared-read")).to_contain_text(f"rebuild {first}")
        look(people, f"/rebuilds/{first}/group/", "#shared-read", tmp_path)
        look(people, f"/rebuilds/{first}/", "#shared-read", tmp_path)
        look(people, f"/rebuilds/{first}/rate-limit/", ".rate-form", tmp_path)
        page = people["desk"].open(f"/rebuilds/{first}/rate-limit/")
        number, slider = page.locator("#mib"), page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("Home")
        least = float(number.get_attribute("min") or 0)
        expect(number).to_have_value(f"{max(least, round(least, 1)):g}")
        page.keyboard.press("End")
        expect(number).to_have_value(f"{float(slider.get_attribute('max') or 0):g}")
        number.fill("20")
        expect(slider).to_have_value("20")
        page.locator(".rate-form button[type=submit]").click()
        page.wait_for_url(f"**/rebuilds/{first}/")
        look(people, f"/rebuilds/{first}/rate-limit/", "[name=full]", tmp_path)
        look(people, f"/rebuilds/{second}/group/", "[name=leave]", tmp_path)
        page = people["desk"].open(f"/rebuilds/{second}/group/")
        page.locator("[name=leave]").click()
        page.wait_for_url(f"**/rebuilds/{second}/")
    finally:
        for name in TARGETS:
            two.manage("rebuild", name, "--cancel")
