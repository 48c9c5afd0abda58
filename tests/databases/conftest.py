"""Each test of this folder runs on every database: a server for the session, a database for each module."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.databases.racers import ROOT, Racer, loaded
from tests.loaded import Loaded
from tests.servers import Server, running_server, wanted_kinds

RACERS = 8
NUMBERS = count(1)


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Return the server of a kind, started at its first use."""
    running: dict[str, Server] = {}
    with ExitStack() as stack:

        def get(kind: str) -> Server:
            if kind not in running:
                running[kind] = stack.enter_context(running_server(kind))
            return running[kind]

        yield get


@pytest.fixture(scope="session", params=wanted_kinds())
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    return servers(request.param)


def manage(url: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    state = folder / "state"  # the server's folder belongs to its account
    state.mkdir(exist_ok=True)
    return subprocess.run(
        [ROOT / ".venv" / "bin" / "python", "-W", "error", ROOT / "manage.py", *words],
        env={**os.environ, "DBOPS_DATABASE_URL": url, "DBOPS_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def url(server: Server) -> str:
    """Return the address of a database with every table."""
    # Side by side, a process may come back to a kind of server: with a file after one that ended on another kind.
    found = server.create(f"dbops_races_{next(NUMBERS)}")
    done = manage(found, server.folder, "migrate", "--no-input")
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("racers")


@pytest.fixture(scope="session")
def code(url: str, state_folder: Path) -> Iterator[Loaded]:
    """Give what racers are forked from."""
    with loaded(url, state_folder) as running:
        yield running


@pytest.fixture(scope="session")
def racers(code: Loaded) -> Iterator[list[Racer]]:
    found = [Racer(code) for _ in range(RACERS)]
    try:
        yield found
    finally:
        for racer in found:
            racer.close()
