"""``manage.py grants INSTANCE``: the statements that create the database accounts of a cluster with the least privileges."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.account_statements import OPTIONS, account_statements, options_of
from dbops.loaders.accounts import account_of, local_account_of
from dbops.management.command import DbopsCommand
from dbops.models import Instance

DASHBOARD, LOCAL = "'dbops'@'DASHBOARD'", "'dbops'@'localhost'"


class Command(DbopsCommand):
    help = "Print the statements that create a cluster's accounts with the least privileges, without passwords."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "instance", nargs="?", help="instance whose server was probed; its accounts in the inventory are used"
        )
        parser.add_argument(
            "--server",
            default="",
            help='version in place of an instance, for example "MariaDB 10.11.6" or "MySQL 8.0.36"',
        )
        parser.add_argument(
            "--dashboard", default="DASHBOARD", help="address that the dashboard connects from, or its last jump host"
        )
        parser.add_argument(
            "--for",
            dest="options",
            action="append",
            default=[],
            choices=list(OPTIONS),
            help="also what this needs; may be repeated: "
            + "; ".join(f"{name}: {text}" for name, text in OPTIONS.items()),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, server = options["instance"], options["server"]
        if bool(name) == bool(server):
            raise CommandError("Name an instance, or a server's version with --server.")
        if (address := options["dashboard"]) and not _is_host_part(address):
            raise CommandError(f"{address!r} is not the host part of an account.")
        users: dict[str, str] = {}
        try:
            if name:
                instance = Instance.objects.select_related("cluster", "state").filter(name=name).first()
                if instance is None:
                    raise CommandError(f"There is no instance {name!r}.")
                flavor, users = _flavor_of(instance), _users_of(instance)
            else:
                product, _, version = server.rpartition(" ")
                flavor = flavor_for(version, product)
        except Refused as error:
            raise CommandError(str(error)) from None
        if unknown := set(options["options"]) - set(options_of(flavor)):
            raise CommandError(f"{flavor.name} needs nothing for: {', '.join(sorted(unknown))}.")
        for one in account_statements(flavor, options["options"]):
            if sql := _with(one.sql, users, address):
                self.stdout.write(f"{sql};")


def _is_host_part(address: str) -> bool:
    return all(letter.isalnum() or letter in ".:_-%/" for letter in address) and address.isascii()


def _flavor_of(instance: Instance) -> Flavor:
    facts = instance.state.facts() if hasattr(instance, "state") else None
    if facts is None or facts.server is None:
        raise CommandError(f"No probe has read the server of {instance.name} yet. Use --server.")
    return flavor_for(facts.server.version, facts.server.flavor)


def _users_of(instance: Instance) -> dict[str, str]:
    """Return the accounts of the inventory by the account of the statements; ``""`` for those that log in without a password."""
    kept = {
        DASHBOARD: account_of(instance, "admin"),
        LOCAL: local_account_of(instance),
        "'backup'@'localhost'": account_of(instance, "backup"),
        "'repl'@'%'": account_of(instance, "replication"),
    }
    return {name: account.user if account.password else "" for name, account in kept.items() if account.user}


def _with(sql: str, users: dict[str, str], address: str) -> str:
    """Return a statement with the accounts of the inventory; ``""`` if it is only for one that logs in without a password."""
    head, to, accounts = sql.partition(" TO ")
    if not to:
        head, to, accounts = "CREATE USER", " ", sql.removeprefix("CREATE USER ")
    shown = []
    for account in accounts.split(", "):
        name = next((name for name in users if account.startswith(name)), "")
        if not name:
            shown.append(account)
        elif users[name]:
            shown.append(f"'{users[name]}'@{name.partition('@')[2]}{account.removeprefix(name)}")
    text = f"{head}{to}{', '.join(shown)}" if shown else ""
    return text.replace("'DASHBOARD'", f"'{address}'")
