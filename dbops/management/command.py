"""Base class of dbops's management commands."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from dbops.audit.log import RequestOrigin, request_origin
from dbops.engine.errors import Refused
from dbops.management.accounts import logins
from dbops.models import ProcessHeartbeat
from dbops.queries.admin.configuration import SETTINGS
from dbops.sample.database_check import database_mismatch


class DbopsCommand(BaseCommand):
    """Refuse, with exit status 2, to run on a sample without ``DBOPS_SAMPLE`` or on a real database with it.

    On a database without tables, say which database it is instead of which table is missing.
    """

    #: They read every page and form, for which a command has no use (measured: half of its time). ``manage.py check`` runs them.
    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        if refusal := _refusal():
            raise CommandError(str(refusal), returncode=2)
        try:
            with request_origin(RequestOrigin(logins=logins())):
                return super().execute(*args, **options)
        except DatabaseError as error:
            if _has_tables():
                raise
            raise CommandError(
                f"The database {SETTINGS['DBOPS_DATABASE_URL']()} has no tables. Commands need the dashboard's variables: see "
                "docs/how-to/install.md, First login and fleet. For a new dashboard, first run: script/run migrate"
            ) from error


def _has_tables() -> bool:
    try:
        return ProcessHeartbeat._meta.db_table in connection.introspection.table_names()
    except DatabaseError:  # unreachable: the first error says so
        return True


def _refusal() -> Refused | None:
    try:
        return database_mismatch()
    except DatabaseError:  # unreachable or without tables: the command reports that if it needs the database
        return None
