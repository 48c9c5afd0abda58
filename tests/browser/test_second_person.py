"""What a second operator is asked, and the evidence of what came of it: for eyes, for screen readers, on a telephone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack

from .axe import objections
from .chromium import Visitor
from .conftest import Open
from .pages import REASON, TARGET
from .validity import mistakes

pytestmark = [pytest.mark.services, pytest.mark.browser]
SECOND, PASSWORD = "sue", "battery clip horse correct"
LOOKS = [(360, "light"), (1280, "dark")]


def switch_approval(stack: Stack, folder: Path, *, on: bool) -> None:
    text = stack.manage("fleet", "export").stdout
    given = "".join(line for line in text.splitlines(keepends=True) if "needs_approval:" not in line)
    to = folder / "fleet.yaml"
    to.write_text(given.replace("- name: test\n", f"- name: test\n  needs_approval: {str(on).lower()}\n", 1))
    stack.manage("fleet", "import", str(to))


@pytest.fixture
def succeeded(stack: Stack) -> int:
    """The newest rebuild by stream: it has all that evidence can tell."""
    newest = "SELECT max(id) AS id FROM dbops_rebuild WHERE status = 'succeeded' AND method = 'xbstream' HAVING max(id) IS NOT NULL"
    if not stack.rows(newest):
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
    [row] = stack.rows(newest)
    return int(row["id"])


@pytest.fixture
def waiting(stack: Stack, succeeded: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A rebuild that olga requested and that waits for approval; one that succeeded was before it."""
    stack.manage("account", "create", SECOND, "--group", "operator", "--password-stdin", stdin=PASSWORD)
    folder = tmp_path_factory.mktemp("fleet")
    switch_approval(stack, folder, on=True)
    try:
        stack.wait_for_possible_plan(TARGET)
        stack.manage("rebuild", TARGET, "--reason", REASON, "--as", OPERATOR)
        [row] = stack.rows("SELECT max(id) AS id FROM dbops_rebuild WHERE approval = 'waiting' AND status = 'queued'")
        yield row["id"]
    finally:
        switch_approval(stack, folder, on=False)
        if stack.rows("SELECT id FROM dbops_rebuild WHERE status = 'queued'"):
            stack.manage("rebuild", TARGET, "--cancel", "--as", OPERATOR)


def evidence(visitor: Visitor, rebuild: int, folder: Path) -> Page:
    """Download the evidence of a rebuild and open the file, as an auditor does."""
    answer = visitor.page.request.get(f"{visitor.url}/rebuilds/{rebuild}/evidence/")
    assert answer.status == 200
    file = folder / f"evidence-{rebuild}.html"
    file.write_text(answer.text(), encoding="utf-8")
    visitor.page.goto(file.as_uri())
    return visitor.page


def fits(page: Page) -> bool:
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    return bool(widths[0] <= widths[1])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_approval_pages_pass_axe(visit: Open, waiting: int, width: int, scheme: str) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
    olga, sue = visit(OPERATOR, OPERATOR_PASSWORD, **options), visit(SECOND, PASSWORD, **options)
    address, wrong = f"/rebuilds/{waiting}/approval/", []

    def look(what: str, page: Page) -> None:
        assert fits(page), what
        wrong.extend(f"{what}: {text}" for text in objections(page))

    page = olga.open(address)
    expect(page.locator("main [name=decision][value=approve]")).to_have_count(0)
    look("one's own", page)
    look("queue", olga.open("/queue/"))
    look("rebuild", sue.open(f"/rebuilds/{waiting}/"))
    page = sue.open(address)
    expect(page.get_by_text(REASON)).to_be_visible()
    look("another person's", page)
    page.locator("[name=decision][value=decline]").click()
    expect(page.locator(".error-card")).to_contain_text("rebuild.reason")
    sue.forgive("409")
    look("refused", page)
    page.locator("#reason").fill("Not during the sale")
    page.locator("[name=decision][value=decline]").click()
    expect(page.locator(".messages .alert")).to_contain_text(str(waiting))
    page = sue.open(address)
    expect(page.locator(f"[data-approval=declined][data-approval-by={SECOND}]")).to_be_visible()
    look("declined", page)
    assert wrong == []


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_evidence_passes_axe(
    visit: Open, waiting: int, succeeded: int, tmp_path: Path, width: int, scheme: str
) -> None:
    sue = visit(SECOND, PASSWORD, color_scheme=scheme, viewport={"width": width, "height": 800})
    wrong = []
    for rebuild in (waiting, succeeded):
        page = evidence(sue, rebuild, tmp_path)
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"Evidence of rebuild {rebuild}")
        if rebuild == succeeded:
            assert page.get_by_role("row").count() > 50, "steps, commands and entries of the log are there"
        wrong += [f"evidence of {rebuild}: {text}" for text in objections(page)]
        assert fits(page), rebuild
    assert wrong == []


def test_approval_pages_are_valid_html(visit: Open, waiting: int, succeeded: int, tmp_path: Path) -> None:
    for name, who in (("set-ownership", visit(OPERATOR, OPERATOR_PASSWORD)), ("other", visit(SECOND, PASSWORD))):
        for path in (
            f"/rebuilds/{waiting}/approval/",
            f"/rebuilds/{waiting}/evidence/",
            f"/rebuilds/{succeeded}/evidence/",
        ):
            text = who.page.request.get(who.url + path).text()
            (tmp_path / f"{name}{path.replace('/', '-')}.html").write_text(text, encoding="utf-8")
    assert len(list(tmp_path.glob("*.html"))) == 6
    assert mistakes(tmp_path) == []
