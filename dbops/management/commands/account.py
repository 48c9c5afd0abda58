"""``manage.py account create NAME --group viewer|operator --password-stdin`` and ``manage.py account list``."""

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.command import DbopsCommand
from dbops.operations.accounts import list_accounts, save_account
from dbops.security.permissions import GROUPS


class Command(DbopsCommand):
    help = "Create, update and list the accounts of people."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="create an account, or give it this password and group")
        create.add_argument("name")
        create.add_argument("--group", required=True, choices=GROUPS)
        create.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password, one line, from standard input (default: ask for it at the terminal)",
        )
        create.add_argument("--superuser", action="store_true", help="allow everything, whatever the group")
        verbs.add_parser("list", help="list the accounts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            self._list()
        else:
            password = self._password() if options["password_stdin"] else self._ask()
            self._create(options["name"], options["group"], password, options["superuser"])

    def _create(self, name: str, group: str, password: str, superuser: bool) -> None:
        actor = f"{getpass.getuser()} (manage.py)"
        try:
            user, changed = save_account(actor=actor, name=name, group=group, password=password, superuser=superuser)
        except Refused as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{user.get_username()}: {', '.join(changed) or 'unchanged'} ({group})")

    def _password(self) -> str:
        """Return the one line on standard input. A password in an argument would show in every list of processes."""
        text = sys.stdin.read().removesuffix("\n").removesuffix("\r")
        if not text:
            raise CommandError("Standard input has no password. Nothing was changed.")
        if "\n" in text or "\r" in text or "\0" in text:
            raise CommandError("Standard input has more than one line: give the password alone. Nothing was changed.")
        return text

    def _ask(self) -> str:
        if not sys.stdin.isatty():
            raise CommandError("Standard input is no terminal: add --password-stdin. Nothing was changed.")
        password = getpass.getpass("Password: ")
        if getpass.getpass("Password again: ") != password:
            raise CommandError("The two passwords differ. Nothing was changed.")
        return password

    def _list(self) -> None:
        for account in list_accounts():
            words = [*account.groups, *(["superuser"] if account.is_superuser else [])]
            words += [] if account.is_active else ["inactive"]
            self.stdout.write(f"{account.name}\t{', '.join(words) or 'in no group'}")
