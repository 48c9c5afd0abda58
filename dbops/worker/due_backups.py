"""Queue the backups of schedules that are due, and record missed ones.

A schedule whose run still waits at the next due time gets no second queued run: the older one is recorded as missed,
and the newer one takes its queue position. After a downtime of dbops the newest missed occurrence is caught up.
"""

import logging
from datetime import datetime
from itertools import takewhile

from django.db import transaction

from dbops.engine.phrases import phrase
from dbops.engine.states import RunBy, RunStatus
from dbops.lib.cron import BadSchedule, due_times, next_due
from dbops.lifecycle import backup_runs
from dbops.models import BackupRun, BackupSchedule

log = logging.getLogger(__name__)

#: Maximum number of rows for missed occurrences of one schedule; the text mentions the rest.
MISSED_ROWS = 50


def queue_due(now: datetime) -> list[int]:
    """Queue a run of every due schedule, and record missed occurrences. Return the ids of the queued runs.

    A second call, even at the same time in another process, finds nothing due: moving the due time is the claim.
    """
    _give_first_due_times(now)
    due = BackupSchedule.objects.filter(is_enabled=True, run_by=RunBy.DBOPS, next_due_at__lte=now)
    runs = [_queue_one(pk, now) for pk in due.values_list("pk", flat=True)]
    return [run.pk for run in runs if run is not None]


def _give_first_due_times(now: datetime) -> None:
    for schedule in BackupSchedule.objects.filter(is_enabled=True, run_by=RunBy.DBOPS, next_due_at=None):
        moment = _next(schedule, now)
        if moment is not None:
            backup_runs.move_next_due(schedule, moment)


def _next(schedule: BackupSchedule, now: datetime) -> datetime | None:
    try:
        return next_due(schedule.cron, schedule.time_zone, now)
    except BadSchedule as error:
        log.error("backup schedule %s: %s", schedule.name, error)
        return None


def _queue_one(pk: int, now: datetime) -> BackupRun | None:
    with transaction.atomic():
        schedule = backup_runs.lock_schedule(pk)
        if schedule is None or schedule.next_due_at is None or schedule.next_due_at > now:
            return None
        occurrences = [schedule.next_due_at, *_later(schedule, now)]
        if not backup_runs.move_next_due(schedule, _next(schedule, now)):
            return None
        *older, newest = occurrences
        missed = _write_missed(schedule, older)
        waiting = next((run for run in backup_runs.active_runs(schedule) if run.status == RunStatus.QUEUED), None)
        since = waiting.queued_at if waiting is not None else None
        queued = backup_runs.queue(schedule, f"Due at {newest:%Y-%m-%d %H:%M} UTC.", due_at=newest, since=since)
        # The audit log comes last: locking a row after the log's head could deadlock with a process that does the reverse.
        if waiting is not None:
            _miss(waiting, newest)
        backup_runs.audit_missed(missed)
        return queued


def _later(schedule: BackupSchedule, now: datetime) -> list[datetime]:
    assert schedule.next_due_at is not None  # noqa: S101 - the caller has checked
    try:
        following = due_times(schedule.cron, schedule.time_zone, schedule.next_due_at)
        return list(takewhile(lambda moment: moment <= now, following))
    except BadSchedule:
        return []


def _write_missed(schedule: BackupSchedule, older: list[datetime]) -> list[BackupRun]:
    reason = "dbops was not running at that time. A later occurrence is caught up instead."
    if len(older) > MISSED_ROWS:
        reason += f" {len(older) - MISSED_ROWS} earlier occurrences are not listed."
    return backup_runs.write_missed(schedule, older[-MISSED_ROWS:], reason)


def _miss(waiting: BackupRun, newest: datetime) -> None:
    why = f" ({waiting.waiting_for})" if waiting.waiting_for else ""
    text = phrase(
        "Still queued{why} at the next due time, {newest} UTC. The next run takes its place.",
        why=why,
        newest=f"{newest:%Y-%m-%d %H:%M}",
    )
    backup_runs.end_queued(waiting, RunStatus.MISSED, text)
