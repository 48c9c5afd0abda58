"""The audit log's refusals, taken away where a test begins anew. The product has no such way: this runs the migrations' own words."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace

from django.db import connection
from django.test import TransactionTestCase

from dbops.models import AuditEntry, AuditHead, AuditName, AuditSegment, AuditText

MIGRATIONS = [import_module(f"dbops.migrations.{name}") for name in ("0013_audit_chain", "0018_audit_segments")]
TABLES = (AuditText, AuditName, AuditHead, AuditEntry, AuditSegment)


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the log be changed meanwhile."""
    with connection.cursor() as cursor:
        for migration in reversed(MIGRATIONS):
            migration.unguard(None, SimpleNamespace(connection=connection, execute=cursor.execute))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for migration in MIGRATIONS:
                migration.guard(None, SimpleNamespace(connection=connection, execute=cursor.execute))


def empty_log() -> None:
    """Begin the log anew."""
    with unguarded():
        for table in TABLES:
            table.objects.all().delete()
    AuditHead.objects.create(pk=1)


def let_tests_empty_their_database() -> None:
    """Django empties every table after a test that commits: the refusals are away just then."""
    as_django_does = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def teardown(self: TransactionTestCase) -> None:
        with unguarded():
            as_django_does(self)
        AuditHead.objects.get_or_create(pk=1)  # as migrations leave it

    TransactionTestCase._fixture_teardown = teardown  # type: ignore[attr-defined]
