"""``manage.py evidence NUMBER --html FILE``."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.database import clock
from dbops.lib.documents import render_document
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.operations.audit_log import take_evidence
from dbops.queries.rebuilds.evidence import evidence_of
from dbops.queries.rebuilds.pages import find


class Command(DbopsCommand):
    help = "Write the full record of one rebuild, with its audit entries, to a self-contained HTML file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int, help="number of the rebuild")
        parser.add_argument("--html", type=Path, metavar="FILE", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        number, to = options["number"], options["html"]
        rebuild = find(number)
        if rebuild is None:
            raise CommandError(f"There is no rebuild {number}.")
        actor = f"{login_name()} (manage.py)"
        found = evidence_of(rebuild, made_by=actor, now=clock.now())
        html = render_document("rebuilds/evidence.html", evidence=found, is_file=True)
        try:
            # Bytes, not text: the audit log stores the hash of exactly these.
            to.write_bytes(html.encode())
        except OSError as error:
            raise CommandError(f"{to}: {error.strerror}. Nothing was written.") from None
        take_evidence(html, rebuild, actor=actor, path="manage.py evidence")
        self.stdout.write(f"rebuild {number}: written to {to}, audit log up to entry {found.head}")
