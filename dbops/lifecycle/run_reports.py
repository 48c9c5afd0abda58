"""Record reports of hosts about their backups: start, heartbeat and end, in any order and repeated or not."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import IntegrityError

from dbops.engine.backups.matching import Sighting, Where
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_ACTIVE, BackupMethod, Level, RunOrigin, RunStatus
from dbops.lifecycle.external_runs import change, end_unknown, locked, log_run_event, record_sighting
from dbops.lifecycle.run_flags import flag
from dbops.models import BackupRun, Instance
from dbops.security.redaction import redact

#: Time without a heartbeat after which a run ends; reporters send one a minute.
SILENT_AFTER = timedelta(minutes=15)
#: Time limit for a reporter that sends only start and end.
NEVER_ENDED_AFTER = timedelta(hours=48)
SAID_ALL = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class ReportKind(StrEnum):
    """The kind of a report."""

    START = "start"
    HEARTBEAT = "heartbeat"
    END = "end"


@dataclass(frozen=True, slots=True)
class RunReport:
    """One report, with times in dbops's clock; ``None`` if not reported.

    ``pid`` is the command's process id on ``host``; ``where`` says whether that is the instance's host.
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


def report_run(instance: Instance, report: RunReport, now: datetime) -> BackupRun:
    """Record a report in its run. Return the run.

    Raises:
        Refused: the key belongs to a run of another instance (``report.key_taken``).
    """
    try:
        with locked(instance):
            return _take(instance, report, now)
    except IntegrityError as error:
        raise _key_taken(report.key) from error


def _take(instance: Instance, report: RunReport, now: datetime) -> BackupRun:
    known = BackupRun.objects.filter(report_key=report.key).select_related("schedule").first()
    if known and known.instance_id != instance.pk:
        raise _key_taken(report.key)
    if known and (known.status in SAID_ALL or report.kind == ReportKind.START):
        return known
    run = record_sighting(instance, _sighting(report, now), _evidence(report), schedule_id=report.schedule_id)
    if report.kind == ReportKind.END:
        _end(run, report, now)
    else:
        _continue(run, report, now)
    return run


def _key_taken(key: str) -> Refused:
    return Refused(
        "report.key_taken",
        phrase("Recording report {key}", key=key),
        cause=phrase("this key belongs to a run of another instance"),
    )


def _sighting(report: RunReport, now: datetime) -> Sighting:
    is_over = report.kind == ReportKind.END
    until = (report.ended_at or now) if is_over else now
    return Sighting(
        origin=RunOrigin.REPORTED,
        method=report.method,
        started_at=min(report.started_at or until, until),
        until=until,
        is_over=is_over,
        start_is_unknown=report.started_at is None and is_over,
        where=report.where,
        pid=report.pid,
        report_key=report.key,
    )


def _evidence(report: RunReport) -> dict[str, Any]:
    return {"reporter_host": redact(report.host), "reported_command": redact(report.command)}


def _continue(run: BackupRun, report: RunReport, now: datetime) -> None:
    values: dict[str, Any] = {"last_seen_at": now}
    if run.status not in RUN_ACTIVE or run.status == RunStatus.LOST:
        values |= {"status": RunStatus.RUNNING, "finished_at": None, "outcome": ""}
    if report.kind == ReportKind.HEARTBEAT:
        values["heartbeat_at"] = now
    if report.bytes is not None:
        values["progress"] = {**run.progress, "bytes": report.bytes}
    if report.path:
        values["path"] = redact(report.path)
    change(run, **values)


def _end(run: BackupRun, report: RunReport, now: datetime) -> None:
    status = report.exit_status
    succeeded = status == 0
    words = (
        phrase("The command succeeded.")
        if succeeded
        else phrase("The command failed with exit status {status}.", status=status)
    )
    change(
        run,
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        finished_at=max(report.ended_at or now, run.started_at or now) if report.ended_at else now,
        last_seen_at=now,
        exit_status=status,
        bytes_written=report.bytes if report.bytes is not None else run.bytes_written,
        path=redact(report.path) or run.path,
        outcome=words,
    )
    log_run_event(run, words, level=Level.INFO if succeeded else Level.ERROR)
    flag(run, now=now)


def end_silent_reports(now: datetime) -> int:
    """End runs whose reporters stopped sending. A later report still counts."""
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
        text = phrase("Its host stopped reporting. The result of the backup is unknown.")
        end_unknown(run, run.last_seen_at, text)
        return True


def _patience(run: BackupRun) -> timedelta:
    return SILENT_AFTER if run.heartbeat_at else NEVER_ENDED_AFTER
