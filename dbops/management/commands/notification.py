"""``manage.py notification channel|rule add|remove ...``, ``list``, ``events``, ``log``, ``test NAME`` and ``rotate NAME``."""

import time
from datetime import time as Time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.notifications.channels import SERVICES, ChannelKind
from dbops.engine.notifications.events import EVENTS, EventSeverity
from dbops.engine.notifications.rules import DigestInterval
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.management.secret_arguments import add_secret_arguments, given_secret, text_of
from dbops.models import NotificationDelivery
from dbops.operations.notification_channels import add_channel, remove_channel, rotate_secret, test_channel
from dbops.operations.notification_rules import add_rule, remove_rule
from dbops.queries.notifications.channels import channels, deliveries, rules

#: How long ``test`` waits for the result, and between two looks, in seconds.
TEST_SECONDS, LOOK_SECONDS = 60, 0.5


class Command(DbopsCommand):
    help = "Manage notifications: channels, rules, tests and the delivery log."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        _add_channel_arguments(verbs.add_parser("channel", help="add or remove a channel"))
        _add_rule_arguments(verbs.add_parser("rule", help="add or remove a rule"))
        verbs.add_parser("list", help="list channels and rules")
        verbs.add_parser("events", help="list all events")
        log = verbs.add_parser("log", help="print the newest deliveries")
        log.add_argument("--channel", default="")
        log.add_argument("--status", default="", choices=("", *NotificationDelivery.Statuses.values))
        verbs.add_parser("test", help="send a test; exit status 1 if it does not arrive").add_argument("name")
        verbs.add_parser("rotate", help="make a new secret of a webhook and print it").add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        actor, verb = f"{login_name()} (manage.py)", options["verb"]
        try:
            if verb == "test":
                self._test(actor, options["name"])
            elif verb == "rotate":
                secret, until = rotate_secret(actor=actor, name=options["name"])
                self.stdout.write(secret)
                self.stderr.write(f"The old secret signs until {until:%Y-%m-%d %H:%M} UTC, too.")
            elif verb in ("channel", "rule"):
                self._change(actor, options)
            else:
                {"list": self._list, "events": self._events, "log": self._log}[verb](options)
        except Refused as error:
            raise CommandError(str(error)) from None

    def _change(self, actor: str, options: dict[str, Any]) -> None:
        what, verb, name = options["verb"], options["what_verb"], options["name"]
        if verb == "remove":
            (remove_channel if what == "channel" else remove_rule)(actor=actor, name=name)
            self.stdout.write(f"{name}: removed")
        elif what == "channel":
            _, secret = add_channel(
                actor=actor,
                name=name,
                kind=options["kind"],
                address=given_secret(options, "address"),
                ca=text_of(options["ca"]),
                secret=given_secret(options, "secret"),
                every_minutes=options["every_minutes"],
            )
            self.stdout.write(secret or f"{name}: added")
        else:
            keys = ("channel", "cluster", "minimum", "digest")
            quiet_from, quiet_until = options["quiet"] or (None, None)
            add_rule(
                actor=actor,
                name=name,
                events=options["event"] or list(EVENTS),
                quiet_from=quiet_from,
                quiet_until=quiet_until,
                **{key: options[key] for key in keys},
            )
            self.stdout.write(f"{name}: added")

    def _list(self, _: dict[str, Any]) -> None:
        for one in channels():
            row = one.channel
            sent = f"last sent {row.sent_at:%Y-%m-%d %H:%M} UTC" if row.sent_at else "never sent"
            counts = f"waiting {one.waiting}\tfailed {row.failed_count}"
            code = row.error.get("code", "")
            self.stdout.write(f"channel\t{row.name}\t{row.kind}\t{row.shown}\t{one.state}\t{sent}\t{counts}\t{code}")
        for item in rules():
            rule = item.rule
            cluster = rule.cluster.name if rule.cluster else "all clusters"
            quiet = f"quiet {rule.quiet_from:%H:%M}-{rule.quiet_until:%H:%M}" if rule.quiet_from else "no quiet hours"
            words = (rule.name, rule.channel.name, cluster, rule.minimum, quiet, rule.digest, " ".join(rule.events))
            self.stdout.write("\t".join(("rule", *words)))

    def _events(self, _: dict[str, Any]) -> None:
        for kind in EVENTS.values():
            ends = "state" if kind.is_state else "happens"
            self.stdout.write(f"{kind.name}\t{kind.severity}\t{ends}\t{kind.meaning}")

    def _log(self, options: dict[str, Any]) -> None:
        for row in deliveries(1, channel=options["channel"], status=options["status"]):
            what = f"{row.event.kind} {row.event.subject}" if row.event else "test"
            cause = row.error.get("cause", "")
            words = (f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC", row.channel.name, what, row.state, row.status, cause)
            self.stdout.write("\t".join(words))

    def _test(self, actor: str, name: str) -> None:
        test, until = test_channel(actor=actor, name=name), time.monotonic() + TEST_SECONDS
        while time.monotonic() < until:
            row = NotificationDelivery.objects.filter(pk=test.pk).first()
            if row is None:
                raise CommandError(f"{name}: the channel was removed.")
            if row.status == NotificationDelivery.Statuses.SENT:
                self.stdout.write(f"{name}: sent")
                return
            if row.status == NotificationDelivery.Statuses.FAILED:
                error = row.error
                raise CommandError(f"{name}: [{error['code']}] {error['cause']}. {error['next_step']}")
            time.sleep(LOOK_SECONDS)
        raise CommandError(f"{name}: the test still waits. Does a worker run?")


def _add_channel_arguments(parser: CommandParser) -> None:
    verbs = parser.add_subparsers(dest="what_verb", required=True)
    add = verbs.add_parser("add", help="add a channel; prints the secret that dbops makes for a webhook")
    add.add_argument("name")
    add.add_argument("kind", choices=[*ChannelKind])
    services = ", ".join(f"{scheme}://" for scheme in SERVICES)
    add_secret_arguments(add, "address", f"the address ({services})", required=True)
    add.add_argument("--ca", type=Path, help="file with the CA of the receiver's certificate, as PEM")
    add_secret_arguments(add, "secret", "the secret of a webhook; by default dbops makes one")
    add.add_argument("--every-minutes", type=int, help="interval of a heartbeat")
    verbs.add_parser("remove", help="remove a channel with its rules").add_argument("name")


def _add_rule_arguments(parser: CommandParser) -> None:
    verbs = parser.add_subparsers(dest="what_verb", required=True)
    add = verbs.add_parser("add", help="send events to a channel")
    add.add_argument("name")
    add.add_argument("channel")
    add.add_argument("--event", action="append", choices=[*EVENTS], help="repeat for several; by default all")
    add.add_argument("--cluster", default="", help="only this cluster; by default all, and dbops itself")
    add.add_argument("--minimum", default=EventSeverity.INFO.value, choices=[*EventSeverity], help="least severity")
    add.add_argument(
        "--quiet", nargs=2, type=Time.fromisoformat, metavar=("FROM", "UNTIL"), help="quiet hours, e.g. 22:00 07:00"
    )
    add.add_argument("--digest", default=DigestInterval.NONE.value, choices=[*DigestInterval])
    verbs.add_parser("remove", help="remove a rule").add_argument("name")
