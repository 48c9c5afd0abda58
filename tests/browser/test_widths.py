"""No page is wider than its window, whatever long words it shows."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser

from tests.stack import VIEWER, VIEWER_PASSWORD

from .chromium import visitor
from .longest import ACCOUNT, longest
from .pages import too_wide
from .sample import running_sample
from .test_every_page import PAGES

pytestmark = [pytest.mark.services, pytest.mark.browser]
LENGTHEN = "from tests.browser.longest import lengthen; lengthen()"
#: Numbers of rows of the sample.
NUMBERS = {"rebuild": 1, "run": 1, "person": 2}
#: Pages that need a state which the sample has.
MORE = (
    "/admin/audit-sinks/1/remove/",
    "/admin/notifications/channels/1/remove/",
    "/admin/notifications/rules/1/remove/",
    "/audit/?action=override",
    "/clusters/test/topology/1/",
    "/discoveries/1/",
    "/instances/{rebuilt}/lineage/",
    "/inventory/sources/of/{source}/",
    "/inventory/sources/of/{source}/remove/",
    "/load-tests/1/",
    "/load-tests/compare/?a=1&b=2",
)


@pytest.fixture(scope="module")
def sample() -> Iterator[str]:
    with running_sample(weeks=1, rights=("--group", "operator", "--superuser"), then=LENGTHEN) as address:
        yield address


def addresses() -> list[str]:
    """Return the pages' addresses in the sample."""
    instead = {
        "/host/replica-1/": f"/host/{longest('db-shop-r1')}/",
        "/replica-1/": f"/{longest('shop-r1')}/",
        "/test/": f"/{longest('shop')}/",
        "/nightly/": f"/{longest('shop-nightly')}/",
        "/2025-01/": f"/{datetime.now(UTC):%Y-%m}/",
    }
    found = []
    for address in (*PAGES.values(), *MORE):
        for old, new in instead.items():
            address = address.replace(old, new)
        found.append(address.format(**NUMBERS, rebuilt=longest("search-r3"), source=longest("orchestrator")))
    return found


@pytest.mark.parametrize("program", ["browser", "firefox"])
def test_no_page_is_wider_than_its_window(sample: str, program: str, request: pytest.FixtureRequest) -> None:
    browser: Browser = request.getfixturevalue(program)
    person = visitor(browser, sample)
    person.log_in(longest(VIEWER, ACCOUNT), VIEWER_PASSWORD)
    wrong = []
    for address in addresses():
        answer = person.page.goto(sample + address)
        assert answer is not None
        assert answer.ok, address
        wrong += [f"{address} {text}" for text in too_wide(person.page)]
    person.context.close()
    assert wrong == []
