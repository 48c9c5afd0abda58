"""Backup schedules, backup runs and restore tests in answers."""

from datetime import datetime

from ninja import Schema

from dbops.models import BackupRun, BackupSchedule, RestoreTest
from dbops.web.api.schemas.base import Given, Text


class Schedule(Schema):
    """A backup schedule. ``run_by``: ``dbops``, or ``external`` for a cron job that dbops only watches."""

    name: str
    instance: str
    cluster: str
    method: str
    run_by: str
    cron: str
    time_zone: str
    directory: str
    keep_count: int | None
    keep_days: int | None
    is_enabled: bool
    next_due_at: datetime | None


class RunOut(Schema):
    """One run of a backup, by dbops (``managed``) or seen on the host."""

    id: int
    instance: str
    cluster: str
    schedule: str | None
    origin: str
    method: str
    status: str
    due_at: datetime | None
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    removed_at: datetime | None
    path: str
    bytes: int | None
    exit_status: int | None
    flags: list[str]
    waiting_for: str
    outcome: str


class RestoreTestOut(Schema):
    """One restore of a backup on a scratch server, with every table read."""

    id: int
    backup_run: int
    source: str
    cluster: str
    host: str
    status: str
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tables_checked: int | None
    rows_counted: int | None


class Wish(Given):
    """A request with an optional reason."""

    reason: Text = ""


def schedule(row: BackupSchedule) -> Schedule:
    """Return a schedule for an answer."""
    return Schedule(
        name=row.name,
        instance=row.instance.name,
        cluster=row.instance.cluster.name,
        method=row.method,
        run_by=row.run_by,
        cron=row.cron,
        time_zone=row.time_zone,
        directory=row.directory,
        keep_count=row.keep_count,
        keep_days=row.keep_days,
        is_enabled=row.is_enabled,
        next_due_at=row.next_due_at,
    )


def run(row: BackupRun) -> RunOut:
    """Return a run for an answer."""
    return RunOut(
        id=row.pk,
        instance=row.instance.name,
        cluster=row.instance.cluster.name,
        schedule=row.schedule.name if row.schedule else None,
        origin=row.origin,
        method=row.method,
        status=row.status,
        due_at=row.due_at,
        queued_at=row.queued_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        removed_at=row.removed_at,
        path=row.path,
        bytes=row.bytes_written if row.bytes_written is not None else (row.progress or {}).get("bytes"),
        exit_status=row.exit_status,
        flags=row.flags,
        waiting_for=row.waiting_for,
        outcome=row.outcome,
    )


def restore_test(row: RestoreTest) -> RestoreTestOut:
    """Return a restore test for an answer."""
    return RestoreTestOut(
        id=row.pk,
        backup_run=row.run_id,
        source=row.source.name,
        cluster=row.source.cluster.name,
        host=row.host.name,
        status=row.status,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        tables_checked=row.tables_checked,
        rows_counted=row.rows_counted,
    )
