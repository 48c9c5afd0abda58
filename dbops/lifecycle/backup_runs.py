"""Backup runs that dbops itself makes: the queue, the driver's writes, the end, and what was removed later.

``lifecycle.starts`` takes the holds: a backup run and a rebuild never have one instance.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from dbops.audit.log import SYSTEM, append
from dbops.database.errors import locked
from dbops.engine.methods import METHODS
from dbops.engine.states import FINAL, LATE, RUN_FINAL, Level, RunBy, RunOrigin, RunStatus
from dbops.lifecycle import leases
from dbops.lifecycle.events import log_event
from dbops.lifecycle.leases import Lease, Update
from dbops.lifecycle.run_flags import flag
from dbops.models import BackupEvent, BackupRun, BackupSchedule, Hold, Rebuild, RestoreTest

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
    """Write a queued run of a schedule, in the caller's transaction.

    Args:
        schedule: must be locked by the caller where two could ask at once (``lock_schedule``).
        text: the first line of its history.
        due_at: its due time; a second run of one due time is not written, and ``None`` is returned.
        actor: the user who asked for it, if any.
        since: the moment since which the schedule waits: its place in the line. Where a newer occurrence takes the place of one
            that still waited, it takes its place in the line too, or a busy source would put it off for ever.
    """
    now = timezone.now()
    try:
        with transaction.atomic():
            run = BackupRun.objects.create(
                uid=secrets.token_hex(8),
                instance=schedule.instance,
                schedule=schedule,
                origin=RunOrigin.MANAGED,
                method=schedule.method,
                status=RunStatus.QUEUED,
                requested_by=actor,
                due_at=due_at,
                queued_at=since or now,
            )
    except IntegrityError:
        return None
    log_event(run, text)
    return run


def lock_schedule(schedule_id: int) -> BackupSchedule | None:
    """Return a schedule that nobody else changes or queues runs of until the caller's transaction ends."""
    return BackupSchedule.objects.select_for_update().filter(pk=schedule_id).first()


def active_runs(schedule: BackupSchedule) -> list[BackupRun]:
    """Return the runs of a schedule that dbops makes and that have not ended, oldest first."""
    rows = BackupRun.objects.filter(schedule=schedule, origin=RunOrigin.MANAGED).exclude(status__in=RUN_FINAL)
    return list(rows.order_by("pk"))


def move_next_due(schedule: BackupSchedule, next_due_at: datetime | None) -> bool:
    """Move the next due time from the one that was read. Whoever moves it writes the runs of what was due."""
    rows = BackupSchedule.objects.filter(pk=schedule.pk, next_due_at=schedule.next_due_at, is_enabled=True)
    return bool(rows.update(next_due_at=next_due_at))


def write_missed(schedule: BackupSchedule, due_times: Iterable[datetime], reason: str) -> list[BackupRun]:
    """Write a row for each due time at which no run was made, with the reason, in the caller's transaction. Return them.

    They are not in the audit log yet: ``audit_missed`` puts them there, when all else of the transaction is written.
    """
    now, missed = timezone.now(), []
    for due_at in due_times:
        try:
            with transaction.atomic():
                run = BackupRun.objects.create(
                    uid=secrets.token_hex(8),
                    instance=schedule.instance,
                    schedule=schedule,
                    origin=RunOrigin.MANAGED,
                    method=schedule.method,
                    status=RunStatus.MISSED,
                    due_at=due_at,
                    finished_at=now,
                    outcome=reason,
                )
        except IntegrityError:
            continue
        log_event(run, f"Missed: {reason}", level=Level.WARNING)
        missed.append(run)
    return missed


def audit_missed(missed: Iterable[BackupRun]) -> None:
    """Write into the audit log which runs were missed, as the last thing of the transaction that wrote them."""
    for run in missed:
        _audit(run, RunStatus.MISSED, due_at=_when(run.due_at), outcome=run.outcome)


def _when(moment: datetime | None) -> str:
    return moment.isoformat(timespec="minutes") if moment else ""


def end_queued(run: BackupRun, status: RunStatus, text: str) -> bool:
    """Cancel or miss a run that has not started. Return whether it was still queued."""
    with transaction.atomic():
        moved = (
            locked(BackupRun, run.pk)
            .filter(status=RunStatus.QUEUED)
            .update(status=status, finished_at=timezone.now(), waiting_for="", outcome=text, revision=F("revision") + 1)
        )
        if moved:
            log_event(run, text, level=Level.WARNING)
            if status == RunStatus.MISSED:  # who stops a run is written by that verb
                _audit(run, status, outcome=text)
    return bool(moved)


def flag_late(now: datetime) -> None:
    """Flag the queued runs that have waited longer after their due time than their schedules bear. One query where none is new."""
    waiting = BackupRun.objects.filter(status=RunStatus.QUEUED, origin=RunOrigin.MANAGED, flags=[], due_at__lt=now)
    rows = waiting.order_by().values_list("pk", "due_at", "schedule__late_after_seconds")
    late = [pk for pk, due_at, patience in rows if due_at and due_at + timedelta(seconds=patience or 0) < now]
    if late:
        BackupRun.objects.filter(pk__in=late, status=RunStatus.QUEUED, flags=[]).update(
            flags=[LATE], revision=F("revision") + 1
        )


