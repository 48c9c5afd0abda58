"""The lessons of docs/tutorial work as they are written: a reader runs their commands and clicks through their pages."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests import run_folder
from tests.browser.chromium import running_chromium
from tests.networks import free_network, free_port
from tests.provider import iam_configuration, iam_server, iam_server_port

from .a_day import ADay
from .arguments import watched
from .first_cluster import FirstCluster
from .first_rebuild import FirstRebuild
from .lessons import copy_checkout
from .provider import ProviderPages

__all__ = ["iam_configuration", "iam_server", "iam_server_port"]
pytestmark = [pytest.mark.services, pytest.mark.browser]


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """Give a copy of the checkout, in a folder of its own with the lab's."""
    folder = run_folder.new_folder("tutorial")
    copy_checkout(folder / "dbops")
    yield folder / "dbops"
    run_folder.remove(folder)


@pytest.fixture(scope="module")
def environment(checkout: Path) -> dict[str, str]:
    """The reader's environment. Lab and servers have a folder, addresses and ports of their own: the machine may run others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DBOPS_")}
    ports = {name: str(free_port()) for name in ("WEBHOOK_PORT", "SYSLOG_PORT", "PROMETHEUS_PORT")}
    return {**inherited, **ports, "LAB_PARENT": str(checkout.parent / "labs"), "LAB_NETWORK": free_network()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=30_000)
    with running_chromium() as running:
        yield running


def test_first_rebuild_and_first_cluster(checkout: Path, environment: dict[str, str], browser: Browser) -> None:
    def learn_the_first_cluster() -> None:
        with FirstCluster(checkout, environment).reading() as second:
            second.learn()

    with FirstRebuild(checkout, environment, browser, learn_the_first_cluster).reading() as lesson:
        lesson.learn()


def test_a_day(checkout: Path, environment: dict[str, str], browser: Browser, iam_server: Any) -> None:  # noqa: F811
    """It continues with the lab of the first lesson, as its readers do. No command line says a secret."""
    day = ADay(checkout, environment, browser, ProviderPages(iam_server))
    with watched() as seen, day.reading() as lesson:
        lesson.learn()
    assert any(b"promtool" in line for line in seen)
    for name, secret in day.secrets.items():
        assert not [line for line in seen if secret.encode() in line], name
