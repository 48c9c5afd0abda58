"""``manage.py host gate NAME`` and ``manage.py host sudoers NAME``: the two files of a host in ``sudo`` mode."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.drivers.gate import SEARCH_PATH
from dbops.engine.errors import Refused
from dbops.loaders.gates import installable_gate_of
from dbops.management.command import DbopsCommand
from dbops.models import Host


class Command(DbopsCommand):
    help = "Print what a host needs so that its SSH user runs this dashboard's commands as root, and no others."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        gate = verbs.add_parser("gate", help="the program that sudo runs: it checks the dashboard's signature")
        gate.add_argument("name", help="of the host")
        gate.add_argument("--path", default=SEARCH_PATH, help="directories of programs (default: %(default)s)")
        verbs.add_parser("sudoers", help="the sudoers file for the gate").add_argument("name", help="of the host")

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.filter(name=options["name"]).first()
        if host is None:
            raise CommandError(f"There is no host {options['name']!r}.")
        try:
            gate = installable_gate_of(host)
        except Refused as error:
            raise CommandError(str(error)) from None
        text = gate.program(options["path"]) if options["verb"] == "gate" else gate.sudoers(host.ssh_user)
        self.stdout.write(text, ending="")
