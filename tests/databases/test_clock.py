"""dbops's clock is that of its database, on a machine whose own clock is an hour ahead."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.databases.racers import ROOT
from tests.deployed.clocks import ShiftedClock
from tests.servers import Server

ASKED = "from dbops.database import clock; print(clock.now().timestamp())"


def test_clock_is_that_of_the_database(server: Server, url: str, tmp_path: Path) -> None:
    machine = ShiftedClock("database")
    machine.set(3600)
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "shell", "--no-imports", "-c", ASKED],
        env={**os.environ, **machine.environment, "DBOPS_DATABASE_URL": url, "DBOPS_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    ahead = 3600 if server.kind == "sqlite" else 0
    assert float(done.stdout) - time.time() == pytest.approx(ahead, abs=30)
