"""Channels on this machine, and a moment at which dbops looks for events."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.app.audit.receivers import make_certificates

from .receivers import HttpReceiver, MailReceiver, running_http, running_mail


@pytest.fixture(autouse=True)
def _loopback(settings: Any, no_broker: None) -> None:
    settings.NOTIFICATION_NETWORKS = ["127.0.0.0/8"]
    settings.BASE_URL = "https://dbops.example.org"


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificates(folder), folder


@pytest.fixture
def https(ca: tuple[str, Path]) -> Iterator[HttpReceiver]:
    with running_http(ca[1]) as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with running_http() as server:
        yield server


@pytest.fixture
def letters() -> Iterator[MailReceiver]:
    with running_mail() as server:
        yield server


class Clock:
    """dbops's clock, which a test sets."""

    def __init__(self, now: datetime) -> None:
        self.now = now


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A Wednesday, 10:00 UTC."""
    from datetime import UTC

    found = Clock(datetime(2026, 3, 11, 10, tzinfo=UTC))
    monkeypatch.setattr("django.utils.timezone.now", lambda: found.now)
    return found
