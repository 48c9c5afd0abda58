"""``manage.py vault check``: read every secret that is in Vault, and say only whether that worked."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.operations.vault import check_vault


class Command(DbopsCommand):
    help = "Read every secret that is in Vault or OpenBao, and say only whether that worked."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("check", help="list the secrets with their paths; exit status 1 if one cannot be read")

    def handle(self, *args: Any, **options: Any) -> None:
        found = check_vault(actor=f"{login_name()} (manage.py)")
        for one in found:
            self.stdout.write(
                f"{one.kind} {one.name}\t{one.column}\t{one.path}\t{one.error.code if one.error else 'readable'}"
            )
        if failed := [one.error for one in found if one.error]:
            raise CommandError(f"{len(failed)} of {len(found)} secrets cannot be read. The first: {failed[0]}")
