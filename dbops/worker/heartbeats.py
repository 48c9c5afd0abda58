"""Heartbeats of workers and beat: a row each, so that pages can report a missing process.

A worker reports at the start of each task, beat at each tick: a stuck process does not report. Neither waits or fails because of
a report.
"""

import inspect
import logging
import time
from datetime import datetime, timedelta
from typing import Any

from celery import Task
from celery.beat import Scheduler
from celery.exceptions import Ignore
from django.db import DatabaseError, IntegrityError, InterfaceError, transaction
from django.db.models import F

from dbops.database import clock
from dbops.database.errors import mend_connection
from dbops.lib.logs import busy_with
from dbops.lifecycle import clock_steps
from dbops.models import ClockStep, ProcessHeartbeat
from dbops.sample.database_check import sample_guard

log = logging.getLogger(__name__)

WORKER, BEAT = "worker", "beat"
#: A process writes at most this often.
GAP_SECONDS = 5.0
#: Anyone who writes to the queue can also write counts.
MOST_DROPPED = 10**12
#: Smaller steps of the clock are those of a time service.
STEP_SECONDS = 2.0
#: When each process name was reported last by the monotonic clock, and what dbops's clock showed then, or should have shown.
_last: dict[str, tuple[float, datetime | None]] = {}


def report(name: str) -> None:
    """Record that a process of this name is alive, and a step of the clock. Never raises if the database does not answer."""
    last, passed = _last.get(name), time.monotonic()
    if last and passed - last[0] < GAP_SECONDS:
        return
    expected = last[1] + timedelta(seconds=passed - last[0]) if last and last[1] else None
    # It stays while the database does not answer: the step is found when it does.
    _last[name] = (passed, expected)
    try:
        now = clock.now()
        if last and expected and name == BEAT:  # only beat looks all the time
            # The clock is read between two looks at the monotonic one: reading it can take seconds.
            read = time.monotonic()
            _note_own_step(
                expected + timedelta(seconds=read - passed), now, since=now - timedelta(seconds=read - last[0])
            )
        _last[name] = (passed, now)
        if not _write(name, now):
            _note_step_back(name, expected)
    except IntegrityError:
        pass  # another process was first
    except (DatabaseError, InterfaceError) as error:
        log.warning("reporting that %s lives: %s", name, error)
        mend_connection()


def _write(name: str, now: datetime) -> bool:
    """Write the heartbeat. Return whether that was possible: not over one of the future."""
    latest = now + timedelta(seconds=STEP_SECONDS)
    if ProcessHeartbeat.objects.filter(pk=name, at__lte=latest).update(at=now):
        return True
    return ProcessHeartbeat.objects.get_or_create(name=name, defaults={"at": now})[1]


def _note_step_back(name: str, expected: datetime | None) -> None:
    """Note that the last heartbeat is of the future. One process finds it, also the first one after a restart.

    It brings all heartbeats back, so that no other process finds the same step. Another process of the name may have reported since
    the caller's look: the time is read after the row.
    """
    with transaction.atomic():
        before = ProcessHeartbeat.objects.filter(pk=name).values_list("at", flat=True).first()
        now = clock.now()
        is_ahead = before is not None and (before - now).total_seconds() > STEP_SECONDS
        if before and is_ahead and ProcessHeartbeat.objects.filter(pk=name, at=before).update(at=now):
            log.warning("the clock was set back by %.0f s", (before - now).total_seconds())
            clock_steps.note_step(max(before, expected or before), now)


def _note_own_step(expected: datetime, now: datetime, since: datetime) -> None:
    """Note that more or less time has passed by dbops's clock than by this machine's monotonic clock.

    Args:
        expected: the time that the clock would have shown.
        now: the time that it shows.
        since: the time of the last look, by the clock as it is now: a worker can have noted the same step back since.
    """
    seconds = (now - expected).total_seconds()
    if abs(seconds) <= STEP_SECONDS:
        return
    with transaction.atomic():
        list(ProcessHeartbeat.objects.select_for_update())  # a worker that notes it now holds its row
        latest = now + timedelta(seconds=STEP_SECONDS)
        noted = ClockStep.objects.filter(
            at__range=(since - timedelta(seconds=STEP_SECONDS), latest), at__lt=F("before")
        )
        if seconds < 0 and noted.exists():
            return
        log.warning("the clock was set by %+.0f s", seconds)
        clock_steps.note_step(expected, now)


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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task; its log lines have its id, and that of its row, such as ``rebuild_id``."""
        row = dict(zip(inspect.signature(self.run).parameters, args, strict=False))
        with busy_with(task_id=self.request.id, task=self.name.rpartition(".")[2], **row):
            return self.run(*args, **kwargs)


class ReportingScheduler(Scheduler):
    """A scheduler with a heartbeat at each tick. Intervals are of the monotonic clock, and nothing is kept in a file.

    Celery's own compares wall-clock times and keeps them: after a step back by an hour it sends nothing for that hour, also after a
    restart (measured with Celery 5.7).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def tick(self, *_: Any, **__: Any) -> float:
        """Send what is due. Return the seconds until the next is."""
        if not is_wrong_database():
            report(BEAT)
        now = time.monotonic()
        for name, entry in self.schedule.items():
            if self._due.get(name, now) <= now:
                self._due[name] = now + float(self.app.conf.beat_schedule[name]["schedule"])
                self.apply_entry(entry, producer=self.producer)
        next_due = min(self._due.values(), default=now + GAP_SECONDS)
        return min(max(0.0, next_due - time.monotonic()), GAP_SECONDS)
