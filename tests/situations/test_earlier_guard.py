"""A rebuild that finds the guard of an earlier one on its source."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from tests.e2e.host_state import last_rebuild, source_is_given_back
from tests.stack import Stack

pytestmark = pytest.mark.services
SOURCE, TARGET = "backup-1", "replica-1"


@pytest.mark.situation("F3", "waits for the earlier guard, then succeeds")
def test_rebuild_waits_for_an_earlier_guard_and_not_for_itself(stack: Stack) -> None:
    stack.wait_for_possible_plan(TARGET)
    place = stack.lab.host(SOURCE).work_dir / "instances"
    if not list(place.glob("*/lock.guard")):
        stack.rebuild(TARGET)  # the first rebuild makes the lock
        stack.wait_for_possible_plan(TARGET)
    [lock] = place.glob("*/lock.guard")
    with subprocess.Popen(
        [shutil.which("flock") or "flock", str(lock), "sleep", "20"], start_new_session=True
    ) as guard:
        before = time.monotonic()
        try:
            status, _ = stack.rebuild(TARGET, check=False)
        finally:
            if guard.poll() is None:
                os.killpg(guard.pid, signal.SIGKILL)
    assert (status, last_rebuild(stack)["status"]) == (0, "succeeded")
    assert time.monotonic() - before > 15
    source_is_given_back(stack, last_rebuild(stack)["uid"])
