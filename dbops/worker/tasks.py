"""Celery tasks. A message is a hint that work may be due; the tables decide."""

from datetime import timedelta

from django.conf import settings

from dbops.audit import head_export
from dbops.celery import app
from dbops.database import clock
from dbops.lifecycle import (
    audit_sinks,
    backup_runs,
    cleanups,
    inventory_sources,
    load_tests,
    notification_deliveries,
    rebuild_driver,
    restore_tests,
    row_comparisons,
    run_flags,
    run_reports,
    run_schedules,
)
from dbops.messaging import wakeups
from dbops.worker import (
    audit_sender,
    availability_rollup,
    capacity_forecast,
    capacity_rollup,
    cleanup,
    digest_readings,
    discovery,
    due_backups,
    due_link_tests,
    due_load_tests,
    due_restore_tests,
    heartbeats,
    load_test_leftovers,
    notification_sender,
    notification_watch,
    prober,
    scheduler,
    trace_sender,
    wait_readings,
)
from dbops.worker.backups import BackupDriver
from dbops.worker.connection_tests import runner as connection_tests
from dbops.worker.drive import LONGEST_OUTAGE_SECONDS, drive
from dbops.worker.inventory_sources import read_source
from dbops.worker.load_tests import LoadTestDriver
from dbops.worker.pending import NOTIFICATION, SINK, SOURCE, pending
from dbops.worker.rebuilds import RebuildDriver
from dbops.worker.restore_tests import RestoreTestDriver
from dbops.worker.row_comparisons import ComparisonDriver

#: ``drive`` limits each tick itself.
SOFT_LIMIT = LONGEST_OUTAGE_SECONDS + settings.CELERY_TASK_SOFT_TIME_LIMIT
LIMIT = LONGEST_OUTAGE_SECONDS + settings.CELERY_TASK_TIME_LIMIT


@app.task(soft_time_limit=SOFT_LIMIT, time_limit=LIMIT)
def drive_rebuild(rebuild_id: int) -> None:
    """Drive one rebuild for a while, and request the next tick if there is more work."""
    drive(RebuildDriver.tick, rebuild_id, lambda: wakeups.publish("drive_rebuild", rebuild_id))


@app.task(soft_time_limit=SOFT_LIMIT, time_limit=LIMIT)
def drive_backup(run_id: int) -> None:
    """Drive one backup run for a while, and request the next tick if there is more work."""
    drive(BackupDriver.tick, run_id, lambda: wakeups.publish("drive_backup", run_id))


@app.task(soft_time_limit=SOFT_LIMIT, time_limit=LIMIT)
def drive_restore_test(restore_test_id: int) -> None:
    """Drive one restore test for a while, and request the next tick if there is more work."""
    drive(RestoreTestDriver.tick, restore_test_id, lambda: wakeups.publish("drive_restore_test", restore_test_id))


@app.task(soft_time_limit=SOFT_LIMIT, time_limit=LIMIT)
def drive_load_test(load_test_id: int) -> None:
    """Drive one load test for a while, and request the next tick if there is more work."""
    drive(LoadTestDriver.tick, load_test_id, lambda: wakeups.publish("drive_load_test", load_test_id))


@app.task(soft_time_limit=SOFT_LIMIT, time_limit=LIMIT)
def drive_comparison(comparison_id: int) -> None:
    """Drive one row comparison for a round, and request the next one if it is due."""
    drive(ComparisonDriver.tick, comparison_id, lambda: wakeups.publish("drive_comparison", comparison_id))


