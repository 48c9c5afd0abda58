"""Backup schedules, backup runs and restore tests."""

from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from dbops.engine.states import RunStatus
from dbops.models import BackupRun, BackupSchedule, RestoreTest
from dbops.operations.backups import request_restore_test, run_now
from dbops.web.api.access import Caller, called_by
from dbops.web.api.once import Key, once
from dbops.web.api.schemas import backups as schemas
from dbops.web.api.schemas.base import (
    NAME,
    InPath,
    Limit,
    NameCursor,
    Number,
    NumberCursor,
    Page,
    by_name,
    newest_first,
)

router = Router(tags=["backups"])
Named = Annotated[str | None, Query(pattern=NAME, max_length=63)]
Status = Annotated[RunStatus | None, Query()]


@router.get(
    "/backup-schedules",
    response=Page[schemas.Schedule],
    summary="List backup schedules",
    operation_id="list_backup_schedules",
)
def list_schedules(request: HttpRequest, cluster: Named = None, cursor: NameCursor = None, limit: Limit = 50) -> Any:
    """Schedules by name."""
    rows = called_by(request).limited(_schedules(), "instance__cluster")
    rows = rows.filter(instance__cluster__name=cluster) if cluster else rows
    found, following = by_name(rows, cursor, limit, lambda row: row.name)
    return {"items": [schemas.schedule(row) for row in found], "next": following}


@router.post(
    "/backup-schedules/{name}/run",
    response={201: schemas.RunOut},
    summary="Run a backup now",
    operation_id="run_backup_schedule",
)
def run_schedule(request: HttpRequest, name: InPath, key: Key, given: schemas.Wish) -> HttpResponse:
    """Queue a run of a schedule that dbops runs. It starts when its instance is free."""

    def act(caller: Caller) -> schemas.RunOut:
        schedule = caller.one(_schedules().filter(name=name), "instance__cluster")
        return schemas.run(run_now(schedule, caller.user, given.reason))

    return once(request, key, act, status=201)


@router.get("/backup-runs", response=Page[schemas.RunOut], summary="List backup runs", operation_id="list_backup_runs")
def list_runs(
    request: HttpRequest,
    status: Status = None,
    cluster: Named = None,
    instance: Named = None,
    schedule: Named = None,
    cursor: NumberCursor = None,
    limit: Limit = 50,
) -> Any:
    """Backup runs, those that were recorded last first."""
    wanted = {
        "status": status,
        "instance__cluster__name": cluster,
        "instance__name": instance,
        "schedule__name": schedule,
    }
    rows = called_by(request).limited(_runs(), "instance__cluster")
    rows = rows.filter(**{name: value for name, value in wanted.items() if value})
    return newest_first(rows, cursor, limit, schemas.run)


@router.get(
    "/backup-runs/{run_id}", response=schemas.RunOut, summary="Read a backup run", operation_id="read_backup_run"
)
def read_run(request: HttpRequest, run_id: Number) -> Any:
    """One backup run."""
    return schemas.run(_run(called_by(request), run_id))


@router.post(
    "/backup-runs/{run_id}/restore-tests",
    response={201: schemas.RestoreTestOut},
    summary="Request a restore test",
    operation_id="request_restore_test",
)
def test_run(request: HttpRequest, run_id: Number, key: Key, given: schemas.Wish) -> HttpResponse:
    """Queue a restore test of a finished physical backup. If one is queued or runs, the answer is that one."""

    def act(caller: Caller) -> schemas.RestoreTestOut:
        found = request_restore_test(_run(caller, run_id), caller.user, given.reason)
        return schemas.restore_test(_tests().get(pk=found.pk))

    return once(request, key, act, status=201)


@router.get(
    "/restore-tests",
    response=Page[schemas.RestoreTestOut],
    summary="List restore tests",
    operation_id="list_restore_tests",
)
def list_tests(
    request: HttpRequest,
    status: Status = None,
    cluster: Named = None,
    cursor: NumberCursor = None,
    limit: Limit = 50,
) -> Any:
    """Restore tests, newest first."""
    rows = called_by(request).limited(_tests(), "source__cluster")
    wanted = {"status": status, "source__cluster__name": cluster}
    rows = rows.filter(**{name: value for name, value in wanted.items() if value})
    return newest_first(rows, cursor, limit, schemas.restore_test)


@router.get(
    "/restore-tests/{test_id}",
    response=schemas.RestoreTestOut,
    summary="Read a restore test",
    operation_id="read_restore_test",
)
def read_test(request: HttpRequest, test_id: Number) -> Any:
    """One restore test."""
    return schemas.restore_test(called_by(request).one(_tests().filter(pk=test_id), "source__cluster"))


def _schedules() -> QuerySet[BackupSchedule]:
    return BackupSchedule.objects.select_related("instance__cluster")


def _runs() -> QuerySet[BackupRun]:
    return BackupRun.objects.select_related("instance__cluster", "schedule").defer("evidence", "checkpoint", "error")


def _tests() -> QuerySet[RestoreTest]:
    return RestoreTest.objects.select_related("source__cluster", "host").defer("result", "checkpoint", "error")


def _run(caller: Caller, run_id: int) -> BackupRun:
    return caller.one(_runs().filter(pk=run_id), "instance__cluster")
