"""The moment at which a step of a rebuild runs: the dashboard's own table is asked, many times a second."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from lab.hosts import LabHost
from tests.slow_process import worker_of
from tests.stack import Stack, wait_for

POLL_SECONDS = 0.003
FLOWING_BYTES = 1024**2
FINAL = ("succeeded", "failed", "cancelled", "expired")
STATE = (
    "SELECT r.status, s.state FROM dbops_rebuildstep s JOIN dbops_rebuild r ON r.id = s.rebuild_id"
    " WHERE s.rebuild_id = ? AND s.name = ?"
)


class Missed(AssertionError):
    """The step began and ended between two checks, or was never reached: nothing was injected, so nothing is shown."""


def wait_until_running(stack: Stack, rebuild_id: int, step: str, seconds: float = 180.0) -> None:
    """Return the moment the step is in state ``running``.

    Raises:
        Missed: it was not seen running.
    """
    deadline = time.monotonic() + seconds
    with closing(sqlite3.connect(stack.folder / "dbops.sqlite3", timeout=20)) as connection:
        while time.monotonic() < deadline:
            status, state = connection.execute(STATE, (rebuild_id, step)).fetchone()
            if state == "running":
                return
            if status in FINAL or state != "pending":
                break
            time.sleep(POLL_SECONDS)
    raise Missed(f"step {step} was not seen running; it is {state}, the rebuild is {status}")


def wait_until_unpacking(target: LabHost) -> None:
    """Return when the stream's unpacking program is there: the step begins some calls earlier."""
    wait_for("the unpacking program", lambda: worker_of(target, "stream/unpack"), 30)


def wait_until_bytes_flow(target: LabHost) -> None:
    """Return when the unpacking program has read more than its own libraries: the stream's session is well established."""
    wait_for("the first bytes of the stream", lambda: _read_bytes(target) > FLOWING_BYTES, 30)


def _read_bytes(target: LabHost) -> int:
    pid = worker_of(target, "stream/unpack")
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