@app.task
def reconcile() -> None:
    """Queue due backups, start queued jobs, and send ticks for due rows without a living driver."""
    kinds = pending(clock.now())
    if SINK in kinds:
        for sink in audit_sinks.due(clock.now()):
            wakeups.publish("send_audit", sink.pk)
    if SOURCE in kinds:
        for source in inventory_sources.due(clock.now()):
            wakeups.publish("read_inventory_source", source.pk)
    if NOTIFICATION in kinds:
        wakeups.publish("send_notifications")
    if not kinds - {SINK, SOURCE, NOTIFICATION}:
        return
    due_backups.queue_due(clock.now())
    scheduler.start_what_can()
    due_restore_tests.start_what_can()
    due_load_tests.start_what_can()
    row_comparisons.start_what_can()
    for rebuild_id in rebuild_driver.due(clock.now()):
        wakeups.publish("drive_rebuild", rebuild_id)
    for run_id in backup_runs.due(clock.now()):
        wakeups.publish("drive_backup", run_id)
    for restore_test_id in restore_tests.due(clock.now()):
        wakeups.publish("drive_restore_test", restore_test_id)
    for load_test_id in load_tests.due(clock.now()):
        wakeups.publish("drive_load_test", load_test_id)
    for comparison_id in row_comparisons.due(clock.now()):
        wakeups.publish("drive_comparison", comparison_id)
    for rebuild_id in cleanups.sweeps_due(clock.now()):
        wakeups.publish("sweep", rebuild_id)
    for discovery_id in discovery.discoveries_due():
        wakeups.publish("discover", discovery_id)
    for test_id in connection_tests.tests_due():
        wakeups.publish("test_connection", test_id)
    for reading_id in wait_readings.readings_due(clock.now()):
        wakeups.publish("read_waits", reading_id)
    for reading_id in digest_readings.readings_due(clock.now()):
        wakeups.publish("read_digests", reading_id)


@app.task
def sweep(rebuild_id: int) -> None:
    """Clean up after a rebuild that ended while a host was silent."""
    cleanup.sweep_one(rebuild_id)


@app.task
def discover(discovery_id: int) -> None:
    """Discover the topology from an address that a person entered."""
    discovery.run_discovery(discovery_id)


@app.task
def test_connection(test_id: int) -> None:
    """Run a requested connection test."""
    connection_tests.run_test(test_id)


@app.task
def read_waits(reading_id: int) -> None:
    """Take a requested reading of wait events."""
    wait_readings.take_reading(reading_id)


@app.task
def read_digests(reading_id: int) -> None:
    """Take a requested reading of top statements."""
    digest_readings.take_reading(reading_id)


@app.task
def count_dropped_messages(number: int) -> None:
    """Count messages that workers dropped because dbops had not sent them."""
    heartbeats.count_dropped(number)


@app.task
def probe_due() -> None:
    """Probe the instances that are due."""
    prober.probe_due()


@app.task
def watch_backups() -> None:
    """Check missed due times, silent reporters, and runs that take too long."""
    now = clock.now()
    run_schedules.watch_schedules(now)
    run_reports.end_silent_reports(now)
    run_flags.flag_running(now)


@app.task
def queue_link_tests() -> None:
    """Queue a due stream measurement that can begin now; ``reconcile`` sends it to a worker."""
    due_link_tests.queue_due(clock.now())


@app.task
def queue_restore_tests() -> None:
    """Queue due restore tests; ``reconcile`` starts them."""
    due_restore_tests.queue_due(clock.now())


@app.task
def sweep_load_tests() -> None:
    """Remove what load tests left on hosts that did not answer."""
    load_test_leftovers.sweep(seconds=settings.TICK_SECONDS)


@app.task
def send_audit(sink_id: int) -> None:
    """Send new audit entries to one sink."""
    audit_sender.send_new(sink_id, seconds=settings.TICK_SECONDS)


@app.task
def read_inventory_source(source_id: int) -> None:
    """Read one inventory source."""
    read_source(source_id)


@app.task
def send_audit_head() -> None:
    """Send the audit log's head to its external witness."""
    head_export.send_head()


@app.task
def count_availability() -> None:
    """Count the gaps of finished days."""
    availability_rollup.count_days(clock.now(), seconds=settings.TICK_SECONDS)


@app.task
def forecast_capacity() -> None:
    """Compute due capacity forecasts, and thin out old readings."""
    capacity_forecast.forecast_due(clock.now(), seconds=settings.TICK_SECONDS / 2)
    capacity_rollup.thin(clock.now(), seconds=settings.TICK_SECONDS / 2)


@app.task
def watch_notifications() -> None:
    """Look for events that rules want to be sent."""
    notification_watch.watch()


@app.task
def send_notifications() -> None:
    """Send due notifications and heartbeats."""
    notification_sender.send_due(seconds=settings.TICK_SECONDS)


@app.task
def trim_notifications() -> None:
    """Remove old deliveries and events."""
    notification_deliveries.trim(clock.now(), timedelta(days=settings.NOTIFICATION_KEEP_DAYS))


@app.task
def send_traces() -> None:
    """Send the traces of finished rebuilds to the collector."""
    trace_sender.send_due()
