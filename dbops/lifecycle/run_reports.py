"""What hosts report of their own backups: a start, signs of life, an end. Told twice is told once, in whatever order it comes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import IntegrityError

from dbops.engine.backups.matching import Sighting, Where
from dbops.engine.errors import Refused
from dbops.engine.states import RUN_ACTIVE, BackupMethod, Level, RunOrigin, RunStatus
from dbops.lifecycle.external_runs import change, end_unknown, locked, log_run_event, record_sighting
from dbops.lifecycle.run_flags import flag
from dbops.models import BackupRun, Instance
from dbops.security.redaction import redact

#: A reporter that gave signs of life gives one a minute: after this time without one it is gone.
SILENT_AFTER = timedelta(minutes=15)
#: One that only tells of start and end may take this long.
NEVER_ENDED_AFTER = timedelta(hours=48)
SAID_ALL = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class ReportKind(StrEnum):
    """What a report is about."""

    START = "start"
    HEARTBEAT = "heartbeat"
    END = "end"


@dataclass(frozen=True, slots=True)
class RunReport:
    """One report. ``started_at`` and ``ended_at`` are reckoned on our clock; ``None`` where the reporter did not say.

    ``pid`` is its command's on ``host``; ``where`` says whether that is the instance's host.
    """

    key: str
    kind: ReportKind
    method: BackupMethod
    started_at: datetime | None = None
    ended_at: datetime | None = None
    where: Where = Where.UNKNOWN
    pid: int | None = None
    host: str = ""
    command: str = ""
    path: str = ""
    bytes: int | None = None
    exit_status: int | None = None
    schedule_id: int | None = None


def report_run(instance: Instance, told: RunReport, now: datetime) -> BackupRun:
    """Write what a report says, to the run that it belongs to. Return the run.

    Raises:
        Refused: the key is that of a run of another instance (``report.key_taken``).
    """
    try:
        with locked(instance):
            return _take(instance, told, now)
    except IntegrityError as error:
        raise _key_taken(told.key) from error


def _take(instance: Instance, told: RunReport, now: datetime) -> BackupRun:
    known = BackupRun.objects.filter(report_key=told.key).select_related("schedule").first()
    if known and known.instance_id != instance.pk:
        raise _key_taken(told.key)
    if known and (known.status in SAID_ALL or told.kind == ReportKind.START):
        return known
    run = record_sighting(instance, _sighting(told, now), _evidence(told), schedule_id=told.schedule_id)
    if told.kind == ReportKind.END:
        _end(run, told, now)
    else:
        _goes_on(run, told, now)
    return run


def _key_taken(key: str) -> Refused:
    return Refused(
        "report.key_taken",
        f"Taking the report {key}",
        cause="this key belongs to a run of another instance",
    )


def _sighting(told: RunReport, now: datetime) -> Sighting:
    is_over = told.kind == ReportKind.END
    until = (told.ended_at or now) if is_over else now
    return Sighting(
        origin=RunOrigin.REPORTED,
        method=told.method,
        started_at=min(told.started_at or until, until),
        until=until,
        is_over=is_over,
        start_is_unknown=told.started_at is None and is_over,
        where=told.where,
        pid=told.pid,
        report_key=told.key,
    )


def _evidence(told: RunReport) -> dict[str, Any]:
    return {"reporter_host": redact(told.host), "reported_command": redact(told.command)}


def _goes_on(run: BackupRun, told: RunReport, now: datetime) -> None:
    values: dict[str, Any] = {"last_seen_at": now}
    if run.status not in RUN_ACTIVE or run.status == RunStatus.LOST:
        values |= {"status": RunStatus.RUNNING, "finished_at": None, "outcome": ""}
    if told.kind == ReportKind.HEARTBEAT:
        values["heartbeat_at"] = now
    if told.bytes is not None:
        values["progress"] = {**run.progress, "bytes": told.bytes}
    if told.path:
        values["path"] = redact(told.path)
    change(run, **values)


def _end(run: BackupRun, told: RunReport, now: datetime) -> None:
    status = told.exit_status
    succeeded = status == 0
    words = "The command ended without an error." if succeeded else f"The command ended with exit status {status}."
    change(
        run,
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        finished_at=max(told.ended_at or now, run.started_at or now) if told.ended_at else now,
        last_seen_at=now,
        exit_status=status,
        bytes_written=told.bytes if told.bytes is not None else run.bytes_written,
        path=redact(told.path) or run.path,
        outcome=words,
    )
    log_run_event(run, words, level=Level.INFO if succeeded else Level.ERROR)
    flag(run, now=now)


def end_silent_reports(now: datetime) -> int:
    """End runs whose reporter told of a start and then fell silent. Its word, should it come later, still counts."""
    rows = BackupRun.objects.filter(origin=RunOrigin.REPORTED, status__in=RUN_ACTIVE).select_related(
        "instance", "schedule"
    )
    return sum(_end_silent(run, now) for run in rows)


def _end_silent(run: BackupRun, now: datetime) -> bool:
    if run.last_seen_at is None or now - run.last_seen_at < _patience(run):
        return False
    with locked(run.instance):
        run.refresh_from_db()
        if run.status not in RUN_ACTIVE or run.last_seen_at is None or now - run.last_seen_at < _patience(run):
            return False
        text = "Its reporter fell silent; nobody said how it ended."
        end_unknown(run, run.last_seen_at, text)
        return True


def _patience(run: BackupRun) -> timedelta:
    return SILENT_AFTER if run.heartbeat_at else NEVER_ENDED_AFTER
