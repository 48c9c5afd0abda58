"""What workers and beat report of themselves: a row each, so that pages can say when one of them is away.

A worker reports with each task that it begins, beat with each tick: what is stuck does not report. Neither waits or fails for it.
"""

import logging
import time
from typing import Any

from celery import Task
from celery.beat import PersistentScheduler
from django.db import DatabaseError, IntegrityError, InterfaceError
from django.utils import timezone

from dbops import lifecycle
from dbops.models import Pulse

log = logging.getLogger(__name__)

WORKER, BEAT = "worker", "beat"
#: A process writes at most this often.
GAP_SECONDS = 5.0
_last: dict[str, float] = {}


def report(name: str) -> None:
    """Write that a process of this name lives. Never raises for a database that does not answer."""
    if time.monotonic() - _last.get(name, float("-inf")) < GAP_SECONDS:
        return
    _last[name] = time.monotonic()
    now = timezone.now()
    try:
        if not Pulse.objects.filter(pk=name).update(at=now):
            Pulse.objects.create(name=name, at=now)
    except IntegrityError:
        pass  # another process was the first
    except (DatabaseError, InterfaceError) as error:
        log.warning("reporting that %s lives: %s", name, error)
        lifecycle.mend_connection()


class ReportingTask(Task):
    """A task whose begin is its worker's sign of life."""

    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        report(WORKER)


class ReportingScheduler(PersistentScheduler):
    """Celery's scheduler, which reports that it ticks."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        report(BEAT)
        return float(super().tick(*args, **kwargs))
