"""Operations on backup runs and restore tests: run, stop, mark as failed, mark as ended, test."""

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.flavors.tidb import not_offered
from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_FINAL, Role, RunBy, RunOrigin, RunStatus
from dbops.lifecycle import backup_runs, external_runs, restore_tests
from dbops.messaging.wakeups import nudge
from dbops.models import BackupRun, BackupSchedule, RestoreTest
from dbops.operations.audit import NO_REASON, says_why
from dbops.security.permissions import require_operator


def run_now(schedule: BackupSchedule, actor: User, reason: str = "") -> BackupRun:
    """Queue a run of a schedule that dbops runs; it starts when its instance is free.

    Raises:
        Refused: ``access.denied``, the instance is a TiDB node (``flavor.tidb``), the schedule is external (``backup.external``),
            or a run of it is queued or running (``backup.active``).
    """
    operation = phrase("Running backup schedule {schedule}", schedule=schedule.name)
    require_operator(actor, operation, schedule.instance.cluster_id)
    if schedule.instance.role == Role.TIDB:
        raise not_offered(operation)
    if schedule.run_by != RunBy.DBOPS:
        found = phrase("an external cron job runs this schedule")
        raise Refused.unchanged("backup.external", operation, found)
    name = actor.get_username()
    with transaction.atomic():
        locked = backup_runs.lock_schedule(schedule.pk)
        active = backup_runs.active_runs(schedule)
        if locked is None or active:
            found = (
                phrase("backup run {active} of this schedule is {status}", active=active[0].pk, status=active[0].status)
                if active
                else phrase("the schedule was removed")
            )
            raise Refused.unchanged("backup.active", operation, found)
        run = backup_runs.queue(
            locked,
            phrase("Requested by {name}{reason}", name=name, reason=f": {reason}" if reason else "."),
            actor=actor,
        )
        assert run is not None  # noqa: S101 - only due times are unique
        _record(actor, "backup.requested", run, reason, schedule=schedule.name)
        nudge()
    return run


def stop_run(run: BackupRun, actor: User, reason: str) -> None:
    """Stop a managed run: at once while queued, through its driver within seconds while running.

    Its file is removed.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), the run is external (``backup.not_ours``), or it has
            ended (``backup.ended``).
    """
    operation = phrase("Stopping backup run {run}", run=run.pk)
    require_operator(actor, operation, run.instance.cluster_id)
    _must_be_ours(run, operation)
    _must_have_reason(reason, operation)
    name = actor.get_username()
    with transaction.atomic():
        text = phrase("Cancelled by {name} before it started: {reason}", name=name, reason=reason.strip())
        asked = backup_runs.end_queued(run, RunStatus.CANCELLED, text) or backup_runs.request_cancel(run, name)
        if asked:
            _record(actor, "backup.stop_requested", run, reason)
            nudge()
    run.refresh_from_db()
    if not asked and run.status in RUN_FINAL:
        raise Refused.unchanged("backup.ended", operation, phrase("the run has ended ({status})", status=run.status))


def force_fail_run(run: BackupRun, actor: User, reason: str) -> None:
    """Mark a lost run as failed. The next run of the instance stops its processes and removes its file.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), or the run is not lost (``backup.not_lost``).
    """
    operation = phrase("Marking backup run {run} as failed", run=run.pk)
    require_operator(actor, operation, run.instance.cluster_id)
    _must_have_reason(reason, operation)
    name = actor.get_username()
    with transaction.atomic():
        ended = backup_runs.force_fail(run, name)
        if ended:
            _record(actor, "backup.force_failed", run, reason)
    if not ended:
        run.refresh_from_db()
        found = phrase("the run is {status}, not lost", status=run.status)
        raise Refused.unchanged("backup.not_lost", operation, found)


def mark_run_ended(run: BackupRun, actor: User, reason: str) -> None:
    """Mark an external run as ended. It continues if a probe or a report sees it again.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), dbops manages the run (``backup.ours``), or it has ended
            (``backup.ended``).
    """
    operation = phrase("Marking backup run {run} as ended", run=run.pk)
    require_operator(actor, operation, run.instance.cluster_id)
    if run.origin == RunOrigin.MANAGED:
        found = phrase("dbops manages this run and detects its end")
        raise Refused.unchanged("backup.ours", operation, found)
    _must_have_reason(reason, operation)
    name = actor.get_username()
    with transaction.atomic():
        ended = external_runs.mark_ended(run, name)
        if ended:
            _record(actor, "backup.marked_ended", run, reason)
            nudge()
    if not ended:
        raise Refused.unchanged("backup.ended", operation, phrase("the run has ended ({status})", status=run.status))


def request_restore_test(run: BackupRun, actor: User, reason: str = "") -> RestoreTest:
    """Queue a restore test of a finished physical backup. Return it, or the run's active restore test.

    Raises:
        Refused: ``access.denied``, or the run has no file of a physical backup made by dbops (``restore_test.no_backup``).
    """
    operation = phrase("Testing the restore of backup run {run}", run=run.pk)
    require_operator(actor, operation, run.instance.cluster_id)
    name = actor.get_username()
    with transaction.atomic():
        # Locked against retention, which marks the row after it removes the file.
        live = BackupRun.objects.select_for_update().select_related("instance__host").get(pk=run.pk)
        if why := live.why_not_testable:
            raise Refused.unchanged("restore_test.no_backup", operation, why)
        restore_test = restore_tests.queue(
            live, phrase("Requested by {name}{reason}", name=name, reason=f": {reason}" if reason else "."), by=name
        )
        if restore_test is not None:
            _record(actor, "restore_test.requested", live, reason, restore_test=restore_test.pk)
            nudge()
    found = restore_test or restore_tests.active(run)
    return found or request_restore_test(run, actor, reason)  # the active one has just ended


def stop_restore_test(restore_test: RestoreTest, actor: User, reason: str) -> None:
    """Stop a restore test: at once while queued or lost, through its driver within seconds while running.

    Its files are removed.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), or it has ended or is stopping (``restore_test.ended``).
    """
    operation = phrase("Stopping restore test {restore_test}", restore_test=restore_test.pk)
    require_operator(actor, operation, restore_test.run.instance.cluster_id)
    _must_have_reason(reason, operation)
    name = actor.get_username()
    with transaction.atomic():
        asked = restore_tests.stop(restore_test, name)
        if asked:
            _record(actor, "restore_test.stop_requested", restore_test.run, reason, restore_test=restore_test.pk)
            nudge()
    if not asked:
        raise Refused.unchanged("restore_test.ended", operation, phrase("the restore test has ended or is stopping"))


def _must_be_ours(run: BackupRun, operation: str) -> None:
    if run.origin != RunOrigin.MANAGED:
        found = phrase("this is an external backup")
        raise Refused.unchanged("backup.not_ours", operation, found)


def _must_have_reason(reason: str, operation: str) -> None:
    if not says_why(reason):
        raise Refused.unchanged("backup.reason", operation, NO_REASON)


def _record(actor: User, action: str, run: BackupRun, reason: str, **detail: Any) -> None:
    """Record an action on a backup run in the audit log."""
    append(
        actor=actor.get_username(),
        action=action,
        subject=run.instance.name,
        reason=reason.strip(),
        detail={"backup_run": run.pk, **detail},
    )
