"""Schedules in the browser: made by typing, changed, switched off; and for those who may only look."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.stack import Stack

from .chromium import Visitor
from .windows import SOURCE, Windows

pytestmark = [pytest.mark.services, pytest.mark.browser]
NAME = "typed"


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def type_into(page: Page, label: str, text: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def in_some_hours(hours: int) -> datetime:
    """A time of the day that is not reached while the test runs."""
    return (datetime.now(UTC) + timedelta(hours=hours)).replace(second=0, microsecond=0)


def described_by(field: Locator) -> str:
    """What a screen reader reads after the field's name."""
    return str(
        field.evaluate(
            "field => (field.getAttribute('aria-describedby') || '').split(' ')"
            ".map(id => document.getElementById(id)?.textContent ?? '').join(' ')"
        )
    )


def test_schedule_form_shows_a_bad_expression_and_keeps_input(olga: Visitor, stack: Stack) -> None:
    page = olga.open("/schedules/")
    page.locator("a[href='/schedules/add/']").click()
    type_into(page, "Name", NAME)
    page.get_by_label("Instance", exact=True).select_option(SOURCE)
    type_into(page, "Cron expression", "61 2 * * *")
    # While it is being typed already:
    expect(page.locator("#due")).to_contain_text("Bad minute")
    typed = {"Expected duration (minutes)": "90", "Directory": "/var/tmp/typed", "Maximum number of backups": "3"}
    for label, text in typed.items():
        type_into(page, label, text)
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("alert")).to_be_visible()
    cron = page.get_by_label("Cron expression", exact=True)
    expect(cron).to_have_attribute("aria-invalid", "true")
    assert "'61 2 * * *'" in described_by(cron)
    assert page.locator("[aria-invalid=true]").count() == 1, "what is right is not called wrong"
    for label, text in {**typed, "Name": NAME, "Cron expression": "61 2 * * *", "Instance": SOURCE}.items():
        expect(page.get_by_label(label, exact=True)).to_have_value(text)
    assert stack.rows("SELECT 1 FROM dbops_backupschedule WHERE name = ?", NAME) == []
    olga.forgive("422")


def test_schedule_is_added_changed_and_switched_off(olga: Visitor, windows: Windows) -> None:
    page, first, second = olga.open("/schedules/"), in_some_hours(5), in_some_hours(9)
    page.locator("a[href='/schedules/add/']").click()
    type_into(page, "Name", NAME)
    page.get_by_label("Instance", exact=True).select_option(SOURCE)
    page.get_by_label("Started by", exact=True).select_option("external")
    type_into(page, "Cron expression", f"{first.minute} {first.hour} * * *")
    expect(page.locator("#due")).to_contain_text(f"{first:%a %d %b %H:%M} UTC")
    type_into(page, "Expected duration (minutes)", "30")
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("status")).to_contain_text(NAME)
    expect(row(page, NAME)).to_contain_text(f"{first:%a %d %b %H:%M}")
    expect(row(page, NAME)).to_contain_text("30 min")
    assert planned_at(olga, first)

    row_link = row(olga.open("/schedules/"), NAME).get_by_role("link", name=NAME, exact=True)
    row_link.click()
    type_into(page, "Cron expression", f"{second.minute} {second.hour} * * *")
    page.get_by_role("button", name="Save").click()
    expect(row(page, NAME)).to_contain_text(f"{second:%a %d %b %H:%M}")
    assert planned_at(olga, second)
    assert not planned_at(olga, first)

    row(olga.open("/schedules/"), NAME).get_by_role("button", name="Switch off").click()
    expect(page.get_by_role("status")).to_contain_text(NAME)
    expect(row(page, NAME).get_by_role("button", name="Switch on")).to_be_visible()
    assert not planned_at(olga, second)
    assert planned_at(olga, windows.due, name="nightly"), "others are still planned"

    row(olga.open("/schedules/"), NAME).get_by_role("link", name=NAME, exact=True).click()
    page.get_by_role("link", name="Remove").click()
    page.get_by_role("button", name=f"Remove {NAME}").click()
    expect(page.get_by_role("status")).to_contain_text(NAME)
    expect(row(page, NAME)).to_have_count(0)


def planned_at(visitor: Visitor, due: datetime, name: str = NAME) -> bool:
    """Whether the calendar has this due time, in its drawing and in its list."""
    page = visitor.open("/clusters/test/calendar/")
    page.get_by_text("List view").click()
    listed = page.get_by_role("row").filter(has_text=f"{due:%a %d %b %H:%M}").filter(has_text=name)
    drawn = page.get_by_role("img", name=re.compile(rf"\b{name}: [A-Za-z ]*{due:%H:%M}[^;]*, planned"))
    assert (listed.count() > 0) == (drawn.count() > 0), "drawing and list say different things"
    return listed.count() > 0


def test_viewer_sees_schedules_and_changes_none(victor: Visitor, windows: Windows) -> None:
    page = victor.open("/schedules/")
    expect(row(page, "nightly")).to_contain_text(f"{windows.due:%a %d %b %H:%M}")
    assert page.get_by_role("main").get_by_role("button").all_inner_texts() == ["Filter"]
    expect(page.locator("main a[href^='/schedules/']:not([href='/schedules/']), main form[method=post]")).to_have_count(
        0
    )
    for address in ("/schedules/add/", "/schedules/nightly/edit/", "/schedules/nightly/remove/"):
        assert victor.page.goto(victor.url + address).status == 403
    victor.forgive("403")
    for address in ("/clusters/test/", "/clusters/test/calendar/", "/"):
        page = victor.open(address)
        expect(page.locator("a[href='/schedules/add/']")).to_have_count(0)
        # the filters that a person begins with are their own
        expect(page.locator("main form[method=post]:not(#default-view)")).to_have_count(0)
