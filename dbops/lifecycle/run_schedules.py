"""Which schedule, and which of its due times, a run of somebody else's belongs to; and the due times that nobody met."""

import logging
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from dbops.engine.backups.matching import EARLY, fits
from dbops.engine.states import Level, RunBy, RunOrigin, RunStatus
from dbops.lib.cron import BadSchedule, last_due, next_due
from dbops.lifecycle.run_flags import figures
from dbops.models import BackupEvent, BackupRun, BackupSchedule, InstanceState

log = logging.getLogger(__name__)

#: Rows of one schedule that one pass writes: a schedule of every minute must not fill the table at once.
MISSED_AT_ONCE = 24
SEEN_NOTHING = (
    "It was due, the host was read all the time, and nothing was seen or reported. A run that takes less than"
    " {seconds} s can pass between two probes unseen: report it with dbops-backup-report."
)


def assign_schedule(run: BackupRun, *, schedule_id: int | None = None) -> None:
    """Give a run its schedule and due time, if one fits that no other run has. A missed one that comes after all is taken over.

    Args:
        schedule_id: of the schedule that its report named; else those of its instance and method that others run are tried.
    """
    if run.started_at is None or (run.schedule_id and schedule_id in (None, run.schedule_id)):
        return
    schedules = BackupSchedule.objects.filter(instance=run.instance_id, run_by=RunBy.EXTERNAL, is_enabled=True)
    if schedule_id is not None:
        schedules = BackupSchedule.objects.filter(pk=schedule_id)
    else:
        schedules = schedules.filter(method=run.method)
    fitting = [(due, schedule) for schedule in schedules for due in _fitting(schedule, run.started_at)]
    for due, schedule in sorted(fitting, key=lambda item: item[0], reverse=True):
        if _claim(run, schedule, due):
            return
    if schedule_id is not None:
        _write(run, schedules.first(), None)


def _fitting(schedule: BackupSchedule, started_at: datetime) -> Iterator[datetime]:
    try:
        due = last_due(schedule.cron, schedule.time_zone, started_at + EARLY)
        following = next_due(schedule.cron, schedule.time_zone, due) if due else None
    except BadSchedule as error:
        log.warning("schedule %s: %s", schedule.name, error)
        return
    if due and fits(started_at, due, following, schedule.late_after_seconds):
        yield due


def _claim(run: BackupRun, schedule: BackupSchedule, due: datetime) -> bool:
    """Take a due time, which the database gives to one run alone. A run that was taken as missed gives it up."""
    try:
        with transaction.atomic():
            gone, _ = BackupRun.objects.filter(schedule=schedule, due_at=due, status=RunStatus.MISSED).delete()
            _write(run, schedule, due)
    except IntegrityError:
        run.refresh_from_db(fields=["schedule", "due_at"])
        return False
    if gone:
        text = "It was taken as missed before it began."
        BackupEvent.objects.create(run=run, at=timezone.now(), level=Level.WARNING, text=text)
    return True


def _write(run: BackupRun, schedule: BackupSchedule | None, due: datetime | None) -> None:
    BackupRun.objects.filter(pk=run.pk).update(schedule=schedule, due_at=due, revision=F("revision") + 1)
    run.schedule, run.due_at = schedule, due


def watch_schedules(now: datetime | None = None) -> int:
    """Look at the due times of external schedules that are past: met, missed, or not known. Return how many were missed.

    A due time is missed only where its host was read from before it was due until it was late: what happened while nobody
    looked, also in a long downtime of the dashboard, is not known, and gets no row.
    """
    now = now or timezone.now()
    schedules = BackupSchedule.objects.filter(run_by=RunBy.EXTERNAL, is_enabled=True)
    states = {
        state.instance_id: state for state in InstanceState.objects.filter(instance__backup_schedules__in=schedules)
    }
    return sum(_watch(schedule, states.get(schedule.instance_id), now) for schedule in schedules)


def _watch(schedule: BackupSchedule, state: InstanceState | None, now: datetime) -> int:
    before, missed = schedule.next_due_at, 0
    late = timedelta(seconds=schedule.late_after_seconds)
    since, until = (state.host_read_since, state.host_read_at) if state else (None, None)
    try:
        due = before or next_due(schedule.cron, schedule.time_zone, now)
        for _ in range(MISSED_AT_ONCE):
            if due is None or due + late >= now:
                break
            if since is None or until is None or since > due:
                # nobody looked when it was due: go on with the first due time that was watched from its beginning
                due = next_due(schedule.cron, schedule.time_zone, since or now - late)
            elif until < due + late:
                break  # the host is silent at the moment
            else:
                missed += not _is_met(schedule, due) and _miss(schedule, due, now)
                due = next_due(schedule.cron, schedule.time_zone, due)
    except BadSchedule as error:
        log.warning("schedule %s: %s", schedule.name, error)
        return missed
    if due != before:
        BackupSchedule.objects.filter(pk=schedule.pk, next_due_at=before).update(next_due_at=due)
    return missed


def _is_met(schedule: BackupSchedule, due: datetime) -> bool:
    return BackupRun.objects.filter(schedule=schedule, due_at=due).exists()


def _miss(schedule: BackupSchedule, due: datetime, now: datetime) -> bool:
    """Write that nobody met a due time. Of two that do, one does."""
    if not _would_be_seen(schedule):
        return False
    text = SEEN_NOTHING.format(seconds=2 * settings.PROBE_INTERVAL_SECONDS)
    try:
        with transaction.atomic():
            run = BackupRun.objects.create(
                uid=secrets.token_hex(16),
                instance_id=schedule.instance_id,
                schedule=schedule,
                origin=RunOrigin.OBSERVED,
                method=schedule.method,
                status=RunStatus.MISSED,
                due_at=due,
                finished_at=now,
                outcome=text,
            )
            BackupEvent.objects.create(run=run, at=now, level=Level.WARNING, text=text)
    except IntegrityError:
        return False
    return True


def _would_be_seen(schedule: BackupSchedule) -> bool:
    """Tell whether a run would not have passed between two probes: it is reported, or takes long enough."""
    rows = BackupRun.objects.filter(schedule=schedule, started_at__isnull=False, finished_at__isnull=False)
    last = list(rows.order_by("-started_at")[:5])
    if any(run.origin == RunOrigin.REPORTED for run in last):
        return True
    known = [figures(run, timezone.now()).seconds for run in last] or [schedule.expected_seconds]
    return all(seconds is None or seconds > 2 * settings.PROBE_INTERVAL_SECONDS for seconds in known)
