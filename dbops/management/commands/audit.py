"""``manage.py audit verify [--heads FILE]``, ``head``, ``export [--format jsonl|csv]``, ``archive --before DAY --to FOLDER``, ``sink``."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dbops.audit.log import current_head
from dbops.engine.audit.chain import read_heads
from dbops.engine.audit.entries import VIEWS
from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.audit_sinks import add_sink_arguments, run_sink_command
from dbops.management.command import DbopsCommand
from dbops.operations.audit_archive import archive_entries
from dbops.operations.audit_log import FORMATS, export_log, verify_log
from dbops.queries.audit.log import AuditFilter, every, stored

NAMES = ("actor", "action", "subject", "instance", "cluster", "outcome", "text")


class Command(DbopsCommand):
    help = "Verify, export or archive the audit log, print its head, or send it to a SIEM."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser(
            "verify", help="verify the chain and the triggers; exit status 1 if there is a problem"
        )
        verify.add_argument("--heads", type=Path, help="file with saved heads to compare with the log")
        verbs.add_parser("head", help="print the number and hash of the last entry")
        archive = verbs.add_parser("archive", help="move the oldest entries from the database to a verified file")
        archive.add_argument(
            "--before", type=datetime.fromisoformat, required=True, help="archive entries before this time"
        )
        archive.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="existing folder for the file")
        add_sink_arguments(verbs.add_parser("sink", help="send new entries to another system"))
        export = verbs.add_parser("export", help="print entries, oldest first")
        export.add_argument("--format", choices=FORMATS, default="jsonl")
        for name in NAMES:
            export.add_argument(f"--{name}", default="")
        export.add_argument("--view", choices=[*VIEWS], default="")
        export.add_argument(
            "--since", type=datetime.fromisoformat, help="entries from this date or time, e.g. 2026-11-01"
        )
        export.add_argument("--until", type=datetime.fromisoformat, help="entries before this time")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = f"{login_name()} (manage.py)"
        if options["verb"] == "head":
            self.stdout.write(str(current_head()))
        elif options["verb"] == "sink":
            run_sink_command(actor, options, self.stdout.write)
        elif options["verb"] == "archive":
            self._archive(actor, options["before"], options["to"])
        elif options["verb"] == "verify":
            self._verify(actor, options["heads"])
        else:
            names = {name: options[name] for name in (*NAMES, "view")}
            selection = AuditFilter(**names, since=_aware(options["since"]), until=_aware(options["until"]))
            for line in export_log(every(selection), options["format"], actor=actor, wanted=selection.as_record()):
                self.stdout.write(line, ending="")

    def _archive(self, actor: str, before: datetime, folder: Path) -> None:
        try:
            segment = archive_entries(actor=actor, before=_aware(before) or before, folder=folder)
        except Refused as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Entries {segment.first} to {segment.last} are in {folder / segment.file_name}.")
        self.stdout.write(f"SHA-256 {segment.file_hash}. Keep the file: no other copy of these entries exists.")

    def _verify(self, actor: str, heads: Path | None) -> None:
        try:
            witnesses = dict(read_heads(heads.read_text().splitlines())) if heads else {}
        except OSError as error:
            raise CommandError(f"{heads}: {error.strerror}. Verification did not run.") from None
        findings, head, count = verify_log(stored(), actor=actor, witnesses=witnesses)
        for item in findings:
            self.stdout.write(str(item))
        self.stdout.write(f"{count} entries, head {head}, {len(witnesses)} saved heads compared")
        if findings:
            self.stdout.write(f"Verification found {len(findings)} problem{'' if len(findings) == 1 else 's'}.")
            sys.exit(1)
        self.stdout.write("Verification found no problems.")


def _aware(value: datetime | None) -> datetime | None:
    return timezone.make_aware(value) if value is not None and timezone.is_naive(value) else value
