"""``manage.py inventory propose KIND FILE``, ``source add|list|show|read|remove``, ``ignore`` and ``open``.

Exit status: 0, 1 (refused, or a source could not be read), 3 (``show``: there are open differences).
"""

import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.inventory.comparison import DifferenceCode
from dbops.engine.inventory.listing import BadListing, ListedServer
from dbops.engine.inventory.readers import SourceKind, read_document
from dbops.fleetfile.proposal import listed_text
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.management.secret_arguments import add_secret_arguments, given_secret, text_of
from dbops.models import InventorySource
from dbops.operations import inventory_sources as verbs
from dbops.queries.inventory_sources import SourceNow, sources

#: How long ``read`` waits for a worker, and between two looks, in seconds.
READ_SECONDS, LOOK_SECONDS = 60, 0.5
DIFFERENT = 3


class Command(DbopsCommand):
    help = "Read what other systems list, and compare it with the inventory. Guide: docs/how-to/inventory-sources.md"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs_ = parser.add_subparsers(dest="verb", required=True)
        propose = verbs_.add_parser("propose", help="print a fleet file of the listed servers; nothing changes")
        propose.add_argument("kind", choices=[kind.value for kind in SourceKind])
        propose.add_argument("file", help="the source's document or answer; -: standard input")
        propose.add_argument("--cluster", default="", help="only the servers of this cluster")
        propose.add_argument("--ssh-user", default="", help="SSH user where the source names none; default root")
        propose.add_argument("--ssh-key-file", default="", help="SSH key on the dashboard's machine")
        _add_source_arguments(verbs_.add_parser("source", help="systems that dbops reads regularly"))
        for verb, text in (("ignore", "ignore a difference"), ("open", "show an ignored difference as open again")):
            ignore = verbs_.add_parser(verb, help=text)
            ignore.add_argument("source")
            ignore.add_argument("server")
            ignore.add_argument("difference", choices=[code.value for code in DifferenceCode])
            if verb == "ignore":
                ignore.add_argument("--reason", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        try:
            if verb == "propose":
                self._propose(options)
            elif verb == "source":
                self._source(options)
            else:
                self._ignore(options)
        except Refused as error:
            raise CommandError(str(error)) from None

    def _propose(self, options: dict[str, Any]) -> None:
        try:
            text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text(encoding="utf-8")
            listing = read_document(SourceKind(options["kind"]), text)
        except BadListing as error:
            raise CommandError(f"{options['file']}: {error}.") from None
        except (OSError, UnicodeError) as error:
            raise CommandError(f"{options['file']}: {getattr(error, 'strerror', None) or 'not a text'}.") from None
        for remark in listing.remarks:
            self.stderr.write(f"skipped: {remark}")
        servers = [server for server in listing.servers if options["cluster"] in ("", server.cluster)]
        if not servers:
            raise CommandError("No server of this cluster is listed.")
        self._write_proposal(servers, options)

    def _write_proposal(self, servers: list[ListedServer], options: dict[str, Any]) -> None:
        text = listed_text(servers, ssh_user=options["ssh_user"], ssh_key_file=options["ssh_key_file"])
        self.stdout.write(text, ending="")

    def _source(self, options: dict[str, Any]) -> None:
        actor, verb = f"{login_name()} (manage.py)", options["source_verb"]
        if verb == "add":
            source = verbs.add_source(
                actor=actor,
                name=options["name"],
                kind=options["kind"],
                address=options["address"],
                user=options["user"],
                secret=given_secret(options, "secret"),
                ca=text_of(options["ca"]),
                every_minutes=options["every_minutes"],
            )
            self.stdout.write(f"{source.name}: added. A worker reads it within seconds.")
        elif verb == "remove":
            verbs.remove_source(actor=actor, name=options["name"])
            self.stdout.write(f"{options['name']}: removed. The inventory did not change.")
        elif verb == "read":
            self._read(actor, options["name"])
        elif verb == "show":
            self._show(_source_now(options["name"]))
        else:
            for now in sources():
                read = f"read {now.source.read_at:%Y-%m-%d %H:%M:%S} UTC" if now.source.read_at else "never read"
                parts = (now.source.name, now.source.kind, now.source.address, now.state, read, f"{len(now.open)} open")
                self.stdout.write("\t".join(parts))

    def _read(self, actor: str, name: str) -> None:
        """Request a reading, and wait until a worker has read the source or failed."""
        asked, until = verbs.request_reading(actor=actor, name=name).next_read_at, time.monotonic() + READ_SECONDS
        while True:
            source = InventorySource.objects.defer("secret").filter(name=name).first()
            if source is None:
                raise CommandError(f"{name}: the source was removed.")
            if source.failed_at is not None and source.failed_at >= asked:
                error = source.error
                raise CommandError(
                    f"{name}: [{error['code']}] {error['operation']}: {error['cause']}. {error['next_step']}"
                )
            if source.read_at is not None and source.read_at >= asked:
                break
            if time.monotonic() > until:
                raise CommandError(f"{name}: no worker has read it yet. Does a worker run?")
            time.sleep(LOOK_SECONDS)
        self._show(_source_now(name))

    def _show(self, now: SourceNow) -> None:
        for remark in now.listing.remarks if now.listing else ():
            self.stderr.write(f"skipped: {remark}")
        for one in now.open:
            self.stdout.write("\t".join((one.server, one.code, one.listed, one.known)))
        if now.listing is None:
            raise CommandError(f"{now.source.name}: not read yet.")
        self.stdout.write(f"{len(now.listing.servers)} servers listed, {len(now.open)} open differences.")
        if now.open:
            sys.exit(DIFFERENT)

    def _ignore(self, options: dict[str, Any]) -> None:
        actor, name = f"{login_name()} (manage.py)", options["source"]
        now, code = _source_now(name), DifferenceCode(options["difference"])
        is_new = options["verb"] == "ignore"
        shown = now.open if is_new else tuple(one.difference for one in now.ignored)
        found = next((one for one in shown if (one.code, one.server) == (code, options["server"])), None)
        if found is None:
            raise CommandError(f"{name}: {options['server']} has no such difference.")
        if is_new:
            verbs.ignore_difference(actor=actor, name=name, difference=found, reason=options["reason"])
        else:
            verbs.stop_ignoring(actor=actor, name=name, difference=found)
        self.stdout.write(f"{found.server}: {'ignored' if is_new else 'open'}.")


def _add_source_arguments(parser: CommandParser) -> None:
    verbs_ = parser.add_subparsers(dest="source_verb", required=True)
    add = verbs_.add_parser("add", help="read a source from now on")
    add.add_argument("name")
    add.add_argument("kind", choices=[kind.value for kind in SourceKind])
    add.add_argument("address", help="https://HOST[:PORT][/PATH], http://..., or file:NAME in DBOPS_INVENTORY_DIR")
    add.add_argument("--user", default="", help="of the password; without it the secret is a bearer token")
    add_secret_arguments(add, "secret", "a password or token")
    add.add_argument("--ca", type=Path, help="file with the CA of the source's certificate, as PEM")
    add.add_argument("--every-minutes", type=int, default=60, help="time between two readings (default 60)")
    verbs_.add_parser("list", help="list the sources with their differences")
    for verb, text in (
        ("show", "print the open differences; exit status 3 if there are any"),
        ("read", "read now, then as show"),
        ("remove", "stop reading"),
    ):
        verbs_.add_parser(verb, help=text).add_argument("name")


def _source_now(name: str) -> SourceNow:
    found = sources(InventorySource.objects.filter(name=name))
    if not found:
        raise CommandError(f"There is no inventory source {name!r}.")
    return found[0]
