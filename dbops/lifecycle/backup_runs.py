"""Managed backup runs: queue, driver's writes, end, and later removal.

``lifecycle.starts`` takes the holds: a backup run and a rebuild never have one instance.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models import F

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.methods import METHODS
from dbops.engine.phrases import phrase
from dbops.engine.states import FINAL, LATE, RUN_ACTIVE, RUN_FINAL, Level, RunBy, RunOrigin, RunStatus
from dbops.lifecycle import leases
from dbops.lifecycle.events import log_event, save_events
from dbops.lifecycle.leases import Lease, Update
from dbops.lifecycle.run_flags import flag
from dbops.lifecycle.run_schedules import create_due_run
from dbops.models import BackupRun, BackupSchedule, Hold, LoadTest, Rebuild, RestoreTest
from dbops.models.phrases import with_phrases

RunLease: TypeAlias = Lease[BackupRun]

LEVELS = {RunStatus.SUCCEEDED: Level.INFO, RunStatus.CANCELLED: Level.WARNING}


# ---- the queue -------------------------------------------------------------------------------------------------------


def queue(
    schedule: BackupSchedule,
    text: str,
    *,
    due_at: datetime | None = None,
    actor: Any = None,
    since: datetime | None = None,
) -> BackupRun | None:
    """Create a queued run of a schedule, in the caller's transaction.

    Args:
        schedule: locked by the caller if concurrent requests are possible (``lock_schedule``).
        text: the first line of its history.
        due_at: its due time; a second run of one due time is not written, and ``None`` is returned.
        actor: the user who requested it, if any.
        since: the time from which the schedule waits, for its queue position. Where a newer occurrence takes the place of one
            that is still queued, it also takes its queue position; otherwise a busy source would delay it forever.
    """
    queued_at = since or clock.now()
    run = create_due_run(schedule, RunOrigin.MANAGED, RunStatus.QUEUED, due_at, requested_by=actor, queued_at=queued_at)
    if run is not None:
        log_event(run, text)
    return run


def lock_schedule(schedule_id: int) -> BackupSchedule | None:
    """Lock a schedule and return it, so that no other process changes it or queues runs of it until the transaction ends."""
    return BackupSchedule.objects.select_for_update().filter(pk=schedule_id).first()


def active_runs(schedule: BackupSchedule) -> list[BackupRun]:
    """Return the active managed runs of a schedule, oldest first."""
    rows = BackupRun.objects.filter(schedule=schedule, origin=RunOrigin.MANAGED).exclude(status__in=RUN_FINAL)
    return list(rows.order_by("pk"))


def move_next_due(schedule: BackupSchedule, next_due_at: datetime | None) -> bool:
    """Move the next due time from the known one. The process that moves it creates the due runs."""
    rows = BackupSchedule.objects.filter(pk=schedule.pk, next_due_at=schedule.next_due_at, is_enabled=True)
    return bool(rows.update(next_due_at=next_due_at))


def write_missed(schedule: BackupSchedule, due_times: Iterable[datetime], reason: str) -> list[BackupRun]:
    """Create a missed run for each due time with the reason, in the caller's transaction. Return them.

    ``audit_missed`` records them in the audit log at the end of the transaction.
    """
    now, missed = clock.now(), []
    for due_at in due_times:
        run = create_due_run(schedule, RunOrigin.MANAGED, RunStatus.MISSED, due_at, finished_at=now, outcome=reason)
        if run is not None:
            log_event(run, phrase("Missed: {reason}", reason=reason), level=Level.WARNING)
            missed.append(run)
    return missed


def audit_missed(missed: Iterable[BackupRun]) -> None:
    """Record missed runs in the audit log, at the end of the transaction that created them."""
    for run in missed:
        _audit(run, RunStatus.MISSED, due_at=_when(run.due_at), outcome=run.outcome)


def _when(moment: datetime | None) -> str:
    return moment.isoformat(timespec="minutes") if moment else ""


def end_queued(run: BackupRun, status: RunStatus, text: str) -> bool:
    """Cancel a queued run, or mark it as missed. Return whether it was still queued."""
    with transaction.atomic():
        moved = (
            locked(BackupRun, run.pk)
            .filter(status=RunStatus.QUEUED)
            .update(
                status=status,
                finished_at=clock.now(),
                waiting_for="",
                revision=F("revision") + 1,
                **with_phrases(outcome=text),
            )
        )
        if moved:
            log_event(run, text, level=Level.WARNING)
            if status == RunStatus.MISSED:  # operations record cancelled runs with their actor
                _audit(run, status, outcome=text)
    return bool(moved)


def flag_late(now: datetime) -> None:
    """Flag queued runs that start later than their schedules allow. One query if there is none."""
    waiting = BackupRun.objects.filter(status=RunStatus.QUEUED, origin=RunOrigin.MANAGED, flags=[], due_at__lt=now)
    rows = waiting.order_by().values_list("pk", "due_at", "schedule__late_after_seconds")
    late = [pk for pk, due_at, patience in rows if due_at and due_at + timedelta(seconds=patience or 0) < now]
    if late:
        BackupRun.objects.filter(pk__in=late, status=RunStatus.QUEUED, flags=[]).update(
            flags=[LATE], revision=F("revision") + 1
        )


def request_cancel(run: BackupRun, by: str) -> bool:
    """Request the stop of a run from its driver. Return whether the request is new."""
    now = clock.now()
    with transaction.atomic():
        at_work = locked(BackupRun, run.pk).filter(
            origin=RunOrigin.MANAGED, status__in=(RunStatus.RUNNING, RunStatus.LOST)
        )
        asked = at_work.filter(cancel_requested_at=None).update(
            cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now, revision=F("revision") + 1
        )
        if asked:
            log_event(run, phrase("Stop requested by {by}.", by=by), level=Level.WARNING)
    return bool(asked)


def run_again(rebuild: Rebuild) -> None:
    """Queue the backup that was stopped for a rebuild again, once, after the rebuild ends.

    In the caller's transaction.
    """
    schedule_id = Rebuild.objects.filter(pk=rebuild.pk).values_list("requeue_schedule_id", flat=True).first()
    if schedule_id is None:
        return
    Rebuild.objects.filter(pk=rebuild.pk).update(requeue_schedule=None)
    schedule = lock_schedule(schedule_id)
    if schedule is None:
        return
    waiting = next((run for run in active_runs(schedule) if run.status == RunStatus.QUEUED), None)
    if schedule.run_by != RunBy.DBOPS:
        log_event(
            rebuild,
            phrase(
                "External backup {schedule} was stopped for this rebuild. Start it again on its host.",
                schedule=schedule.name,
            ),
        )
    elif waiting is not None:
        log_event(
            rebuild,
            phrase(
                "Backup {schedule} was stopped for this rebuild. Backup run {run} is already queued.",
                schedule=schedule.name,
                run=waiting.pk,
            ),
        )
    else:
        run = queue(
            schedule, phrase("Queued again after rebuild {rebuild}, for which it was stopped.", rebuild=rebuild.pk)
        )
        log_event(
            rebuild,
            phrase(
                "Backup {schedule} was stopped for this rebuild. Queued again as backup run {run}.",
                schedule=schedule.name,
                run=run.pk if run else "?",
            ),
        )


# ---- driving ---------------------------------------------------------------------------------------------------------


def due(now: datetime) -> list[int]:
    """Return the ids of managed runs with due work and without a living driver."""
    return leases.due(BackupRun, now)


def take_lease(run_id: int) -> RunLease | None:
    """Become the driver of a run; ``None`` if it has a living driver or no due work."""
    return leases.take(BackupRun, run_id, "instance__host", "instance__cluster", "schedule")


def finish(lease: RunLease, status: RunStatus, outcome: str, update: Update) -> None:
    """End a run: set its final status, release its hold, and record it in the audit log.

    Raises ``LeaseLost`` or ``Bug``.
    """
    run = lease.run
    with transaction.atomic():
        leases.finish(lease, status, update, **with_phrases(outcome=outcome))
        Hold.objects.filter(backup_run=run).delete()
        log_event(
            run,
            phrase("Backup {ended}. {outcome}", ended=_ended(status), outcome=outcome),
            level=LEVELS.get(status, Level.ERROR),
        )
        run.refresh_from_db()
        flag(run)
        _audit(run, status, outcome=outcome, error=update.changes.get("error", {}))


def write_late_update(run: BackupRun, update: Update) -> None:
    """Add events after the end of a run. Its driver can no longer change its columns."""
    if update.events:
        with transaction.atomic():
            save_events(update.events)
            BackupRun.objects.filter(pk=run.pk).update(revision=F("revision") + 1)


def _ended(status: RunStatus) -> str:
    return {RunStatus.SUCCEEDED: phrase("succeeded"), RunStatus.CANCELLED: phrase("stopped")}.get(
        status, phrase("failed")
    )


def _audit(run: BackupRun, status: RunStatus, **detail: Any) -> None:
    schedule = run.schedule.name if run.schedule else ""
    append(
        actor=SYSTEM,
        action=f"backup.{status}",
        subject=run.instance.name,
        detail={"backup_run": run.pk, "schedule": schedule, **detail},
    )


def force_fail(run: BackupRun, by: str) -> bool:
    """Mark a ``lost`` run as failed without its host. Return whether it was lost.

    The next run of the instance stops its job and removes its partial file.
    """
    outcome = phrase(
        "Marked as failed by {by} while the host was unreachable. Processes may still be running there.", by=by
    )
    with transaction.atomic():
        moved = (
            locked(BackupRun, run.pk)
            .filter(origin=RunOrigin.MANAGED, status=RunStatus.LOST)
            .update(
                status=RunStatus.FAILED,
                finished_at=clock.now(),
                revision=F("revision") + 1,
                **with_phrases(outcome=outcome),
                **leases.NO_LEASE,
            )
        )
        if moved:
            Hold.objects.filter(backup_run=run).delete()
            log_event(run, outcome, level=Level.ERROR)
            _audit(run, RunStatus.FAILED, outcome=outcome)
    return bool(moved)


# ---- files -----------------------------------------------------------------------------------------------------------


def kept_runs(schedule: BackupSchedule) -> list[BackupRun]:
    """Return the runs of a schedule with published files and no recorded removal, newest first."""
    rows = BackupRun.objects.filter(schedule=schedule, origin=RunOrigin.MANAGED, status=RunStatus.SUCCEEDED)
    return list(rows.filter(removed_at=None).exclude(path="").order_by("-started_at", "-pk"))


def runs_being_read() -> set[int]:
    """Return the runs whose files active rebuilds, restore tests or load tests read: their files must stay."""
    readers = [name for name, method in METHODS.items() if method.reads.backup]
    plans = Rebuild.objects.exclude(status__in=FINAL).filter(method__in=readers).values_list("plan", flat=True)
    restore_tested = RestoreTest.objects.exclude(run_slot=None).values_list("run_id", flat=True)
    load_tested = LoadTest.objects.filter(status__in=RUN_ACTIVE, run__isnull=False).values_list("run_id", flat=True)
    return {plan["archive"]["run"] for plan in plans if plan.get("archive")} | {*restore_tested, *load_tested}


def leftovers(run: BackupRun) -> list[BackupRun]:
    """Return ended runs of the same instance that may have leftovers on the host."""
    ended = BackupRun.objects.filter(instance=run.instance, origin=RunOrigin.MANAGED, removed_at=None).exclude(path="")
    return list(ended.filter(status__in=(RunStatus.FAILED, RunStatus.CANCELLED)).order_by("pk"))


def mark_removed(run: BackupRun, text: str) -> None:
    """Record that the file of an ended run was removed, and why."""
    with transaction.atomic():
        if BackupRun.objects.filter(pk=run.pk, removed_at=None).update(
            removed_at=clock.now(), revision=F("revision") + 1
        ):
            log_event(run, text)
