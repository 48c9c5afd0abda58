"""``manage.py token make NAME --cluster CLUSTER``, ``manage.py token list`` and ``manage.py token revoke NAME``."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.models import Cluster
from dbops.operations.tokens import CALENDAR, METRICS, REPORT, make_token, revoke_token
from dbops.queries.admin.accounts import tokens


class Command(DbopsCommand):
    help = "Create, list and revoke tokens that let machines report backups, read the calendar or read metrics."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        make = verbs.add_parser("make", help="create a token and print it; it is shown only once")
        make.add_argument("name", help="name of the token, e.g. the host or calendar that uses it")
        make.add_argument(
            "--cluster", default="", help="cluster whose backups it can report (required with --purpose report)"
        )
        make.add_argument("--purpose", choices=(REPORT, CALENDAR, METRICS), default=REPORT)
        revoke = verbs.add_parser("revoke", help="revoke a token permanently")
        revoke.add_argument("name")
        verbs.add_parser("list", help="list tokens without their secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = f"{login_name()} (manage.py)"
        try:
            if options["verb"] == "make":
                self._make(actor, options["name"], options["purpose"], options["cluster"])
            elif options["verb"] == "revoke":
                revoke_token(actor=actor, name=options["name"])
                self.stdout.write(f"{options['name']}: revoked")
            else:
                self._list()
        except Refused as error:
            raise CommandError(str(error)) from None

    def _make(self, actor: str, name: str, purpose: str, cluster_name: str) -> None:
        cluster = Cluster.objects.filter(name=cluster_name).first() if cluster_name else None
        if cluster_name and cluster is None:
            raise CommandError(f"There is no cluster {cluster_name!r}. Nothing changed.")
        _, secret = make_token(actor=actor, name=name, purpose=purpose, cluster=cluster)
        self.stdout.write(secret)

    def _list(self) -> None:
        for token in tokens():
            used = f"last used {token.last_used_at:%Y-%m-%d %H:%M} UTC" if token.last_used_at else "never used"
            state = "revoked" if token.revoked_at else used
            cluster = token.cluster.name if token.cluster else "every cluster"
            self.stdout.write(f"{token.name}\t{token.purpose}\t{cluster}\t{token.prefix}...\t{state}")
