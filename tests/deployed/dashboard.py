"""A web process with a running rebuild to look at, as the only process of its dashboard."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import run_folder, tables
from tests.networks import answers, free_port
from tests.stack import DATABASE, ROOT, template, wait_for

PYTHON = ROOT / ".venv" / "bin" / "python"
#: Nothing listens there: pages then read their tables every few seconds.
NO_REDIS = "redis://127.0.0.1:1/0"
ROWS = """
from django.contrib.auth.models import User
from tests.app.factories import make_event, make_rebuild, make_trio
_, backup, replica = make_trio()
rebuild = make_rebuild(target=replica, source=backup, requested_by=User.objects.get(username="olga"))
make_event(rebuild, "begun")
print(rebuild.pk)
"""


def clean_environment(state: Path, **settings: str) -> dict[str, str]:
    """Return this process's environment with these settings of dbops and no others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DBOPS_")}
    tests = {run_folder.VARIABLE: os.environ[run_folder.VARIABLE]} if run_folder.VARIABLE in os.environ else {}
    return inherited | tests | {"DBOPS_STATE_DIR": str(state), "DBOPS_REDIS_URL": NO_REDIS} | settings


def manage(
    environment: Mapping[str, str], *words: str, stdin: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, ROOT / "manage.py", *words],
        env=environment,
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        **options,
    )


class Dashboard:
    def __init__(self, state: Path, **settings: str) -> None:
        self.state, self.port = state, free_port()
        self.environment = clean_environment(state, DBOPS_WEB_PORT=str(self.port), **settings)
        self.rebuild = 0

    @property
    def health(self) -> str:
        return f"http://127.0.0.1:{self.port}/healthz/"

    @property
    def log(self) -> str:
        return (self.state / "web.log").read_text(errors="replace")

    def fill(self) -> None:
        done = manage(self.environment, "shell", "--no-imports", "-c", ROWS)
        assert done.returncode == 0, done.stderr
        self.rebuild = int(done.stdout)

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        return tables.rows(f"sqlite:///{self.state / DATABASE}", sql, *parameters)

    @contextmanager
    def running(self) -> Iterator[None]:
        with (
            (self.state / "web.log").open("ab") as log,
            started([ROOT / "script" / "run", "web"], self.environment, log),
        ):
            wait_for("the web process", lambda: answers(self.health))
            yield


@contextmanager
def started(
    words: list[Any], environment: Mapping[str, str], log: Any, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program and its children for as long as the block."""
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **options
    )
    try:
        yield process
    finally:
        # Apache would wait ten seconds for a stream.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@contextmanager
def new_state(name: str = "state") -> Iterator[Path]:
    """Give the state of an installed dashboard with its accounts, in a folder of this name."""
    above = run_folder.new_folder("deployed")
    state = above / name
    shutil.copytree(template(), state)
    try:
        yield state
    finally:
        run_folder.remove(above)
