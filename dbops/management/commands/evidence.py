"""``manage.py evidence NUMBER --html FILE``."""

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dbops.lib.pdf import document
from dbops.management.command import DbopsCommand
from dbops.operations.audit_log import take_evidence
from dbops.queries.rebuilds.evidence import evidence_of
from dbops.queries.rebuilds.pages import find


class Command(DbopsCommand):
    help = (
        "Write everything that is known of one rebuild, with its entries of the audit log, as HTML that stands alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int, help="of the rebuild")
        parser.add_argument("--html", type=Path, metavar="FILE", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        number, to = options["number"], options["html"]
        rebuild = find(number)
        if rebuild is None:
            raise CommandError(f"There is no rebuild {number}.")
        actor = f"{getpass.getuser()} (manage.py)"
        found = evidence_of(rebuild, made_by=actor, now=timezone.now())
        html = document("rebuilds/evidence.html", evidence=found, stands_alone=True)
        try:
            # Byte for byte what its hash in the log is of.
            to.write_bytes(html.encode())
        except OSError as error:
            raise CommandError(f"{to}: {error.strerror}. Nothing was written.") from None
        take_evidence(html, rebuild, actor=actor, path="manage.py evidence")
        self.stdout.write(f"rebuild {number}: written to {to}, audit log up to entry {found.head}")
