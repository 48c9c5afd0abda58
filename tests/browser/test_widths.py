"""No page is wider than its window, whatever long words it shows."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser

from tests.stack import VIEWER, VIEWER_PASSWORD

from .chromium import visitor
from .longest import ACCOUNT, longest
from .pages import cut_off, too_wide
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

#: The tables with the most columns.
TABLES = (
    *("/", "/availability/", "/backups/", "/backups/history/", "/rebuilds/", "/schedules/", "/audit/", "/calendar/"),
    *("/clusters/shop/", "/clusters/billing/", "/clusters/shop/calendar/", "/instances/shop-r1/waits/"),
    *(
        "/clusters/billing/capacity/",
        "/load-tests/",
        "/queue/",
        "/clusters/shop/topology/",
        "/inventory/",
        "/inventory/sources/",
    ),
    *("/availability/billing/", "/rebuilds/1/log/", "/admin/connection-tests/", "/admin/users/"),
)
#: What the sample lacks: a rebuild that runs, and a block without an estimate beside those with one.
EVERY_STATE = """
from dbops.database import clock
from dbops.models import Cluster, Maintenance, Rebuild
Rebuild.objects.filter(pk=2).update(status="running", finished_at=None, heartbeat_at=clock.now())
Maintenance.objects.create(
    cluster=Cluster.objects.get(name="shop"), starts_at=clock.now(), reason="Disk", created_by="alice"
)
"""


@pytest.fixture(scope="module")
def ordinary() -> Iterator[str]:
    with running_sample(weeks=1, rights=("--group", "operator", "--superuser"), then=EVERY_STATE) as address:
        yield address


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


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_window_cuts_off_a_column_or_a_state(ordinary: str, browser: Browser, language: str) -> None:
    person = visitor(browser, ordinary)
    person.log_in(VIEWER, VIEWER_PASSWORD)
    person.context.add_cookies([{"name": "dbops_language", "value": language, "url": ordinary}])
    wrong = []
    for address in TABLES:
        answer = person.page.goto(ordinary + address)
        assert answer is not None
        assert answer.ok, address
        wrong += [f"{address} {width} {text}" for width in (360, 1280, 1920) for text in cut_off(person.page, width)]
    person.context.close()
    assert wrong == []