def request_cancel(run: BackupRun, by: str) -> bool:
    """Ask the driver of a run to stop. Return whether there was something to ask."""
    now = timezone.now()
    with transaction.atomic():
        at_work = locked(BackupRun, run.pk).filter(
            origin=RunOrigin.MANAGED, status__in=(RunStatus.RUNNING, RunStatus.LOST)
        )
        asked = at_work.filter(cancel_requested_at=None).update(
            cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now, revision=F("revision") + 1
        )
        if asked:
            log_event(run, f"Stop requested by {by}.", level=Level.WARNING)
    return bool(asked)


def run_again(rebuild: Rebuild) -> None:
    """Queue the backup that was stopped for a rebuild, once, however that rebuild has ended. In the caller's transaction."""
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
            rebuild, f"The backup {schedule.name} was stopped for it; run it again where it is run: dbops does not."
        )
    elif waiting is not None:
        log_event(rebuild, f"The backup {schedule.name} was stopped for it; its run {waiting.pk} waits already.")
    else:
        run = queue(schedule, f"Queued again: it was stopped for rebuild {rebuild.pk}, which has ended.")
        log_event(
            rebuild,
            f"The backup {schedule.name} was stopped for it: queued again as backup run {run.pk if run else '?'}.",
        )


# ---- driving ---------------------------------------------------------------------------------------------------------


def due(now: datetime) -> list[int]:
    """Return the ids of managed runs that have work due and no living owner."""
    return leases.due(BackupRun, now)


def take_lease(run_id: int) -> RunLease | None:
    """Become the driver of a run, or ``None`` when it has a living one or nothing to do."""
    return leases.take(BackupRun, run_id, "instance__host", "instance__cluster", "schedule")


def finish(lease: RunLease, status: RunStatus, outcome: str, update: Update) -> None:
    """Give the run its last status, free its hold, and write it into the audit log. Raises ``LeaseLost``, or ``Bug``."""
    run = lease.run
    with transaction.atomic():
        leases.finish(lease, status, update, outcome=outcome)
        Hold.objects.filter(backup_run=run).delete()
        log_event(run, f"The backup has {_ended(status)}. {outcome}", level=LEVELS.get(status, Level.ERROR))
        run.refresh_from_db()
        flag(run)
        _audit(run, status, outcome=outcome, error=update.changes.get("error", {}))


def write_late_update(run: BackupRun, update: Update) -> None:
    """Write what was done after the end of a run into its history. Its columns are no longer its driver's to change."""
    if update.events:
        with transaction.atomic():
            BackupEvent.objects.bulk_create(update.events)
            BackupRun.objects.filter(pk=run.pk).update(revision=F("revision") + 1)


def _ended(status: RunStatus) -> str:
    return {RunStatus.SUCCEEDED: "succeeded", RunStatus.CANCELLED: "been stopped"}.get(status, "failed")


def _audit(run: BackupRun, status: RunStatus, **detail: Any) -> None:
    schedule = run.schedule.name if run.schedule else ""
    append(
        actor=SYSTEM,
        action=f"backup.{status}",
        subject=run.instance.name,
        detail={"backup_run": run.pk, "schedule": schedule, **detail},
    )


def force_fail(run: BackupRun, by: str) -> bool:
    """End a ``lost`` run without its host: nothing is known of it. Return whether it was lost.

    Its partial file, and its job if that still runs, are ended by the next run of the same instance.
    """
    outcome = f"{by} ended it while its host was silent: nothing is known of what runs there."
    with transaction.atomic():
        moved = (
            locked(BackupRun, run.pk)
            .filter(origin=RunOrigin.MANAGED, status=RunStatus.LOST)
            .update(
                status=RunStatus.FAILED,
                finished_at=timezone.now(),
                outcome=outcome,
                revision=F("revision") + 1,
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
    """Return the runs of a schedule whose files were published by us and are not known to be removed, newest first."""
    rows = BackupRun.objects.filter(schedule=schedule, origin=RunOrigin.MANAGED, status=RunStatus.SUCCEEDED)
    return list(rows.filter(removed_at=None).exclude(path="").order_by("-started_at", "-pk"))


def runs_being_read() -> set[int]:
    """Return the runs whose files unfinished rebuilds or proofs read, or will read: nobody may remove these."""
    readers = [name for name, method in METHODS.items() if method.reads.backup]
    plans = Rebuild.objects.exclude(status__in=FINAL).filter(method__in=readers).values_list("plan", flat=True)
    restore_tested = RestoreTest.objects.exclude(run_slot=None).values_list("run_id", flat=True)
    return {plan["archive"]["run"] for plan in plans if plan.get("archive")} | set(restore_tested)


def leftovers(run: BackupRun) -> list[BackupRun]:
    """Return ended runs of the same instance whose partial file, or job, may be left on the host."""
    ended = BackupRun.objects.filter(instance=run.instance, origin=RunOrigin.MANAGED, removed_at=None).exclude(path="")
    return list(ended.filter(status__in=(RunStatus.FAILED, RunStatus.CANCELLED)).order_by("pk"))


def mark_removed(run: BackupRun, text: str) -> None:
    """Note that the file of an ended run is gone, and why."""
    with transaction.atomic():
        if BackupRun.objects.filter(pk=run.pk, removed_at=None).update(
            removed_at=timezone.now(), revision=F("revision") + 1
        ):
            log_event(run, text)
