"""``manage.py account``: create, change, unblock, link and list accounts; give roles on clusters; end sessions."""

import getpass
import sys
from collections.abc import Callable
from datetime import UTC
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from dbops.engine.access.roles import ON_CLUSTERS
from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.management.passwords import password_line
from dbops.models import Cluster
from dbops.operations.accounts import list_accounts, save_account
from dbops.operations.cluster_roles import set_role
from dbops.operations.factors import remove_all_factors
from dbops.operations.login_limits import unblock
from dbops.operations.login_sessions import end_all_sessions
from dbops.operations.provider_accounts import link_account, unlink_account
from dbops.queries.admin.sessions import sessions_of
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
        for verb, text in {
            "unblock": "allow an account to log in again after too many wrong passwords or codes",
            "reset-factors": "remove the second factors of an account whose owner lost them, and end its sessions",
            "sessions": "list the sessions of an account",
            "unlink": "remove the account's links to the OpenID Connect provider, and end its sessions",
        }.items():
            verbs.add_parser(verb, help=text).add_argument("name")
        end = verbs.add_parser("end-sessions", help="end all sessions of an account, and revoke its API tokens")
        end.add_argument("name")
        end.add_argument("--keep-tokens", action="store_true", help="let the API tokens of the account work on")
        link = verbs.add_parser("link", help="let a person of the OpenID Connect provider log in to this account")
        link.add_argument("name")
        link.add_argument("subject", help="the claim sub of the person")
        role = verbs.add_parser("role", help="give an account a role on one cluster, or take it away")
        role.add_argument("name")
        role.add_argument("cluster")
        role.add_argument("role", choices=ON_CLUSTERS)
        role.add_argument("--remove", action="store_true", help="take the role away")
        verbs.add_parser("list", help="list the accounts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            self._list()
        elif options["verb"] == "link":
            self._link(self._user(options["name"]), options["subject"])
        elif options["verb"] == "end-sessions":
            self._end_sessions(self._user(options["name"]), with_tokens=not options["keep_tokens"])
        elif options["verb"] == "role":
            self._role(self._user(options["name"]), options["cluster"], options["role"], not options["remove"])
        elif options["verb"] in (acts := self._acts()):
            acts[options["verb"]](self._user(options["name"]))
        else:
            password = self._password() if options["password_stdin"] else self._ask()
            self._create(options["name"], options["group"], password, options["superuser"])

    def _acts(self) -> dict[str, Callable[[User], None]]:
        return {
            "unblock": self._unblock,
            "reset-factors": self._reset_factors,
            "sessions": self._sessions,
            "unlink": self._unlink,
        }

    def _user(self, name: str) -> User:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no account {name!r}. Nothing changed.")
        return user

    def _unblock(self, user: User) -> None:
        unblock(user.get_username(), actor=f"{login_name()} (manage.py)")
        self.stdout.write(f"{user.get_username()}: unblocked")

    def _reset_factors(self, user: User) -> None:
        removed = remove_all_factors(actor=f"{login_name()} (manage.py)", user=user)
        self.stdout.write(f"{user.get_username()}: {removed} removed")

    def _sessions(self, user: User) -> None:
        for row in sessions_of(user):
            used = row.last_used_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
            self.stdout.write(f"{row.browser}\t{row.address or 'unknown'}\t{row.method}\tlast used {used}")

    def _end_sessions(self, user: User, *, with_tokens: bool) -> None:
        actor = f"{login_name()} (manage.py)"
        ended, revoked = end_all_sessions(actor=actor, user=user, with_tokens=with_tokens)
        self.stdout.write(f"{user.get_username()}: {ended} ended, {revoked} API tokens revoked")

    def _link(self, user: User, subject: str) -> None:
        try:
            link_account(actor=f"{login_name()} (manage.py)", user=user, subject=subject)
        except Refused as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{user.get_username()}: linked")

    def _role(self, user: User, name: str, role: str, is_held: bool) -> None:
        cluster = Cluster.objects.filter(name=name).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {name!r}. Nothing changed.")
        actor = f"{login_name()} (manage.py)"
        changed = set_role(actor=actor, user=user, cluster=cluster, role=role, is_held=is_held)
        done = ("given" if is_held else "removed") if changed else "unchanged"
        self.stdout.write(f"{user.get_username()}: {role} of {name} {done}")

    def _unlink(self, user: User) -> None:
        removed = unlink_account(actor=f"{login_name()} (manage.py)", user=user)
        self.stdout.write(f"{user.get_username()}: {removed} removed")

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
            words += [f"{role} of {cluster}" for cluster, role in account.roles]
            words += [] if account.is_active else ["inactive"]
            self.stdout.write(f"{account.name}\t{', '.join(words) or 'no group'}")
