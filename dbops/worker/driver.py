"""What every tick has: a lease that is kept while its driver works, and an end that nothing unknown can spoil."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection

from dbops.database.errors import AWAY, mend_connection
from dbops.engine.errors import Cancelled
from dbops.lifecycle import leases
from dbops.lifecycle.leases import Lease, LeaseLost
from dbops.models import BackupRun, Rebuild, RestoreTest

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
LOST_RETRY_SECONDS = 10.0
#: The worker's hard limit ends a tick before this.
LONGEST_TICK_SECONDS = 90.0
WHAT = {Rebuild: "rebuild", BackupRun: "backup run", RestoreTest: "proof of a backup"}


class LeaseRenewal(threading.Thread):
    """Keeps the lease while its driver waits for a host: a call may take longer than a lease. Ends with the driver."""

    def __init__(self, lease: Lease[Any]) -> None:
        super().__init__(name=f"renew-{lease.row.pk}", daemon=True)
        self.lease, self.over = lease, threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        try:
            while not self.over.wait(settings.LEASE_SECONDS / 4) and time.monotonic() - began < LONGEST_TICK_SECONDS:
                if not self._renew():
                    return
        finally:
            connection.close()

    def _renew(self) -> bool:
        try:
            return leases.renew(self.lease)
        except AWAY as error:
            log.warning("%s: renewing its lease: %s", self.lease.row, error)
            connection.close()  # what was broken stays broken: the next attempt needs a connection of its own
            return True

    def __enter__(self) -> "LeaseRenewal":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(5)


def drive_once(lease: Lease[Any] | None, drive: Callable[[float], float | None]) -> bool:
    """Drive what was leased for at most ``TICK_SECONDS``. Return whether more is due at once. Never raises for what hosts do.

    Args:
        lease: as just taken; ``None`` where there is nothing to do.
        drive: takes the moment (``time.monotonic``) until when; returns seconds until the next tick, ``None`` at the end.
    """
    if lease is None:
        return False
    try:
        with LeaseRenewal(lease):
            wait = drive(time.monotonic() + settings.TICK_SECONDS)
    except LeaseLost:
        log.info("%s: another driver has it, or it has ended", lease.row)
        return False
    except Cancelled:
        wait = 0.0
    except (SoftTimeLimitExceeded, *AWAY) as error:
        log.warning("%s: this tick ends early: %s", lease.row, error)
        mend_connection()
        wait = RETRY_SECONDS
    except Exception as error:  # nothing that is not known may end it, or keep it from being driven again
        log.exception("%s cannot be driven", lease.row)
        what = WHAT[type(lease.row)]
        leases.log_trouble(lease, f"This {what} cannot be driven, and is tried again: {error}")
        wait = LOST_RETRY_SECONDS
    if wait is None:
        return False
    leases.release_lease(lease, wait)
    return wait == 0
