"""A test run that is terminated leaves no process and no folder."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.processes import children, is_gone
from tests import ran
from tests.run_folder import ROOT, VARIABLE, new_folder, remove

pytestmark = pytest.mark.services
PR_SET_CHILD_SUBREAPER = 36
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ENDLESS = "tests/lab/endless.py"


@pytest.fixture
def _adopting() -> Iterator[None]:
    """Make processes whose parent ends children of this process: it sees all that a run leaves, also under other names."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder in which a run makes its own."""
    folder = new_folder("in")
    yield folder
    remove(folder)


def below(pid: int) -> set[int]:
    """Return the processes that a process started, and all that these started."""
    found = set(children(pid))
    return found.union(*map(below, found))


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.usefixtures("_adopting")
@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGTERM, (*PYTEST, ENDLESS)),
        (signal.SIGINT, (*PYTEST, ENDLESS, "-n", "2")),
        (signal.SIGTERM, ("bash", "-c", '. script/lib/relay.sh; relayed "$@"', "bash", *PYTEST, ENDLESS)),
        (signal.SIGKILL, (*PYTEST, ENDLESS, "-n", "2")),
    ],
    ids=["SIGTERM", "SIGINT-workers", "SIGTERM-script", "SIGKILL-workers"],
)
def test_run_leaves_no_process_and_no_folder_when_it_is_ended(
    number: int, command: tuple[str, ...], place: Path
) -> None:
    up, before = place.with_suffix(".up"), below(os.getpid())
    environment = {**os.environ, VARIABLE: f"{place}/", "DBOPS_TESTS_ARE_UP": str(up)}
    environment.pop(ran.PLACE, None)
    log = place.with_suffix(".log")
    with log.open("w") as output:
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    assert eventually(lambda: up.exists() or run.poll() is not None, 120), log.read_text()
    assert run.poll() is None, log.read_text()
    started = below(os.getpid()) - before
    assert len(started) > 10, f"servers and a dashboard are more processes than {started}"

    run.send_signal(number)
    assert run.wait(60) != 0
    # Only the warden outlives a run that was killed, and it needs a moment.
    patience_seconds = 30 if number == signal.SIGKILL else 2
    left = lambda: {pid for pid in started | below(os.getpid()) - before if not is_gone(pid)}  # noqa: E731
    assert eventually(lambda: not left(), patience_seconds), {
        pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in left()
    }
    assert eventually(lambda: list(place.iterdir()) == [], patience_seconds), list(place.iterdir())
