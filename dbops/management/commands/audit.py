"""``manage.py audit verify [--heads FILE]``, ``head``, ``export [--format jsonl|csv]`` and ``put-away --before DAY --to FOLDER``."""

import getpass
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dbops.audit.log import current_head
from dbops.engine.audit.chain import Tampering, read_heads
from dbops.engine.audit.entries import VIEWS
from dbops.engine.errors import Refused
from dbops.management.command import DbopsCommand
from dbops.operations.audit_log import FORMATS, export_log, verify_log
from dbops.operations.audit_retention import put_away
from dbops.queries.audit.log import AuditFilter, every, stored

NAMES = ("actor", "action", "subject", "instance", "cluster", "outcome", "text")


class Command(DbopsCommand):
    help = "Verify the audit log, print its head, and export it."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser(
            "verify", help="verify the chain; status 1 and the entries, where something was done to it"
        )
        verify.add_argument("--heads", type=Path, help="a file of heads that were kept elsewhere")
        verbs.add_parser("head", help="print the number and the hash of the last entry, to be kept elsewhere")
        away = verbs.add_parser(
            "put-away", help="write the oldest entries into a new file, and then remove them from the database"
        )
        away.add_argument("--before", type=datetime.fromisoformat, required=True, help="entries from this time on stay")
        away.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the file is made")
        export = verbs.add_parser("export", help="write entries to standard output, oldest first")
        export.add_argument("--format", choices=FORMATS, default="jsonl")
        for name in NAMES:
            export.add_argument(f"--{name}", default="")
        export.add_argument("--view", choices=[*VIEWS], default="")
        export.add_argument("--since", type=datetime.fromisoformat, help="for example 2026-11-01, or with a time")
        export.add_argument("--until", type=datetime.fromisoformat, help="entries before this time")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = f"{getpass.getuser()} (manage.py)"
        if options["verb"] == "head":
            self.stdout.write(str(current_head()))
        elif options["verb"] == "put-away":
            self._put_away(actor, options["before"], options["to"])
        elif options["verb"] == "verify":
            self._verify(actor, options["heads"])
        else:
            asked = {name: options[name] for name in (*NAMES, "view")}
            wanted = AuditFilter(**asked, since=_aware(options["since"]), until=_aware(options["until"]))
            for line in export_log(every(wanted), options["format"], actor=actor, wanted=wanted.as_record()):
                self.stdout.write(line, ending="")

    def _put_away(self, actor: str, before: datetime, folder: Path) -> None:
        try:
            segment = put_away(actor=actor, before=_aware(before) or before, folder=folder)
        except Refused as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Entries {segment.first} to {segment.last} are in {folder / segment.file_name}.")
        self.stdout.write(f"SHA-256 {segment.file_hash}. Keep it as long as you are asked about them.")

    def _verify(self, actor: str, heads: Path | None) -> None:
        try:
            witnesses = dict(read_heads(heads.read_text().splitlines())) if heads else {}
        except OSError as error:
            raise CommandError(f"{heads}: {error.strerror}. Nothing was verified.") from None
        findings, head, count = verify_log(stored(), actor=actor, witnesses=witnesses)
        for item in findings:
            self.stdout.write(str(item))
        self.stdout.write(f"{count} entries, head {head}, {len(witnesses)} heads that were kept elsewhere")
        if findings:
            is_whole = all(item.kind is Tampering.UNGUARDED for item in findings)
            guards = "The entries are as they were written, but the database would let them be changed."
            self.stdout.write(guards if is_whole else "The log is not as it was written.")
            sys.exit(1)
        self.stdout.write("The log is as it was written.")


def _aware(value: datetime | None) -> datetime | None:
    return timezone.make_aware(value) if value is not None and timezone.is_naive(value) else value
