"""``manage.py discover ADDRESS[:PORT] (--cluster-accounts NAME | --user U (--password-stdin | --password-vault PATH))``.

Exit status: 0 discovered, 1 not finished or no server could be read, 2 refused.
"""

import time
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.management.passwords import password_line
from dbops.management.secret_arguments import vault_path
from dbops.models import Cluster, Discovery
from dbops.operations.topology import request_discovery
from dbops.queries.topology import Drawn, found_of, proposals

WAIT_SECONDS = 120.0


class Command(DbopsCommand):
    help = "Discover servers by following replication from one of them. Guide: docs/how-to/topology.md"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", help="ADDRESS or ADDRESS:PORT of one server; put an IPv6 address in [brackets]")
        account = parser.add_mutually_exclusive_group(required=True)
        account.add_argument("--cluster-accounts", metavar="NAME", help="log in with this cluster's stored account")
        account.add_argument("--user", help="log in as this user")
        password = parser.add_mutually_exclusive_group()
        password.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the user's password from standard input; a terminal asks for it",
        )
        password.add_argument("--password-vault", type=vault_path, metavar="PATH#FIELD", help="where it is in Vault")
        parser.add_argument(
            "--wait-seconds", type=float, default=WAIT_SECONDS, help="how long to wait for the worker (default 120)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        address, port = _split(options["address"])
        if bool(options["user"]) != bool(options["password_stdin"] or options["password_vault"]):
            raise CommandError(
                "Use --user together with --password-stdin or --password-vault. Discovery did not start.", returncode=2
            )
        password = options["password_vault"] or (password_line() if options["user"] else "")
        try:
            row = request_discovery(
                actor=f"{login_name()} (manage.py)",
                address=address,
                port=port,
                cluster=_cluster(options["cluster_accounts"]),
                user=options["user"] or "",
                password=password,
            )
        except Refused as error:
            raise CommandError(str(error), returncode=2) from None
        self._show(self._wait(row, options["wait_seconds"]))

    def _wait(self, row: Discovery, seconds: float) -> Discovery:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            row.refresh_from_db()
            if row.is_over:
                return row
            time.sleep(0.3)
        raise CommandError(
            f"Discovery {row.pk} is still {row.status}. Check that the worker and Redis run.", returncode=1
        )

    def _show(self, row: Discovery) -> None:
        found = found_of(row)
        if found is None:
            raise CommandError(f"Discovery did not finish: {row.error.get('cause', 'unknown cause')}.", returncode=1)
        for proposal in proposals(found):
            cluster = proposal.cluster
            self.stdout.write(
                f"{proposal.stored_in or cluster.name}{' (in the inventory)' if proposal.stored_in else ''}"
            )
            for remark in cluster.remarks:
                self.stdout.write(f"  ! {remark}")
            self._tree(proposal.drawn, 1)
        for place in found.left_out:
            self.stdout.write(f"skipped: {place}")
        if not any(node.is_read for node in found.nodes):
            raise CommandError("No server could be read.", returncode=1)
        self.stdout.write(f"{len(found.nodes)} servers in {found.seconds:.1f} s. Nothing changed. Discovery {row.pk}.")

    def _tree(self, nodes: Iterable[Drawn], depth: int) -> None:
        indent = "  " * depth
        for node in nodes:
            role = node.role or ("outside" if node.kind == "outside" else "no role proposed")
            self.stdout.write(f"{indent}- {node.name} [{role}] {'; '.join(node.lines)}")
            for arrow in node.arrows:
                self.stdout.write(f"{indent}    from {arrow.source}: {arrow.text}")
            for text in filter(None, (node.state_text, *node.notes)):
                self.stdout.write(f"{indent}    {text}")
            self._tree(node.below, depth + 1)


def _split(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        host, port = text, "3306"
    if not port.isdigit():
        raise CommandError(f"{port!r} is not a port. Discovery did not start.", returncode=2)
    return host.removeprefix("[").removesuffix("]"), int(port)


def _cluster(name: str | None) -> Cluster | None:
    if name is None:
        return None
    row = Cluster.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no cluster {name!r}. Discovery did not start.", returncode=2)
    return row
