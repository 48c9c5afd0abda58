"""The audit log's triggers, taken away where a test empties its database. The product has no such way."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test import TransactionTestCase

from dbops.audit.trigger_sql import create_statements, drop_statements
from dbops.models import AuditEntry, AuditHead, AuditName, AuditSegment, AuditText

TABLES = (AuditText, AuditName, AuditHead, AuditEntry, AuditSegment)


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the log be changed inside the block."""
    with connection.cursor() as cursor:
        for statement in drop_statements(connection.vendor):
            cursor.execute(statement)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for statement in create_statements(connection.vendor):
                cursor.execute(statement)


def empty_log() -> None:
    """Start an empty log."""
    with unguarded():
        for table in TABLES:
            table.objects.all().delete()
    AuditHead.objects.create(pk=1)


def let_tests_empty_their_database() -> None:
    """Remove the triggers while Django empties every table after a test that commits."""
    as_django_does = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def teardown(self: TransactionTestCase) -> None:
        with unguarded():
            as_django_does(self)
        AuditHead.objects.get_or_create(pk=1)  # as migrations leave it

    TransactionTestCase._fixture_teardown = teardown  # type: ignore[attr-defined]
