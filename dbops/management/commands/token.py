"""``manage.py token``: make, list and revoke tokens of machines and of the API."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.accounts import actor_named, login_name
from dbops.management.command import DbopsCommand
from dbops.models import Cluster
from dbops.operations.api_tokens import OPERATE, READ, make_api_token
from dbops.operations.tokens import API, CALENDAR, METRICS, REPORT, make_token, revoke_token
from dbops.queries.admin.accounts import tokens


class Command(DbopsCommand):
    help = "Create, list and revoke tokens that let machines report backups, read the calendar, read metrics or use the API."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        make = verbs.add_parser("make", help="create a token and print it; it is shown only once")
        make.add_argument("name", help="name of the token, e.g. the host or calendar that uses it")
        make.add_argument(
            "--cluster", default="", help="cluster that it is limited to (required with --purpose report)"
        )
        make.add_argument("--purpose", choices=(REPORT, CALENDAR, METRICS, API), default=REPORT)
        make.add_argument("--as", dest="user", help="account that an API token acts for (required with --purpose api)")
        make.add_argument("--scope", choices=(READ, OPERATE), default=READ, help="of an API token")
        make.add_argument("--days", type=int, default=90, help="until an API token expires (default: %(default)s)")
        revoke = verbs.add_parser("revoke", help="revoke a token permanently")
        revoke.add_argument("name")
        verbs.add_parser("list", help="list tokens without their secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = f"{login_name()} (manage.py)"
        try:
            if options["verb"] == "make" and options["purpose"] == API:
                self._make_api(options)
            elif options["verb"] == "make":
                self._make(actor, options["name"], options["purpose"], options["cluster"])
            elif options["verb"] == "revoke":
                revoke_token(actor=actor, name=options["name"])
                self.stdout.write(f"{options['name']}: revoked")
            else:
                self._list()
        except Refused as error:
            raise CommandError(str(error)) from None

    def _make(self, actor: str, name: str, purpose: str, cluster_name: str) -> None:
        cluster = _cluster(cluster_name) if cluster_name else None
        _, secret = make_token(actor=actor, name=name, purpose=purpose, cluster=cluster)
        self.stdout.write(secret)

    def _make_api(self, options: dict[str, Any]) -> None:
        if not options["user"]:
            raise CommandError("Name the account with --as. Nothing changed.")
        _, secret = make_api_token(
            actor=actor_named(options["user"]),
            name=options["name"],
            scope=options["scope"],
            clusters=[_cluster(options["cluster"])] if options["cluster"] else None,
            days=options["days"],
        )
        self.stdout.write(secret)

    def _list(self) -> None:
        for token in tokens():
            used = f"last used {token.last_used_at:%Y-%m-%d %H:%M} UTC" if token.last_used_at else "never used"
            state = "revoked" if token.revoked_at else used
            cluster = token.cluster.name if token.cluster else "every cluster"
            if token.user:
                state = f"{state}\t{token.scope} as {token.user}, expires {token.expires_at:%Y-%m-%d}"
                cluster = cluster if token.is_for_all_clusters else ", ".join(one.name for one in token.clusters.all())
            self.stdout.write(f"{token.name}\t{token.purpose}\t{cluster}\t{token.prefix}...\t{state}")


def _cluster(name: str) -> Cluster:
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise CommandError(f"There is no cluster {name!r}. Nothing changed.")
    return cluster
