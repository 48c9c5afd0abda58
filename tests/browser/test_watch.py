"""From the fleet to the end of a rebuild, watched live by two people, on servers that are really rebuilt."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.stack import VIEWER, VIEWER_PASSWORD, Stack, wait_for

from .chromium import Visitor
from .conftest import Open
from .pages import (
    REASON,
    TARGET,
    confirm,
    figure,
    log_texts,
    open_plan,
    slow_rebuild,
    status,
    step_states,
    wait_for_stream,
)

pytestmark = [pytest.mark.services, pytest.mark.browser]


def rebuilds(stack: Stack) -> int:
    return int(stack.rows("SELECT count(*) AS n FROM dbops_rebuild")[0]["n"])


def test_plan_shows_destruction_and_refuses_a_wrong_name(stack: Stack, olga: Visitor) -> None:
    before = rebuilds(stack)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_possible_plan(TARGET)
    page = open_plan(olga)
    destroys = page.locator(".destroy-card")
    expect(destroys).to_contain_text(str(stack.lab.host(TARGET).data_dir))
    expect(page.locator("[data-finding='target.read_only']").first).to_be_attached()
    page.locator("#fold-steps > summary").click()
    stream = page.locator(".plan-steps > li", has_text="Stream the backup")
    stream.locator("summary").click()
    expect(stream.locator("pre").first).to_contain_text("--stream=xbstream")
    expect(stream.locator("pre").last).to_contain_text(str(stack.lab.host(TARGET).data_dir))

    confirm(page, typed="backup-1")
    expect(page.locator(".error-card")).to_contain_text("backup-1")
    expect(page.locator(".error-card")).to_contain_text(TARGET)
    expect(page.locator("#reason")).to_have_value(REASON)
    assert rebuilds(stack) == before
    olga.forgive("409")


def test_viewer_reads_the_plan_and_cannot_confirm(stack: Stack, victor: Visitor) -> None:
    before = rebuilds(stack)
    page = victor.open(f"/instances/{TARGET}/rebuild/")
    expect(page.locator("#blocking-reasons")).to_contain_text("operator")
    button = page.get_by_role("button", name=f"Wipe {TARGET}")
    expect(button).to_be_disabled()
    # What the page forbids, the server forbids as well.
    page.locator("fieldset").evaluate("fieldset => { fieldset.disabled = false; }")
    confirm(page)
    expect(page.locator(".error-card")).to_be_visible()
    assert rebuilds(stack) == before
    victor.forgive("40[39]")


def see_it_run(page: Page) -> None:
    """The numbers of the stream are at the top, they move, and the log grows."""
    wait_for_stream(page)
    expect(status(page)).to_have_text("running")
    expect(figure(page, "Done")).to_have_text(re.compile(r"^\d+\.\d %$"), use_inner_text=True)
    expect(figure(page, "Now")).to_have_text(re.compile(r"^\d+(\.\d)? MiB/s$"), use_inner_text=True)
    expect(figure(page, "Time left")).to_have_text(re.compile(r"^\d+(\.\d)? (s|min)"), use_inner_text=True)
    for name in ("Done", "Now", "Time left", "Copied"):
        # none while its part is being replaced
        box = wait_for(f"{name} to be seen", figure(page, name).bounding_box)
        assert box["y"] + box["height"] < 800, f"{name} is seen only after scrolling"
    copied = figure(page, "Copied").inner_text()
    assert re.fullmatch(r"\S+ [KM]iB of \S+ MiB", copied)
    expect(figure(page, "Copied")).not_to_have_text(copied, use_inner_text=True)
    wait_for("the source's own lines", lambda: any("BACKUP STAGE START" in text for text in log_texts(page)), 60)


def same(one: Page, other: Page) -> bool:
    """Whether two pages show the same moment; the stream is paused for it."""
    return all(
        look(one) == look(other)
        for look in (
            log_texts,
            step_states,
            lambda page: [figure(page, name).inner_text() for name in ("Copied", "Done")],
        )
    )


def test_rebuild_is_followed_live_without_a_reload(stack: Stack, olga: Visitor, visit: Open) -> None:
    page = olga.page
    # Whatever the page learns, it learns from its event stream: a poll is answered without content.
    olga.context.route("**/poll/**", lambda route: route.fulfill(status=204))
    with slow_rebuild(stack, olga, share=0.005) as brake:
        page.evaluate("window.isSameDocument = true")
        documents = olga.documents()
        expect(page.locator("#live-state")).to_have_text("Live")
        see_it_run(page)

        # A busy machine takes its time for one more window: the small copy must not end before.
        share, brake.share = brake.share, 0
        victor = visit(VIEWER, VIEWER_PASSWORD)
        victor.open(page.url.removeprefix(stack.url))
        brake.share = share
        see_it_run(victor.page)
        expect(victor.page.locator("#actions [data-denied=operate]")).to_be_visible()
        expect(victor.page.locator("#cancel-link")).to_have_count(0)
        expect(page.locator("#cancel-link")).to_be_visible()

        brake.share = 0
        wait_for("both pages to show the same", lambda: same(page, victor.page))
        victor.page.reload()
        wait_for("the reloaded page to show the same", lambda: same(page, victor.page))
        brake.release()

        for each in (page, victor.page):
            expect(status(each)).to_have_text("succeeded", timeout=90_000)
            expect(each.locator(".outcome")).to_contain_text(f"{TARGET} serves")
            assert {state for _, state in step_states(each)} == {"done"}
            expect(each.locator("#log-lines li").last).to_contain_text("The rebuild has succeeded")
            expect(each.locator("#cancel-link")).to_have_count(0)
            expect(each).to_have_title(re.compile("^succeeded"))
    assert page.evaluate("window.isSameDocument")
    assert olga.documents() == documents
    assert [request.resource_type for request in olga.requested("/events/")] == ["eventsource"]
    # What was followed live is what is found afterwards.
    seen = log_texts(page), step_states(page)
    page.reload()
    assert (log_texts(page), step_states(page)) == seen
