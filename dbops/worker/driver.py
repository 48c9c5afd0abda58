"""Run one driver tick: keep its lease, end the row after an error, and retry after an unexpected error."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection

from dbops.database import clock
from dbops.database.errors import AWAY, mend_connection
from dbops.engine.errors import Bug, Cancelled, DbopsError, NoAccess, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import Jobs
from dbops.engine.states import Status
from dbops.lifecycle import leases
from dbops.lifecycle.leases import Lease, LeaseLost, Row
from dbops.worker.journal import BufferedJournal

log = logging.getLogger(__name__)

Result = TypeVar("Result")

RETRY_SECONDS = 2.0
LOST_RETRY_SECONDS = 10.0
#: The worker's hard limit ends a tick before this.
LONGEST_TICK_SECONDS = 90.0


class LeaseRenewal(threading.Thread):
    """Extends the lease while its driver waits for a host: a call may take longer than a lease. Ends with the driver."""

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
            connection.close()  # the broken connection stays broken: the next attempt needs a new one
            return True

    def __enter__(self) -> "LeaseRenewal":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(5)


class Driver(ABC, Generic[Row, Result]):
    """Drive one row with a lease. A subclass defines the steps and the end of the row.

    A hook returns the seconds until the next tick, or ``None`` to continue at once. ``has_ended`` is set when the row has ended.
    """

    journal: BufferedJournal

    def __init__(self, lease: Lease[Row], stack: ExitStack) -> None:
        self.lease: Lease[Row] = lease
        self.row: Row = lease.row
        self.stack = stack
        self.checkpoint: dict[str, Any] = dict(self.row.checkpoint)
        self.has_ended = False

    @classmethod
    def tick(cls, pk: int) -> float | None:
        """Drive a row for at most ``TICK_SECONDS``. Never raises for host errors.

        Returns:
            The seconds until the next tick is due; ``None`` if the row has ended or another driver has it.
        """
        lease = cls.take_lease(pk)
        if lease is None:
            return None
        try:
            with LeaseRenewal(lease), ExitStack() as stack:
                wait = cls(lease, stack).drive(until=time.monotonic() + settings.TICK_SECONDS)
        except LeaseLost:
            log.info("%s: another driver has it, or it has ended", lease.row)
            return None
        except Cancelled:
            wait = 0.0
        except (SoftTimeLimitExceeded, *AWAY) as error:
            log.warning("%s: this tick ends early: %s", lease.row, error)
            mend_connection()
            wait = RETRY_SECONDS
        except Exception as error:  # an unexpected error may neither end the row nor keep it from being driven again
            log.exception("%s cannot be driven", lease.row)
            what = lease.row._meta.verbose_name
            leases.log_trouble(
                lease, phrase("This {what} cannot be driven, and is tried again: {error}", what=what, error=error)
            )
            wait = LOST_RETRY_SECONDS
        if wait is not None:
            leases.release_lease(lease, wait)
        return wait

    def drive(self, *, until: float) -> float | None:
        """Advance the row. Return seconds until the next tick is due, or ``None`` when the row has ended."""
        if self.lease.reattached_after_seconds is not None:
            self.journal.say(
                phrase(
                    "Reattached after {seconds} s.",
                    seconds=f"{self.lease.reattached_after_seconds:.0f}",
                )
            )
            self.fence_last_driver()
        while time.monotonic() < until:
            try:
                wait = self.finish() if self.is_ending() else self._advance()
            except Unreachable as error:
                wait = self.meet_silence(error)
            if self.has_ended:
                return None
            if wait is not None:
                return wait
        self.journal.flush()
        return 0.0

    # --- hooks ----------------------------------------------------------------------------------------------------
    @staticmethod
    @abstractmethod
    def take_lease(pk: int, /) -> Lease[Row] | None:
        """Become the driver of a row; ``None`` if it has a living driver or no due work."""

    @abstractmethod
    def is_ending(self) -> bool:
        """Return whether only ``finish`` is left."""

    def prepare(self) -> None:
        """Prepare for a step. An unexpected error here does not end the row: the next tick retries."""

    @abstractmethod
    def step(self) -> Result:
        """Advance the work for about a second. Every error except an unreachable host ends the row."""

    @abstractmethod
    def record(self, result: Result) -> float | None:
        """Record the result of a step. As in ``prepare``, an unexpected error does not end the row."""

    @abstractmethod
    def finish(self) -> float | None:
        """Clean up, and set the final status of the row."""

    @abstractmethod
    def begin_ending(self, error: DbopsError | None) -> float | None:
        """Begin the end of a row after a failure, or, without an error, after a person's request."""

    @abstractmethod
    def may_give_up(self, error: Unreachable) -> bool:
        """Return whether an unreachable host may end the row. Adds the current state and the next step to the error."""

    def fence_last_driver(self) -> None:
        """Make the hosts refuse the fence of the previous driver, which may still be running."""
        self.checkpoint["to_fence"] = True

    # --- for subclasses -------------------------------------------------------------------------------------------
    def raise_fence(self, *jobs: Jobs) -> None:
        """Show the hosts this driver's fence, if another driver had the row. Raises ``Unreachable``, and is then repeated."""
        if not self.checkpoint.get("to_fence"):
            return
        if self.checkpoint.get("asked"):
            for fenced in jobs:
                fenced.act("true")
        del self.checkpoint["to_fence"]

    def mark_reachable(self) -> None:
        """Record that a silent host has answered."""
        if self.row.unreachable_since:
            leases.mark_reachable(self.lease)

    def ask_again(self, text: str, *, is_refusal: bool = False) -> float:
        """Record that a host is silent, or refuses dbops. Return the seconds until the next attempt."""
        self.journal.cancellable = False  # this write does not check whether to continue
        self.journal.flush()
        self.row.unreachable_since = leases.mark_unreachable(self.lease, text, is_refusal=is_refusal)
        return LOST_RETRY_SECONDS if self.row.status == Status.LOST else RETRY_SECONDS

    # --- errors ---------------------------------------------------------------------------------------------------
    def _advance(self) -> float | None:
        self.prepare()
        try:
            self.journal.check()
            result = self.step()
        except Cancelled:
            return self.begin_ending(None)
        except (Unreachable, LeaseLost, SoftTimeLimitExceeded, *AWAY):
            raise
        except DbopsError as error:
            log.warning("%s: %s", self.row, error)
            return self.begin_ending(error)
        except Exception as error:
            log.exception("%s", self.row)
            found = f"{type(error).__name__}: {error}"
            return self.begin_ending(
                Bug("bug", phrase("Driving {row}", row=self.row), cause=found, next_step=phrase("Please report this."))
            )
        self.mark_reachable()
        return self.record(result)

    def meet_silence(self, error: Unreachable) -> float | None:
        """Handle an unreachable host: before any change the row ends; after a change the state is unknown, and dbops retries.

        A host that refuses dbops needs a person: before any change the row ends at once.
        """
        silent = isinstance(error, NoAccess) or self._silent_seconds() > settings.UNREACHABLE_TIMEOUT_SECONDS
        if silent and not self.is_ending() and self.may_give_up(error):
            return self.begin_ending(error)
        text = phrase("{error} The job may still be running on the host. dbops retries.", error=error)
        return self.ask_again(text, is_refusal=isinstance(error, NoAccess))

    def _silent_seconds(self) -> float:
        since = self.row.unreachable_since
        return (clock.now() - since).total_seconds() if since else 0.0
