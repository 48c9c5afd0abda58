"""dbops's clock: the database's time, so that processes on several machines agree, whichever of their clocks is wrong.

SQLite has no time of its own: all processes are on its machine.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

#: How long a reading of the database's clock is used.
KEPT_SECONDS = 30.0
#: The wall clock was set, or the machine was suspended: it differs from the monotonic clock by more than this since the reading.
STEP_SECONDS = 0.5

_STATEMENTS = {"postgresql": "SELECT clock_timestamp()", "mysql": "SELECT UTC_TIMESTAMP(6)"}


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The database's time, and what this machine's clocks showed."""

    there: datetime
    monotonic: float
    wall: datetime

    def now(self) -> datetime:
        return self.there + timedelta(seconds=time.monotonic() - self.monotonic)

    def is_good(self) -> bool:
        passed = time.monotonic() - self.monotonic
        return passed < KEPT_SECONDS and abs((timezone.now() - self.wall).total_seconds() - passed) < STEP_SECONDS


_last: dict[str, ClockReading] = {}


def now() -> datetime:
    """Return the current time of the database; at most one query in ``KEPT_SECONDS``.

    A thread without a connection opens none: it uses the last reading. So does one whose database does not answer.
    """
    statement = _STATEMENTS.get(connection.vendor)
    if statement is None:
        return timezone.now()
    last = _last.get(connection.vendor)
    if last is None or (not last.is_good() and connection.connection is not None):
        last = _last[connection.vendor] = (
            _read(statement) or last or ClockReading(timezone.now(), time.monotonic(), timezone.now())
        )
    return last.now()


def _read(statement: str) -> ClockReading | None:
    """Return what the database says; ``None`` if it does not answer: the caller's own statement reports that."""
    began, wall = time.monotonic(), timezone.now()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            there: datetime = cursor.fetchone()[0]
    except (DatabaseError, InterfaceError):
        return None
    there = there if timezone.is_aware(there) else there.replace(tzinfo=UTC)
    return ClockReading(there, (began + time.monotonic()) / 2, wall)
