"""Hand a row from tick to tick, and keep it while the broker is away."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings

from dbops.messaging import wakeups

#: The longest outage of the broker that one task bridges. Afterwards the guard on the source acts.
LONGEST_OUTAGE_SECONDS = 3600
#: The longest wait between two ticks while the broker is away: its return shall be seen soon.
LONGEST_WAIT_SECONDS = 2.0


def drive(tick: Callable[[int], float | None], row_id: int, request_next: Callable[[], bool]) -> None:
    """Drive a row for one tick and request the next one.

    Without a broker no worker would get the next tick, and after 45 s the guard takes back a paused source. So this
    worker keeps the row until the broker answers.

    Args:
        tick: drives the row once; returns the seconds until the next tick, or ``None`` when nothing is left to do.
        row_id: its argument.
        request_next: publishes the next tick; returns whether the broker has it.
    """
    until = time.monotonic() + LONGEST_OUTAGE_SECONDS
    while time.monotonic() < until:
        with time_limit(settings.TICK_SECONDS + 30):
            wait = tick(row_id)
        if wait is None:
            return
        # A row that waits is sent by the reconciler, which beat wakes over the same broker.
        if request_next() if wait == 0 else wakeups.publish("reconcile"):
            return
        time.sleep(min(wait, LONGEST_WAIT_SECONDS))


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise ``SoftTimeLimitExceeded`` in the block after that time, as Celery does for a whole task. Main thread only."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise SoftTimeLimitExceeded(seconds)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
