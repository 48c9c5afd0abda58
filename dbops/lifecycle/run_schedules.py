"""Match external runs with schedules and due times, and record missed due times."""

import logging
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from dbops.database import clock
from dbops.engine.backups.matching import EARLY, fits
from dbops.engine.phrases import phrase
from dbops.engine.states import Level, RunBy, RunOrigin, RunStatus
from dbops.lib.cron import BadSchedule, last_due, next_due
from dbops.lifecycle.run_flags import figures
from dbops.models import BackupEvent, BackupRun, BackupSchedule, InstanceState

log = logging.getLogger(__name__)

#: Maximum number of rows of one schedule per pass.
MISSED_AT_ONCE = 24


def assign_schedule(run: BackupRun, *, schedule_id: int | None = None) -> None:
    """Assign a run to a schedule and a free due time, if one fits. A missed due time can be assigned later.

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
    """Claim a due time, which is unique in the database. A missed run of that time is removed."""
    try:
        with transaction.atomic():
            gone, _ = BackupRun.objects.filter(schedule=schedule, due_at=due, status=RunStatus.MISSED).delete()
            _write(run, schedule, due)
    except IntegrityError:
        run.refresh_from_db(fields=["schedule", "due_at"])
        return False
    if gone:
        text = phrase("This due time was recorded as missed before the run started.")
        BackupEvent.objects.create(run=run, at=clock.now(), level=Level.WARNING, text=text)
    return True


def _write(run: BackupRun, schedule: BackupSchedule | None, due: datetime | None) -> None:
    BackupRun.objects.filter(pk=run.pk).update(schedule=schedule, due_at=due, revision=F("revision") + 1)
    run.schedule, run.due_at = schedule, due


def watch_schedules(now: datetime | None = None) -> int:
    """Check past due times of external schedules: met, missed or unknown. Return the number of missed ones.

    A due time counts as missed only if its host was probed from the due time until the run was late. Times without
    probes, also in a downtime of dbops, are unknown and get no row.
    """
    now = now or clock.now()
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
                # No probe at the due time: continue with the first due time that was observed in full.
                due = next_due(schedule.cron, schedule.time_zone, since or now - late)
            elif until < due + late:
                break  # the host is unreachable now
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
    """Record a missed due time, once."""
    if not _would_be_seen(schedule):
        return False
    text = phrase(
        "The backup was due, but no probe or report saw it while the host was observed. Probes can miss runs shorter than"
        " {seconds} s: report them with dbops-backup-report.",
        seconds=2 * settings.PROBE_INTERVAL_SECONDS,
    )
    with transaction.atomic():
        run = create_due_run(schedule, RunOrigin.OBSERVED, RunStatus.MISSED, due, finished_at=now, outcome=text)
        if run is not None:
            BackupEvent.objects.create(run=run, at=now, level=Level.WARNING, text=text)
    return run is not None


def create_due_run(
    schedule: BackupSchedule, origin: RunOrigin, status: RunStatus, due_at: datetime | None, **values: Any
) -> BackupRun | None:
    """Create a run of a schedule, in the caller's transaction; ``None`` if the due time has one already."""
    try:
        with transaction.atomic():
            return BackupRun.objects.create(
                uid=secrets.token_hex(8),
                instance=schedule.instance,
                schedule=schedule,
                origin=origin,
                method=schedule.method,
                status=status,
                due_at=due_at,
                **values,
            )
    except IntegrityError:
        return None


def _would_be_seen(schedule: BackupSchedule) -> bool:
    """Return whether a run would be noticed: it is reported, or longer than the distance of two probes."""
    rows = BackupRun.objects.filter(schedule=schedule, started_at__isnull=False, finished_at__isnull=False)
    last = list(rows.order_by("-started_at")[:5])
    if any(run.origin == RunOrigin.REPORTED for run in last):
        return True
    known = [figures(run, clock.now()).seconds for run in last] or [schedule.expected_seconds]
    return all(seconds is None or seconds > 2 * settings.PROBE_INTERVAL_SECONDS for seconds in known)
