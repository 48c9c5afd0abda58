"""Three people: olga operates, victor looks, sam has no business here."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dbops.database import clock
from dbops.models import BackupSchedule
from dbops.sample.database_check import SampleGuard, sample_guard
from dbops.web.live.status_bars import ProcessStatus
from dbops.worker import backup_files, backups, driver, wiring
from tests.app import rows
from tests.app.backup_rows import make_schedule
from tests.app.factories import make_operator, make_user, make_viewer
from tests.app.played_backups import Played
from tests.vault_server import OpenBao


@pytest.fixture(autouse=True)
def _quick_and_without_collected_files(settings: Any) -> None:
    """No static files are collected for tests: look each one up. Passwords are hashed fast, as they guard nothing here."""
    settings.WHITENOISE_AUTOREFRESH = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _clock_of_this_machine() -> Iterator[None]:
    """Let dbops's clock be ``timezone.now``, which tests replace, on every database: its statement has tests of its own."""
    # Its own patch: a test can undo those of ``monkeypatch``.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "_STATEMENTS", {})
        yield


@pytest.fixture(autouse=True)
def _all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the bars about workers, beat, Redis and the database: they have tests of their own."""
    monkeypatch.setattr(ProcessStatus, "is_fresh", True)
    monkeypatch.setattr(SampleGuard, "is_fresh", True)
    monkeypatch.setattr(sample_guard, "found", None)


@pytest.fixture(scope="session")
def started_bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    server = OpenBao(tmp_path_factory.mktemp("bao"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def bao(started_bao: OpenBao, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenBao]:
    """A real OpenBao that dbops's settings name, unsealed and awake at the end. This process keeps nothing of earlier tests."""
    monkeypatch.setattr("dbops.security.vault._vault", None)
    settings.VAULT = started_bao.settings()
    yield started_bao
    if started_bao.process is None:
        started_bao.run()
    started_bao.wake()
    started_bao.unseal()


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no message to a worker or to an open page."""
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The messages to workers: task and ids. None is sent."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda task, *ids: found.append((task, *ids)))
    return found


@pytest.fixture
def olga(db: None) -> User:
    return make_operator()


@pytest.fixture
def victor(db: None) -> User:
    return make_viewer()


@pytest.fixture
def sam(db: None) -> User:
    return make_user("sam")


def _client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator(olga: User) -> Client:
    return _client_of(olga)


@pytest.fixture
def viewer(victor: User) -> Client:
    return _client_of(victor)


@pytest.fixture
def stranger(sam: User) -> Client:
    return _client_of(sam)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Played:
    found = Played()
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)
    monkeypatch.setattr(driver.LeaseRenewal, "run", lambda self: None)
    monkeypatch.setattr(wiring, "jobs_of", found.jobs_of)
    monkeypatch.setattr(backups, "jobs_of", found.jobs_of)
    monkeypatch.setattr(backup_files, "jobs_of", found.jobs_of)
    monkeypatch.setattr("dbops.worker.prober.probe_now", found.probe_now)
    settings.TICK_SECONDS = 0.3
    return found


@pytest.fixture
def schedule() -> BackupSchedule:
    fleet = rows.make_fleet()
    rows.operator()
    return make_schedule(fleet["backup-1"])
