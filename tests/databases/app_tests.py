"""What `tests/app` holds of SQLite holds of the other databases. Minutes each, so each has a file: they run side by side.

Most tests of pages and forms send statements that others send, too. Right after a run of `tests/app` on SQLite, only those run that
together send each statement with each end, and all that are about the database itself (`tests.statements`). Else all run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import statements
from tests.databases.racers import ROOT
from tests.servers import running_server, wanted_kinds


def run_app_tests(kind: str, folder: Path) -> None:
    """Run `tests/app` on an empty database of this kind; skip the test if that kind is not requested."""
    if kind not in wanted_kinds():
        pytest.skip(f"{kind} is not requested")
    names = folder / "left-out"
    names.write_text(json.dumps(statements.left_out()))
    with running_server(kind) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "tests/app", "-q", "-x", "--create-db"),
                *("-p", "no:cacheprovider", f"--left-out={names}"),
            ],
            cwd=ROOT,
            env={**os.environ, "DBOPS_DATABASE_URL": server.create("dbops_app"), "DBOPS_STATE_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
