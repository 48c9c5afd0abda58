"""``manage.py fleet import FILE`` and ``manage.py fleet export [FILE]``. Exit status: 0 or 1 (nothing changed)."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.fleetfile.store import UNCHANGED
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.operations.audit import record_export
from dbops.operations.fleet import FleetFileErrors, export_fleet, import_fleet

STANDARD_INPUT = Path("-")


class Command(DbopsCommand):
    help = "Import or export the fleet: hosts, clusters and instances. File format: docs/reference/fleet.md"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        reading = verbs.add_parser("import", help="check a file, then create and update its entries")
        reading.add_argument("file", type=Path, help="file, or - for standard input")
        reading.add_argument("--dry-run", action="store_true", help="print the changes without making them")
        reading.add_argument(
            "--replace-host-keys", action="store_true", help="replace host keys that a person accepted"
        )
        writing = verbs.add_parser("export", help="write the fleet without secrets")
        writing.add_argument("file", type=Path, nargs="?", help="file to write (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "import":
            self._import(options["file"], replace_host_keys=options["replace_host_keys"], dry_run=options["dry_run"])
        else:
            self._export(options["file"])

    def _import(self, file: Path, *, replace_host_keys: bool, dry_run: bool) -> None:
        try:
            report = import_fleet(
                actor=f"{login_name()} (manage.py)",
                text=sys.stdin.read() if file == STANDARD_INPUT else file.read_text(encoding="utf-8"),
                base_dir=file.resolve().parent,
                replace_host_keys=replace_host_keys,
                dry_run=dry_run,
            )
        except FleetFileErrors as found:
            for error in found.errors:
                self.stderr.write(f"{file}:{error}", self.style.ERROR)
            count = len(found.errors)
            raise CommandError(f"{count} error{'s' if count != 1 else ''}. Nothing changed.") from None
        except UnicodeDecodeError as error:
            raise CommandError(f"{file} is not UTF-8 (byte {error.start}). Nothing changed.") from None
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}. Nothing changed.") from None
        for item in report.items:
            if item.outcome != UNCHANGED:
                self.stdout.write(str(item))
        self.stdout.write(f"{report}{' (dry run: nothing changed)' if dry_run else ''}.")

    def _export(self, file: Path | None) -> None:
        text = export_fleet()
        record_export(f"{login_name()} (manage.py)", "fleet", path="manage.py fleet export")
        if file is None:
            self.stdout.write(text, ending="")
            return
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        self.stdout.write(f"Wrote {file}.")
