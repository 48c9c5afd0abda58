"""The database is locked, frozen or restarted for ten seconds during a rebuild: the rebuild continues without loss."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.databases.conftest import manage
from tests.databases.racers import Racer, loaded
from tests.servers import Daemon, Server, wanted_kinds
from tests.stack import wait_for

pytestmark = pytest.mark.services

AWAY_SECONDS = 10.0
STEPS = ("one", "two", "three", "four", "five", "six")


def locked(_: Server, racer: Racer, folder: Path) -> None:
    mark = folder / f"locked-{time.monotonic()}"
    racer.order("lock", AWAY_SECONDS, str(mark))
    wait_for("the lock", mark.exists)


def frozen(server: Server, *_: Any) -> None:
    assert isinstance(server, Daemon)
    server.freeze()
    time.sleep(AWAY_SECONDS)
    server.thaw()


def restarted(server: Server, *_: Any) -> None:
    server.stop()
    time.sleep(AWAY_SECONDS)
    server.start()


@pytest.mark.parametrize("happens", [locked, frozen, restarted], ids=lambda happens: happens.__name__)
def test_drivers_survive_a_database_outage(
    servers: Callable[[str], Server], tmp_path: Path, happens: Callable[[Server, Racer, Path], None]
) -> None:
    """On every database at once: most of the time is spent waiting. SQLite has no server that could freeze."""
    kinds = [kind for kind in wanted_kinds() if kind != "sqlite" or happens is locked]
    if not kinds:
        pytest.skip("SQLite has no server")
    running = [servers(kind) for kind in kinds]
    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(lambda server: outlives(server, tmp_path, happens), running))


def outlives(server: Server, folder: Path, happens: Callable[[Server, Racer, Path], None]) -> None:
    url = server.create(f"dbops_{happens.__name__}")
    assert manage(url, server.folder, "migrate", "--no-input").returncode == 0
    fast = {"DBOPS_LEASE_SECONDS": "4", "DBOPS_TICK_SECONDS": "3"}
    with loaded(url, folder, DBOPS_DATABASE_WAIT_SECONDS="40") as patient, loaded(url, folder, **fast) as code:
        outlive(server, folder, happens, Racer(patient), [Racer(code) for _ in range(2)])


def outlive(
    server: Server,
    folder: Path,
    happens: Callable[[Server, Racer, Path], None],
    locker: Racer,
    workers: list[Racer],
) -> None:
    try:
        pk = locker.do("queue_counting")
        for worker in workers:
            worker.order("work", 60.0)
        wait_for("some work", lambda: locker.do("look")["steps"]["one"] == "done")
        happens(server, locker, folder)
        if happens is locked:
            locker.answer()
        failures = [worker.answer() for worker in workers]
        seen = locker.do("look_again")
    finally:
        for racer in (*workers, locker):
            racer.close()
    nothing_is_lost(seen, pk, f"{server.kind}: {failures}")


def nothing_is_lost(seen: dict[str, Any], pk: int, where: str) -> None:
    assert seen["status"] == {str(pk): "succeeded"}, (where, seen)
    assert seen["steps"] == dict.fromkeys(STEPS, "done"), where
    assert seen["holds"] == [], where
    texts = [text for _, text in seen["events"]]
    wanted = [f"{step} {number}" for step in STEPS for number in range(1, 6)]
    assert [text for text in texts if text in wanted] == wanted, where
    assert seen["levels"].count("error") == 0, where
    acts = [action for action in seen["audit"] if action != "rebuild.taken_over"]
    assert acts == ["rebuild.requested", "rebuild.started", "rebuild.succeeded"], where
