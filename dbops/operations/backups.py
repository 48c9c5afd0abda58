"""Run a backup now, stop one, give up one whose host is silent, and say that one of others is over."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.states import RUN_FINAL, RunBy, RunOrigin, RunStatus
from dbops.lifecycle import backup_runs, external_runs, restore_tests
from dbops.messaging.wakeups import nudge
from dbops.models import BackupRun, BackupSchedule, RestoreTest
from dbops.operations.audit import says_why
from dbops.security.permissions import require_operator


def run_now(schedule: BackupSchedule, actor: User, reason: str = "") -> BackupRun:
    """Queue a run of a schedule that dbops runs; it starts as soon as its instance is free.

    Raises:
        Refused: ``access.denied``, the schedule is run by somebody else (``backup.external``), or a run of it waits or runs
            already (``backup.active``).
    """
    doing = f"Running the backup {schedule.name}"
    require_operator(actor, doing)
    if schedule.run_by != RunBy.DBOPS:
        found = "its runs are started by somebody else's cron"
        raise Refused.unchanged("backup.external", doing, found)
    name = actor.get_username()
    with transaction.atomic():
        locked = backup_runs.lock_schedule(schedule.pk)
        active = backup_runs.active_runs(schedule)
        if locked is None or active:
            found = f"backup run {active[0].pk} of it is {active[0].status}" if active else "it is gone"
            raise Refused.unchanged("backup.active", doing, found)
        run = backup_runs.queue(locked, f"Asked for by {name}{f': {reason}' if reason else '.'}", actor=actor)
        assert run is not None  # noqa: S101 - only a due time can be there twice
        append(
            actor=name,
            action="backup.requested",
            subject=schedule.instance.name,
            reason=reason,
            detail={"backup_run": run.pk, "schedule": schedule.name},
        )
        nudge()
    return run


def stop_run(run: BackupRun, actor: User, reason: str) -> None:
    """Stop a run that dbops makes: at once while it is queued, by its driver within seconds while it runs. Its file is removed.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), the run is not ours to stop (``backup.not_ours``), or it has
            ended (``backup.ended``).
    """
    doing = f"Stopping backup run {run.pk}"
    require_operator(actor, doing)
    _must_be_ours(run, doing)
    _must_have_reason(reason, doing)
    name = actor.get_username()
    with transaction.atomic():
        text = f"Cancelled by {name} before it started: {reason.strip()}"
        asked = backup_runs.end_queued(run, RunStatus.CANCELLED, text) or backup_runs.request_cancel(run, name)
        if asked:
            append(
                actor=name,
                action="backup.stop_requested",
                subject=run.instance.name,
                reason=reason.strip(),
                detail={"backup_run": run.pk},
            )
            nudge()
    run.refresh_from_db()
    if not asked and run.status in RUN_FINAL:
        raise Refused.unchanged("backup.ended", doing, f"it has ended: {run.status}")


def force_fail_run(run: BackupRun, actor: User, reason: str) -> None:
    """End a lost run without its host. The next run of the instance ends what still runs there, and removes its file.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), or it is not lost (``backup.not_lost``).
    """
    doing = f"Ending backup run {run.pk} without its host"
    require_operator(actor, doing)
    _must_have_reason(reason, doing)
    name = actor.get_username()
    with transaction.atomic():
        ended = backup_runs.force_fail(run, name)
        if ended:
            append(
                actor=name,
                action="backup.force_failed",
                subject=run.instance.name,
                reason=reason.strip(),
                detail={"backup_run": run.pk},
            )
    if not ended:
        run.refresh_from_db()
        found = f"it is {run.status}: its host is known, or it has ended"
        raise Refused.unchanged("backup.not_lost", doing, found)


def mark_run_ended(run: BackupRun, actor: User, reason: str) -> None:
    """End a run that dbops did not start and that a person knows to be over. It goes on if it is seen or reported again.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), dbops runs it itself (``backup.ours``), or it has ended
            (``backup.ended``).
    """
    doing = f"Ending backup run {run.pk}, which dbops did not start"
    require_operator(actor, doing)
    if run.origin == RunOrigin.MANAGED:
        found = "dbops runs it itself and knows whether it is over"
        raise Refused.unchanged("backup.ours", doing, found)
    _must_have_reason(reason, doing)
    name = actor.get_username()
    with transaction.atomic():
        ended = external_runs.mark_ended(run, name)
        if ended:
            append(
                actor=name,
                action="backup.marked_ended",
                subject=run.instance.name,
                reason=reason.strip(),
                detail={"backup_run": run.pk},
            )
            nudge()
    if not ended:
        raise Refused.unchanged("backup.ended", doing, f"it has ended: {run.status}")


def request_restore_test(run: BackupRun, actor: User, reason: str = "") -> RestoreTest:
    """Queue a proof of a finished physical backup. Return it, or the one of this run that is not over: a second click asks no more.

    Raises:
        Refused: ``access.denied``, or there is no file of a physical backup that dbops made (``restore_test.no_backup``).
    """
    doing = f"Proving backup run {run.pk}"
    require_operator(actor, doing)
    name = actor.get_username()
    with transaction.atomic():
        # locked against retention, which marks the row when it has removed the file
        live = BackupRun.objects.select_for_update().select_related("instance__host").get(pk=run.pk)
        if why := live.why_not_testable:
            raise Refused.unchanged("restore_test.no_backup", doing, why)
        restore_test = restore_tests.queue(
            live, f"Its proof was asked for by {name}{f': {reason}' if reason else '.'}", by=name
        )
        if restore_test is not None:
            subject = live.instance.name
            append(
                actor=name,
                action="restore_test.requested",
                subject=subject,
                reason=reason,
                detail={"restore_test": restore_test.pk, "backup_run": run.pk},
            )
            nudge()
    found = restore_test or restore_tests.active(run)
    return found or request_restore_test(run, actor, reason)  # the one that was there has ended in this moment


def stop_restore_test(restore_test: RestoreTest, actor: User, reason: str) -> None:
    """Stop a proof: at once while it waits or its host is silent, by its driver within seconds while it runs.

    Everything of it is removed.

    Raises:
        Refused: ``access.denied``, no reason (``backup.reason``), or it is over, or is being stopped (``restore_test.ended``).
    """
    doing = f"Stopping restore test {restore_test.pk}"
    require_operator(actor, doing)
    _must_have_reason(reason, doing)
    name = actor.get_username()
    with transaction.atomic():
        asked = restore_tests.stop(restore_test, name)
        if asked:
            append(
                actor=name,
                action="restore_test.stop_requested",
                subject=restore_test.source.name,
                reason=reason.strip(),
                detail={"restore_test": restore_test.pk, "backup_run": restore_test.run_id},
            )
            nudge()
    if not asked:
        raise Refused.unchanged("restore_test.ended", doing, "it has ended, or is being stopped")


def _must_be_ours(run: BackupRun, doing: str) -> None:
    if run.origin != RunOrigin.MANAGED:
        found = "dbops did not start it, and has only heard of it"
        raise Refused.unchanged("backup.not_ours", doing, found)


def _must_have_reason(reason: str, doing: str) -> None:
    if not says_why(reason):
        raise Refused.unchanged("backup.reason", doing, "no reason was given")
