"""``manage.py secrets status``, ``rotate`` and ``retire``: the key that encrypts stored secrets."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.operations.secrets import count_secrets, retire_keys, rotate_secrets


class Command(DbopsCommand):
    help = (
        "Show with which key stored secrets are encrypted, encrypt all of them with a new key, and retire older keys."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser(
            "status", help="count the secrets of each column by their key; exit status 1 if one cannot be read"
        )
        rotate = verbs.add_parser("rotate", help="encrypt every stored secret with a new key, while everything runs")
        rotate.add_argument(
            "--current-key",
            action="store_true",
            help="make no key: use the first one of the setting or file, which you have put there",
        )
        verbs.add_parser("retire", help="remove older keys from the file, if no stored secret needs them")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = f"{login_name()} (manage.py)"
        try:
            if options["verb"] == "rotate":
                self._rotate(actor, make_key=not options["current_key"])
            elif options["verb"] == "retire":
                self.stdout.write(f"{retire_keys(actor=actor)} older keys retired")
            else:
                self._status()
        except Refused as error:
            raise CommandError(str(error)) from None

    def _rotate(self, actor: str, *, make_key: bool) -> None:
        done = rotate_secrets(actor=actor, make_key=make_key)
        self.stdout.write(f"{done.encrypted} secrets encrypted with the current key")
        if done.unreadable:
            raise CommandError("No key decrypts these, and they stay as they are:\n" + "\n".join(done.unreadable))
        self.stdout.write("Back up the key file. Then run: manage.py secrets retire")

    def _status(self) -> None:
        counts = count_secrets()
        for one in counts:
            self.stdout.write(
                f"{one.table}.{one.column}\t{one.current} current\t{one.older} older\t{one.unreadable} unreadable\t"
                f"{one.in_vault} in Vault"
            )
        if unreadable := sum(one.unreadable for one in counts):
            raise CommandError(f"{unreadable} stored secrets cannot be read with the current keys.")
