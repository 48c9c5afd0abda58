"""Base class of dbops's management commands."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from dbops.engine.errors import Refused
from dbops.sample.database_check import database_mismatch


class DbopsCommand(BaseCommand):
    """Refuse, with exit status 2, to run on a sample without ``DBOPS_SAMPLE`` or on a real database with it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        if refusal := _refusal():
            raise CommandError(str(refusal), returncode=2)
        return super().execute(*args, **options)


def _refusal() -> Refused | None:
    try:
        return database_mismatch()
    except DatabaseError:  # unreachable or without tables: the command reports that if it needs the database
        return None
