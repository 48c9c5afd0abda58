"""Wake-up hints to workers, sent by task name: a message says that something may be due, the table says whether it is."""

import logging

from django.db import transaction
from kombu.exceptions import OperationalError

from dbops.celery import app

log = logging.getLogger(__name__)

#: Where the worker's tasks are registered.
TASKS = "dbops.worker.tasks"


def nudge() -> None:
    """Ask for a reconcile once the current transaction is committed: a click need not wait for beat."""
    transaction.on_commit(lambda: publish("reconcile"))


def publish_discovery(discovery_id: int) -> None:
    """Ask for a discovery once the current transaction is committed."""
    transaction.on_commit(lambda: publish("discover", discovery_id))


def publish_test(test_id: int) -> None:
    """Ask for a test of a connection once the current transaction is committed."""
    transaction.on_commit(lambda: publish("test_connection", test_id))


def publish(task: str, *ids: int) -> None:
    """Send a hint. While the broker is unreachable nothing is lost: beat and the reconciler catch up.

    Args:
        task: name of a function in ``dbops.worker.tasks``.
        ids: its arguments.
    """
    try:
        app.send_task(f"{TASKS}.{task}", args=ids, expires=30, ignore_result=True)
    except (OperationalError, OSError) as error:
        log.warning("publishing %s: %s", task, error)
