"""Send wake-up hints to workers by task name; the table decides what is due."""

import logging

from django.db import transaction
from kombu.exceptions import OperationalError

from dbops.celery import app
from dbops.messaging.hints import TASKS

log = logging.getLogger(__name__)


def nudge() -> None:
    """Request a reconcile after the current transaction commits, so that a click does not wait for beat."""
    transaction.on_commit(lambda: publish("reconcile"))


def publish_discovery(discovery_id: int) -> None:
    """Request a discovery after the current transaction commits."""
    transaction.on_commit(lambda: publish("discover", discovery_id))


def publish_test(test_id: int) -> None:
    """Request a connection test after the current transaction commits."""
    transaction.on_commit(lambda: publish("test_connection", test_id))


def publish_wait_reading(reading_id: int) -> None:
    """Request the first reading of wait events after the current transaction commits."""
    transaction.on_commit(lambda: publish("read_waits", reading_id))


def publish_digest_reading(reading_id: int) -> None:
    """Request a reading of top statements after the current transaction commits."""
    transaction.on_commit(lambda: publish("read_digests", reading_id))


def publish(task: str, *ids: int) -> bool:
    """Send a hint. If the broker is unreachable or its queue is full, beat and the reconciler catch up later.

    Args:
        task: name of a function in ``dbops.worker.tasks``.
        ids: its arguments.

    Returns:
        Whether the broker has it.
    """
    try:
        app.send_task(f"{TASKS}.{task}", args=ids, ignore_result=True)
    except (OperationalError, OSError) as error:
        log.warning("publishing %s: %s", task, error)
        return False
    return True
