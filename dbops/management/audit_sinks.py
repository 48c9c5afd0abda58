"""``manage.py audit sink add NAME ADDRESS``, ``list``, ``remove NAME`` and ``test NAME``."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.secret_arguments import add_secret_arguments, given_secret, text_of
from dbops.models import AuditSink
from dbops.operations.audit_sinks import add_sink, remove_sink, test_sink
from dbops.queries.audit.sinks import sinks

#: How long ``test`` waits for the receiver, and between two looks, in seconds.
TEST_SECONDS, LOOK_SECONDS = 60, 0.5


def add_sink_arguments(parser: CommandParser) -> None:
    """Add the commands below ``audit sink``."""
    verbs = parser.add_subparsers(dest="sink_verb", required=True)
    add = verbs.add_parser("add", help="send new entries to a receiver")
    add.add_argument("name")
    add.add_argument("address", help="syslog+tls://HOST:6514, syslog+tcp://HOST:514 or https://HOST/PATH")
    add.add_argument("--ca", type=Path, help="file with the CA of the receiver's certificate, as PEM")
    add_secret_arguments(add, "token", "a bearer token")
    add.add_argument("--after", type=int, help="send entries after this number; by default only new ones")
    verbs.add_parser("list", help="list the sinks with what waits")
    for verb, text in (("remove", "stop sending"), ("test", "send an entry; exit status 1 if it does not arrive")):
        verbs.add_parser(verb, help=text).add_argument("name")


def run_sink_command(actor: str, options: dict[str, Any], write: Callable[[str], object]) -> None:
    """Run one of the commands.

    Raises:
        CommandError: it was refused, a file is not readable, or a test failed.
    """
    verb = options["sink_verb"]
    try:
        if verb == "add":
            sink = add_sink(
                actor=actor,
                name=options["name"],
                address=options["address"],
                ca=text_of(options["ca"]),
                token=given_secret(options, "token"),
                after=options["after"],
            )
            write(f"{sink.name}: added. It gets entries from {sink.sent_sequence + 1} on.")
        elif verb == "remove":
            last = remove_sink(actor=actor, name=options["name"])
            write(f"{options['name']}: removed. Its receiver has the entries up to {last}.")
        elif verb == "test":
            _test(actor, options["name"], write)
        else:
            _list(write)
    except Refused as error:
        raise CommandError(str(error)) from None


def _list(write: Callable[[str], object]) -> None:
    for one in sinks():
        sink = one.sink
        sent = f"last sent {sink.sent_sequence}" + (f" at {sink.sent_at:%Y-%m-%d %H:%M:%S} UTC" if sink.sent_at else "")
        counts = f"waiting {one.waiting}\tdropped {sink.dropped}"
        write(f"{sink.name}\t{sink.address}\t{one.state}\t{sent}\t{counts}\t{sink.error.get('code', '')}")


def _test(actor: str, name: str, write: Callable[[str], object]) -> None:
    """Write a test entry, and wait until a worker has sent it or failed."""
    entry, until = test_sink(actor=actor, name=name), time.monotonic() + TEST_SECONDS
    while True:
        sink = AuditSink.objects.defer("token").filter(name=name).first()
        if sink is None:
            raise CommandError(f"{name}: the sink was removed.")
        if sink.sent_sequence >= entry.sequence:
            write(f"{name}: the receiver has entry {entry.sequence}, hash {entry.hash}.")
            return
        if sink.failed_at is not None and sink.failed_at >= entry.at:
            error = sink.error
            raise CommandError(
                f"{name}: [{error['code']}] {error['operation']}: {error['cause']}. {error['next_step']}"
            )
        if time.monotonic() > until:
            raise CommandError(f"{name}: {entry.sequence - sink.sent_sequence} entries still wait. Does a worker run?")
        time.sleep(LOOK_SECONDS)
