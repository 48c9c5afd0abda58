"""What dbops's own commands share."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from dbops.engine.errors import Refused
from dbops.sample.database_check import database_mismatch


class DbopsCommand(BaseCommand):
    """A command that neither shows the sample as real nor what is real as a sample: exit status 2."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        if refusal := _refusal():
            raise CommandError(str(refusal), returncode=2)
        return super().execute(*args, **options)


def _refusal() -> Refused | None:
    try:
        return database_mismatch()
    except DatabaseError:  # it is away, or has no tables yet: the command itself says so, if it wants it at all
        return None
