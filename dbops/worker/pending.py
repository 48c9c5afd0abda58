"""Find out whether ``reconcile`` has work: one statement every two seconds instead of fifteen.

During hours of copying nothing else is due. Building the SQL costs ten times its execution, so it is built once and only the time
is replaced.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import CharField, Q, QuerySet, Value

from dbops.engine.states import FINAL, RunBy, RunStatus, Status
from dbops.lifecycle import audit_sinks, inventory_sources, notification_deliveries
from dbops.lifecycle.leases import without_driver
from dbops.models import (
    BackupRun,
    BackupSchedule,
    ConnectionTest,
    DigestReading,
    Discovery,
    LoadTest,
    Rebuild,
    RestoreTest,
    RowComparison,
    WaitReading,
)

#: Work that needs no look at jobs.
SINK, SOURCE, NOTIFICATION = "audit sink", "inventory source", "notification"
#: Placeholder for the current time.
_THEN = datetime(2000, 1, 1, tzinfo=UTC)


def pending(now: datetime) -> frozenset[str]:
    """Return the kinds with a row to start, drive, end or sweep now. One query.

    The result may include a kind without work, but never misses one: the caller then checks everything.
    """
    sql, parameters = _statement(connection.vendor)
    adapt = connection.ops.adapt_datetimefield_value
    then, moment = adapt(_THEN), adapt(now)
    with connection.cursor() as cursor:
        cursor.execute(sql, [moment if parameter == then else parameter for parameter in parameters])
        return frozenset(kind for (kind,) in cursor.fetchall())


@cache
def _statement(vendor: str) -> tuple[str, tuple[Any, ...]]:  # noqa: ARG001 - the SQL is this vendor's
    first, *others = (
        rows.order_by().values_list(Value(kind, output_field=CharField())) for kind, rows in _waiting(_THEN)
    )
    sql, parameters = first.union(*others).query.sql_with_params()
    return sql, tuple(parameters)


def _waiting(now: datetime) -> Iterator[tuple[str, QuerySet[Any]]]:
    """Yield each kind and its rows, by the widest condition for work."""
    dbops_runs = BackupSchedule.objects.filter(is_enabled=True, run_by=RunBy.DBOPS)
    yield "schedule", dbops_runs.filter(Q(next_due_at=None) | Q(next_due_at__lte=now))
    yield "queued rebuild", Rebuild.objects.filter(status=Status.QUEUED)
    yield "queued backup run", BackupRun.objects.filter(status=RunStatus.QUEUED)
    yield "queued restore test", RestoreTest.objects.filter(status=RunStatus.QUEUED)
    yield "queued load test", LoadTest.objects.filter(status=RunStatus.QUEUED)
    yield "queued row comparison", RowComparison.objects.filter(status=RunStatus.QUEUED)
    yield "rebuild", without_driver(Rebuild, now)
    yield "backup run", without_driver(BackupRun, now)
    yield "restore test", without_driver(RestoreTest, now)
    yield "load test", without_driver(LoadTest, now)
    yield "row comparison", without_driver(RowComparison, now)
    yield "sweep", Rebuild.objects.filter(status__in=FINAL, sweep_due_at__lte=now)
    yield "discovery", _asked(Discovery)
    yield "connection test", _asked(ConnectionTest)
    yield "wait reading", WaitReading.objects.filter(slot__isnull=False)
    yield SINK, audit_sinks.due(now)
    yield SOURCE, inventory_sources.due(now)
    yield NOTIFICATION, notification_deliveries.due(now)
    yield "digest reading", DigestReading.objects.filter(slot__isnull=False)


def _asked(model: type[Discovery] | type[ConnectionTest]) -> QuerySet[Any]:
    return model._default_manager.filter(status__in=(model.Statuses.QUEUED, model.Statuses.RUNNING))
