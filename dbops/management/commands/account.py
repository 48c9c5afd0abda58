"""``manage.py account create NAME --group viewer|operator``, ``account unblock NAME``, ``account list``."""

import getpass
import sys
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.management.passwords import password_line
from dbops.operations.accounts import list_accounts, save_account
from dbops.operations.login_limits import unblock
from dbops.security.permissions import GROUPS


class Command(DbopsCommand):
    help = "Create, update and list user accounts."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="create an account, or set its password and group")
        create.add_argument("name")
        create.add_argument("--group", required=True, choices=GROUPS)
        create.add_argument(
            "--password-stdin",
            action="store_true",
            help="for scripts: read the password from one line of standard input (default: ask for it twice)",
        )
        create.add_argument("--superuser", action="store_true", help="grant all permissions, regardless of the group")
        unblock = verbs.add_parser("unblock", help="allow an account to log in again after too many wrong passwords")
        unblock.add_argument("name")
        verbs.add_parser("list", help="list the accounts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            self._list()
        elif options["verb"] == "unblock":
            self._unblock(options["name"])
        else:
            password = self._password() if options["password_stdin"] else self._ask()
            self._create(options["name"], options["group"], password, options["superuser"])

    def _unblock(self, name: str) -> None:
        if not User.objects.filter(username=name).exists():
            raise CommandError(f"There is no account {name!r}. Nothing changed.")
        unblock(name, actor=f"{login_name()} (manage.py)")
        self.stdout.write(f"{name}: unblocked")

    def _create(self, name: str, group: str, password: str, superuser: bool) -> None:
        actor = f"{login_name()} (manage.py)"
        try:
            user, changed = save_account(actor=actor, name=name, group=group, password=password, superuser=superuser)
        except Refused as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{user.get_username()}: {', '.join(changed) or 'unchanged'} ({group})")

    def _password(self) -> str:
        """Return the password of standard input, which is one line."""
        text = password_line()
        if not text:
            raise CommandError("Standard input contains no password. Nothing changed.")
        if "\n" in text or "\r" in text or "\0" in text:
            raise CommandError("Standard input contains more than one line. Pass only the password. Nothing changed.")
        return text

    def _ask(self) -> str:
        if not sys.stdin.isatty():
            raise CommandError("Standard input is not a terminal. Add --password-stdin. Nothing changed.")
        password = getpass.getpass("Password: ")
        if getpass.getpass("Password again: ") != password:
            raise CommandError("The passwords do not match. Nothing changed.")
        return password

    def _list(self) -> None:
        for account in list_accounts():
            words = [*account.groups, *(["superuser"] if account.is_superuser else [])]
            words += [] if account.is_active else ["inactive"]
            self.stdout.write(f"{account.name}\t{', '.join(words) or 'no group'}")
