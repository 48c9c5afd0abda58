"""One stack and one of each browser for the tests of this folder.

They live as long as the folder's tests and no longer: Playwright's loop makes Django refuse its database elsewhere.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.networks import free_network
from tests.stack import OPERATOR, OPERATOR_PASSWORD, VIEWER, VIEWER_PASSWORD, Stack, running_stack

from .chromium import FIREFOX, Visitor, launch_chromium, launch_firefox, visitor
from .windows import Windows, make_windows

NETWORK = free_network()
# Tests wait for what comes of real work on real servers; a busy machine takes its time.
expect.set_options(timeout=30_000)

Open = Callable[..., Visitor]


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with running_stack(NETWORK, size="256M") as running:
        yield running


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = launch_chromium(playwright)
    yield running
    running.close()


@pytest.fixture(scope="module")
def firefox(playwright: Playwright) -> Iterator[Browser]:
    if not FIREFOX.exists():
        pytest.skip("no firefox-esr is installed; script/test installs it")
    running = launch_firefox(playwright)
    yield running
    running.close()


@pytest.fixture(scope="package")
def windows(stack: Stack) -> Windows:
    return make_windows(stack)


@pytest.fixture
def visit(stack: Stack, browser: Browser) -> Iterator[Open]:
    """Give a function that opens a window for somebody who is logged in, and check at the end that nothing went wrong.

    Those of each dashboard get a session without the form: the check of a password is slow, and some tests log in themselves.
    """
    opened: list[Visitor] = []

    def visit(user: str = "", password: str = "", **options: object) -> Visitor:
        found = visitor(browser, stack.url, **options)
        opened.append(found)
        if user in (OPERATOR, VIEWER):
            cookie = {"name": "sessionid", "value": stack.session_key(user), "url": stack.url}
            found.context.add_cookies([cookie])
            found.open("/")
        elif user:
            found.log_in(user, password)
        return found

    yield visit
    faults = [fault for found in opened for fault in found.faults]
    for found in opened:
        found.context.close()
    assert faults == []


@pytest.fixture
def olga(visit: Open) -> Visitor:
    return visit(OPERATOR, OPERATOR_PASSWORD)


@pytest.fixture
def victor(visit: Open) -> Visitor:
    return visit(VIEWER, VIEWER_PASSWORD)
