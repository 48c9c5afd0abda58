"""Queue due restore tests, and start queued ones, one at a time on each host."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from dbops.engine.restore_tests.due import LastRestoreTest, RestoreTestCandidate, due_runs
from dbops.engine.states import RUN_ACTIVE, BackupMethod, RunStatus
from dbops.lifecycle import restore_tests
from dbops.loaders.plan_inputs import readable_runs
from dbops.models import BackupRun, Hold, LoadTest, RestoreTest


def queue_due(now: datetime) -> list[int]:
    """Queue a restore test for every source that is due. Return their ids.

    A second call, even at the same time in another process, queues nothing more: a run has at most one active restore
    test.
    """
    if settings.RESTORE_TEST_INTERVAL_SECONDS <= 0:
        return []
    interval = timedelta(seconds=settings.RESTORE_TEST_INTERVAL_SECONDS)
    due = due_runs(_candidates(), _attempts(), now=now, interval=interval)
    restore_tests = [_queue(run_id) for run_id in due]
    return [restore_test.pk for restore_test in restore_tests if restore_test is not None]


def _candidates() -> list[RestoreTestCandidate]:
    """Return the newest testable backup of each source. Retention keeps the number of rows small."""
    rows = readable_runs().filter(method=BackupMethod.PHYSICAL, started_at__isnull=False).order_by("started_at", "pk")
    newest = {source: (run, started) for run, source, started in rows.values_list("pk", "instance_id", "started_at")}
    return [RestoreTestCandidate(source, run, started) for source, (run, started) in newest.items() if started]


def _attempts() -> dict[int, LastRestoreTest]:
    """Return the newest restore test of each source. Two queries."""
    newest = [row["last"] for row in RestoreTest.objects.order_by().values("source").annotate(last=Max("pk"))]
    return {
        restore_test.source_id: LastRestoreTest(
            restore_test.run_id,
            is_over=restore_test.status not in RUN_ACTIVE,
            is_good=restore_test.status == RunStatus.SUCCEEDED,
            at=restore_test.finished_at or restore_test.requested_at,
            code=restore_test.error.get("code", ""),
        )
        for restore_test in RestoreTest.objects.filter(pk__in=newest).order_by().defer("checkpoint", "steps", "result")
    }


def _queue(run_id: int) -> RestoreTest | None:
    with transaction.atomic():
        run = (
            BackupRun.objects.select_related("instance__host", "instance__cluster")
            .filter(pk=run_id, removed_at=None)
            .first()
        )
        return restore_tests.queue(run, "Restore test is due.") if run else None


def start_what_can() -> list[int]:
    """Start the oldest queued restore test of each idle host. Return their ids."""
    queued = list(
        RestoreTest.objects.filter(status=RunStatus.QUEUED).select_related("host", "source__host").order_by("pk")
    )
    if not queued:
        return []
    holds = {hold.instance.host_id: hold for hold in Hold.objects.select_related("instance")}
    restore_tested = dict(RestoreTest.objects.exclude(host_slot=None).values_list("host_slot", "pk"))
    load_tests = LoadTest.objects.exclude(host_slot=None).values_list("pk", "host_slot", "generator_host")
    load_tested = {host: pk for pk, *hosts in load_tests for host in hosts}
    begun = []
    for restore_test in queued:
        if other := restore_tested.get(restore_test.host_id):
            restore_tests.delay(restore_test, f"restore test {other} runs on {restore_test.host.name}")
        elif load_test := load_tested.get(restore_test.host_id):
            restore_tests.delay(restore_test, f"load test {load_test} runs on {restore_test.host.name}")
        elif hold := holds.get(restore_test.host_id) or holds.get(restore_test.source.host_id):
            what = f"rebuild {hold.rebuild_id}" if hold.rebuild_id else f"backup run {hold.backup_run_id}"
            restore_tests.delay(restore_test, f"{what} uses {hold.instance.name}")
        elif restore_tests.start(restore_test):
            restore_tested[restore_test.host_id] = restore_test.pk
            begun.append(restore_test.pk)
    return begun
