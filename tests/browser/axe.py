"""Run axe-core on a page."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()


def objections(page: Page) -> list[str]:
    """Return what axe has to say of a page; what is folded is opened first, as it is a part of the page."""
    page.evaluate("document.querySelectorAll('main details').forEach(details => { details.open = true; })")
    return [
        f"{violation['impact']} {violation['id']}: {node['html'][:160]} ({node['failureSummary'][:300]})"
        for violation in _AXE.run(page).response["violations"]
        for node in violation["nodes"]
    ]
