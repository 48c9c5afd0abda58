"""Celery's tasks: thin. A message is a hint that something may be due; the table says whether it is."""

import logging

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from dbops import (
    audit_witnesses,
    backing_up,
    connection_tests,
    counting,
    discovering,
    due_backups,
    due_links,
    due_proofs,
    lifecycle,
    probing,
    proving,
    runner,
    scheduler,
    sweeping,
    weekly,
)
from dbops.celery import app
from dbops.pending import pending

log = logging.getLogger(__name__)


@app.task
def tick(rebuild_id: int) -> None:
    """Drive one rebuild for a while, and ask for the next tick when there is more to do."""
    if runner.tick(rebuild_id):
        publish_tick(rebuild_id)


@app.task
def back_up(run_id: int) -> None:
    """Drive one backup run for a while, and ask for the next tick when there is more to do."""
    if backing_up.tick(run_id):
        _publish(back_up, run_id)


@app.task
def prove(proof_id: int) -> None:
    """Drive one proof of a backup for a while, and ask for the next tick when there is more to do."""
    if proving.tick(proof_id):
        _publish(prove, proof_id)


@app.task
def reconcile() -> None:
    """Queue the backups that are due, start what can start, and publish ticks that are due and have no living owner."""
    if not pending(timezone.now()):
        return
    due_backups.queue_due(timezone.now())
    scheduler.start_what_can()
    due_proofs.start_what_can()
    for rebuild_id in lifecycle.due(timezone.now()):
        publish_tick(rebuild_id)
    for run_id in lifecycle.due_runs(timezone.now()):
        _publish(back_up, run_id)
    for proof_id in lifecycle.due_proofs(timezone.now()):
        _publish(prove, proof_id)
    for rebuild_id in lifecycle.sweeps_due(timezone.now()):
        _publish(sweep, rebuild_id)
    for discovery_id in discovering.discoveries_due():
        _publish(discover, discovery_id)
    for test_id in connection_tests.tests_due():
        _publish(test_connection, test_id)


@app.task
def sweep(rebuild_id: int) -> None:
    """Clean up after a rebuild that ended while a host was silent."""
    sweeping.sweep_one(rebuild_id)


@app.task
def discover(discovery_id: int) -> None:
    """Follow replication from the address that a person gave."""
    discovering.run_discovery(discovery_id)


@app.task
def test_connection(test_id: int) -> None:
    """Make the test that a person asked for."""
    connection_tests.run_test(test_id)


@app.task
def probe_due() -> None:
    """Probe the instances that are due."""
    probing.probe_due()


@app.task
def watch_backups() -> None:
    """Look at due times that nobody met, at reporters that fell silent, and at what takes too long."""
    now = timezone.now()
    lifecycle.watch_schedules(now)
    lifecycle.end_silent_reports(now)
    lifecycle.flag_running(now)


@app.task
def measure_links() -> None:
    """Queue a measurement of the stream that is due and can begin now; ``reconcile`` sends it to a worker."""
    due_links.queue_due(timezone.now())


@app.task
def queue_proofs() -> None:
    """Queue the proofs of backups that are due; ``reconcile`` starts them."""
    due_proofs.queue_due(timezone.now())


@app.task
def send_audit_head() -> None:
    """Have the audit log's head kept outside of this machine."""
    audit_witnesses.send_head()


@app.task
def count_availability() -> None:
    """Count the gaps of days that are over."""
    counting.count_days(timezone.now(), seconds=settings.TICK_SECONDS)


@app.task
def send_weekly_report() -> None:
    """Send the report of the last week, once."""
    weekly.send_report(timezone.now())


def publish_tick(rebuild_id: int) -> None:
    _publish(tick, rebuild_id)


def nudge() -> None:
    """Ask for a reconcile once the current transaction is committed: a click need not wait for beat."""
    transaction.on_commit(lambda: _publish(reconcile))


def publish_discovery(discovery_id: int) -> None:
    """Ask for a discovery once the current transaction is committed."""
    transaction.on_commit(lambda: _publish(discover, discovery_id))


def publish_test(test_id: int) -> None:
    """Ask for a test of a connection once the current transaction is committed."""
    transaction.on_commit(lambda: _publish(test_connection, test_id))


def _publish(task: object, *arguments: int) -> None:
    """Send a hint. When the broker is away, beat and the reconciler make it good: nothing is lost."""
    try:
        task.apply_async(args=arguments, expires=30)  # type: ignore[attr-defined]
    except (OperationalError, OSError) as error:
        log.warning("publishing %s: %s", task, error)
