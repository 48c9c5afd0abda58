"""Heartbeats of workers and beat: a row each, so that pages can report a missing process.

A worker reports at the start of each task, beat at each tick: a stuck process does not report. Neither waits or fails because of
a report.
"""

import logging
import time
from typing import Any

from celery import Task
from celery.beat import PersistentScheduler
from celery.exceptions import Ignore
from django.db import DatabaseError, IntegrityError, InterfaceError
from django.db.models import F
from django.utils import timezone

from dbops.database.errors import mend_connection
from dbops.models import ProcessHeartbeat
from dbops.sample.database_check import sample_guard

log = logging.getLogger(__name__)

WORKER, BEAT = "worker", "beat"
#: A process writes at most this often.
GAP_SECONDS = 5.0
#: Anyone who writes to the queue can also write counts.
MOST_DROPPED = 10**12
_last: dict[str, float] = {}


def report(name: str) -> None:
    """Record that a process of this name is alive. Never raises if the database does not answer."""
    if time.monotonic() - _last.get(name, float("-inf")) < GAP_SECONDS:
        return
    _last[name] = time.monotonic()
    now = timezone.now()
    try:
        if not ProcessHeartbeat.objects.filter(pk=name).update(at=now):
            ProcessHeartbeat.objects.create(name=name, at=now)
    except IntegrityError:
        pass  # another process was first
    except (DatabaseError, InterfaceError) as error:
        log.warning("reporting that %s lives: %s", name, error)
        mend_connection()


def count_dropped(number: int) -> None:
    """Add to the count of messages that workers dropped because dbops had not sent them."""
    ProcessHeartbeat.objects.filter(pk=WORKER, dropped_messages__lt=MOST_DROPPED).update(
        dropped_messages=F("dropped_messages") + min(number, MOST_DROPPED)
    )


def is_wrong_database() -> bool:
    """Return whether this process must not touch its database: hosts of a sample may be real ones."""
    try:
        refusal = sample_guard.database_mismatch()
    except (DatabaseError, InterfaceError) as error:
        log.warning("asking whether the database is the sample's: %s", error)
        mend_connection()
        return False
    if refusal:
        log.error("%s", refusal)
    return refusal is not None


class ReportingTask(Task):
    """A task that reports its worker's heartbeat at its start, and does nothing in the wrong database."""

    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        if is_wrong_database():
            raise Ignore
        report(WORKER)


class ReportingScheduler(PersistentScheduler):
    """Celery's scheduler with a heartbeat at each tick."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        if not is_wrong_database():
            report(BEAT)
        return float(super().tick(*args, **kwargs))
