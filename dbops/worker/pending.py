"""Whether anything waits for ``reconcile``: one statement every two seconds, where looking at each kind would take fifteen.

While a rebuild copies for hours nothing waits most of the time: its driver has it. Making the SQL costs ten times what running it does,
so it is made once and only the moment is put in anew.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import CharField, Q, QuerySet, Value

from dbops.engine.states import FINAL, RunBy, RunStatus, Status
from dbops.lifecycle.leases import without_driver
from dbops.models import BackupRun, BackupSchedule, ConnectionTest, Discovery, Rebuild, RestoreTest

#: Stands for the moment at which is looked.
_THEN = datetime(2000, 1, 1, tzinfo=UTC)


def pending(now: datetime) -> frozenset[str]:
    """Return the kinds of which a row waits to be begun, driven, ended or swept at this moment. One query.

    It may name a kind of which nothing is to be done after all, never leave one out: who finds any looks at all.
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
    """Each kind, and its rows: the widest of the conditions under which something is done with one."""
    dbops_runs = BackupSchedule.objects.filter(is_enabled=True, run_by=RunBy.DBOPS)
    yield "schedule", dbops_runs.filter(Q(next_due_at=None) | Q(next_due_at__lte=now))
    yield "queued rebuild", Rebuild.objects.filter(status=Status.QUEUED)
    yield "queued backup run", BackupRun.objects.filter(status=RunStatus.QUEUED)
    yield "queued proof", RestoreTest.objects.filter(status=RunStatus.QUEUED)
    yield "rebuild", without_driver(Rebuild, now)
    yield "backup run", without_driver(BackupRun, now)
    yield "restore_test", without_driver(RestoreTest, now)
    yield "sweep", Rebuild.objects.filter(status__in=FINAL, sweep_due_at__lte=now)
    yield "discovery", _asked(Discovery)
    yield "connection test", _asked(ConnectionTest)


def _asked(model: type[Discovery] | type[ConnectionTest]) -> QuerySet[Any]:
    return model._default_manager.filter(status__in=(model.Statuses.QUEUED, model.Statuses.RUNNING))
