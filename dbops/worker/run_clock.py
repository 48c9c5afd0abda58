"""The clock of one run: it never goes back, and a step of the machine's clock does not make it jump."""

import time
from collections.abc import MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

from dbops.database import clock

KEY = "clock"
#: How often the checkpoint gets a new reading: for a driver on another machine.
KEPT_SECONDS = 60.0


@cache
def boot() -> str:
    """Return the identity of this machine since its start: monotonic times are comparable within it only."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class RunClock:
    """Times that a run keeps in its checkpoint and compares with each other, also in another process.

    On one machine they follow its monotonic clock. A driver on another machine continues with the database's time, which may be
    earlier than the last driver's: then the run's time stops until it is reached.
    """

    def __init__(self, checkpoint: MutableMapping[str, Any]) -> None:
        self._checkpoint = checkpoint

    def now(self) -> float:
        """Return seconds since 1970 by the clock of the run's begin."""
        last, here = self._checkpoint.get(KEY), {"boot": boot(), "monotonic": time.monotonic()}
        if last is None:
            at = clock.now().timestamp()
        elif last["boot"] == here["boot"]:
            at = last["at"] + max(0.0, here["monotonic"] - last["monotonic"])
        else:
            at = max(last["at"], clock.now().timestamp())
        if last is None or at - last["at"] >= KEPT_SECONDS or last["boot"] != here["boot"]:
            self._checkpoint[KEY] = {**here, "at": at}
        return float(at)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
