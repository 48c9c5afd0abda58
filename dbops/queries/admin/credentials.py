"""Read which secrets are stored and readable, their use, and their last change. Never a secret itself."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Model, Q

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.loaders.ssh_addresses import certificate_of
from dbops.models import AuditEntry, AuditSink, Cluster, Host, Instance, InventorySource, NotificationChannel
from dbops.models.fleet import ACCOUNTS, SOCKET_ACCOUNTS
from dbops.models.secret import as_stored, key_number
from dbops.security.vault_paths import VaultPath

OWNERS_ON_A_PAGE = 50
#: The states of a secret, the worst first.
LOST, NO_FILE, EXPIRED, MISSING, OLD_KEY, FILE, SOCKET, VAULT, STORED = (
    "lost",
    phrase("no file"),
    "expired",
    "missing",
    phrase("old key"),
    "file",
    "socket",
    "vault",
    "stored",
)
PROBLEMS = (LOST, NO_FILE, EXPIRED)
#: Accounts that a cluster need not have.
OPTIONAL = ("local", "load")
SECRETS: dict[str, tuple[str, str]] = {
    "ssh_private_key": (
        phrase("SSH private key"),
        phrase("the dashboard logs in to the host: probes, rebuilds, backups, tests"),
    ),
    "admin_password": (phrase("Dashboard's password"), phrase("probes and rebuilds log in to each instance")),
    "local_password": (
        phrase("Dashboard's local password"),
        phrase("rebuilds and dumps log in on the instance's own host"),
    ),
    "replication_password": (
        phrase("Replication password"),
        phrase("written into a rebuilt replica, which reads from the primary with it"),
    ),
    "backup_password": (phrase("Backup password"), phrase("the backup tool logs in on the source's own host")),
    "load_password": (
        phrase("Load test password"),
        phrase("sysbench sends the inserts of a load test to a TiDB cluster without data"),
    ),
}
#: Of rows besides hosts, clusters and instances.
OTHERS: dict[tuple[str, str], tuple[str, str]] = {
    ("audit sink", "token"): (phrase("Token"), phrase("sends the audit log to this SIEM")),
    ("inventory source", "secret"): (phrase("Password or token"), phrase("reads the list of servers from this source")),
    ("notification channel", "address"): (
        phrase("Address"),
        phrase("sends messages to this channel; most addresses have a token in them"),
    ),
    ("notification channel", "secret"): (phrase("Signing secret"), phrase("signs webhooks")),
    ("notification channel", "old_secret"): (
        phrase("Older signing secret"),
        phrase("signs webhooks, too, until it ends"),
    ),
    ("discovery", "password"): (phrase("Password"), phrase("logs in to the servers of this discovery")),
}


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret of a host or cluster. ``note`` names an account or a file, and has no part of the secret."""

    column: str
    state: str
    note: str = ""
    changed_at: datetime | None = None
    changed_by: str = ""
    kind: str = ""

    @property
    def title(self) -> str:
        return self._texts[0]

    @property
    def used_for(self) -> str:
        return self._texts[1]

    @property
    def _texts(self) -> tuple[str, str]:
        return OTHERS[self.kind, self.column] if self.kind else SECRETS[self.column]


@dataclass(frozen=True, slots=True)
class Owner:
    """A row with secrets. ``page``: name of the page that changes it; ``""``: the inventory's."""

    kind: str
    name: str
    instances: int
    secrets: tuple[Secret, ...]
    page: str = ""

    @property
    def has_problem(self) -> bool:
        return any(secret.state in PROBLEMS for secret in self.secrets)


@dataclass(frozen=True, slots=True)
class Credentials:
    """One page of owners, and counts over all of them."""

    page: Page[Owner]
    counts: dict[str, int] = field(default_factory=dict)


def title_of(kind: str, column: str) -> str:
    """Return what a secret is called on the pages."""
    return (SECRETS.get(column) or OTHERS[kind, column])[0]


def credentials(number: str | int, *, only_problems: bool = False) -> Credentials:
    """Return one page, clusters first, those with a problem before the others. Six queries."""
    owners = [*_clusters(), *_instances(), *_hosts(), *_others()]
    counts: dict[str, int] = {}
    for secret in (secret for owner in owners for secret in owner.secrets):
        counts[secret.state] = counts.get(secret.state, 0) + 1
    owners.sort(key=lambda owner: not owner.has_problem)
    shown = [owner for owner in owners if owner.has_problem or not only_problems]
    page = Paginator(shown, OWNERS_ON_A_PAGE).get_page(number)
    page.object_list = _with_changes(page.object_list)
    return Credentials(page, counts)


def _clusters() -> Iterator[Owner]:
    tokens = {f"{name}_token": as_stored(f"{name}_password") for name in ACCOUNTS}
    users = [f"{name}_user" for name in ACCOUNTS]
    rows = Cluster.objects.annotate(uses=Count("instances"), **tokens).order_by("name")
    for row in rows.values("name", "uses", *users, *tokens):
        secrets = (
            Secret(f"{name}_password", _state_of(name, row), _note_of(name, row) or phrase("no account"))
            for name in ACCOUNTS
            if name not in OPTIONAL or row[f"{name}_user"]
        )
        yield Owner("cluster", row["name"], row["uses"], tuple(secrets))


def _instances() -> Iterator[Owner]:
    """Return instances with accounts of their own."""
    tokens = {f"{name}_token": as_stored(f"{name}_password") for name in ACCOUNTS}
    users = [f"{name}_user" for name in ACCOUNTS]
    own = reduce(or_, (~Q(**{user: ""}) for user in users))
    for row in Instance.objects.filter(own).annotate(**tokens).order_by("name").values("name", *users, *tokens):
        secrets = (
            Secret(f"{name}_password", _state_of(name, row), _note_of(name, row))
            for name in ACCOUNTS
            if row[f"{name}_user"]
        )
        yield Owner("instance", row["name"], 1, tuple(secrets))


def _state_of(account: str, row: dict[str, Any]) -> str:
    by_socket = account in SOCKET_ACCOUNTS and row[f"{account}_user"] and not row[f"{account}_token"]
    return SOCKET if by_socket else _state(row[f"{account}_token"])


def _note_of(account: str, row: dict[str, Any]) -> str:
    return _with_path(row[f"{account}_user"], row[f"{account}_token"])


def _with_path(note: str, token: str | None) -> str:
    """Return a note with the path of a secret in Vault."""
    path = VaultPath.of_column(token or "")
    return ", ".join(filter(None, (note, path)))


def _hosts() -> Iterator[Owner]:
    rows = Host.objects.annotate(uses=Count("instances"), token=as_stored("ssh_private_key")).order_by("name")
    for row in rows.values("name", "uses", "token", "ssh_user", "ssh_key_file"):
        state, note = _state(row["token"]), _with_path(row["ssh_user"], row["token"])
        if not row["token"] and row["ssh_key_file"]:
            state = FILE if os.access(row["ssh_key_file"], os.R_OK) else NO_FILE
            note = f"{row['ssh_user']}, {row['ssh_key_file']}"
            if state == FILE:
                state, certificate = _certificate(row["ssh_key_file"])
                if certificate:
                    note = joined((note, certificate), ", ")
        yield Owner("host", row["name"], row["uses"], (Secret("ssh_private_key", state, note),))


def _certificate(key_file: str) -> tuple[str, str]:
    """Return the state of a key file with the certificate beside it, and a note about it."""
    try:
        found = certificate_of(Host(ssh_key_file=key_file))
    except Refused:
        return EXPIRED, phrase("certificate not usable")
    if found is None:
        return FILE, ""
    until = f"{found.until:%Y-%m-%d %H:%M} UTC" if found.until else phrase("no end")
    return FILE if found.is_valid_at(clock.now()) else EXPIRED, phrase("certificate until {until}", until=until)


def _others() -> Iterator[Owner]:
    """Return what connects to other systems, with the secrets that are set."""
    tables: tuple[tuple[str, type[Model], str], ...] = (
        ("notification channel", NotificationChannel, "notifications"),
        ("audit sink", AuditSink, "audit-sinks"),
        ("inventory source", InventorySource, "inventory-sources"),
    )
    for kind, model, page in tables:
        columns = [column for owner, column in OTHERS if owner == kind]
        rows = model._default_manager.annotate(**{f"{name}_token": as_stored(name) for name in columns}).order_by(
            "name"
        )
        for row in rows.values("name", *(f"{name}_token" for name in columns)):
            secrets = (
                Secret(name, _state(row[f"{name}_token"]), _with_path("", row[f"{name}_token"]), kind=kind)
                for name in columns
                if row[f"{name}_token"]
            )
            if found := tuple(secrets):
                yield Owner(kind, row["name"], 0, found, page)


def _state(token: str | None) -> str:
    if not token:
        return MISSING
    if VaultPath.of_column(token):
        return VAULT
    number = key_number(token)
    if number is None:
        return LOST
    return OLD_KEY if number else STORED


def _with_changes(owners: Iterable[Owner]) -> list[Owner]:
    """Return the owners with the last change of each secret, from the audit log. One query."""
    shown = list(owners)
    actions = [f"{kind}.{verb}" for kind in ("host", "cluster", "instance") for verb in ("created", "changed")]
    rows = AuditEntry.objects.filter(action__in=actions, subject__in={owner.name for owner in shown})
    rows = rows.filter(detail__has_any_keys=list(SECRETS)).order_by("pk")
    last: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows.values("at", "actor", "action", "subject", "detail"):
        kind = row["action"].partition(".")[0]
        last |= {(kind, row["subject"], column): dict(row) for column in SECRETS if column in row["detail"]}
    return [_with_change(owner, last) for owner in shown]


def _with_change(owner: Owner, last: dict[tuple[str, str, str], dict[str, Any]]) -> Owner:
    secrets = []
    for secret in owner.secrets:
        row = last.get((owner.kind, owner.name, secret.column), {})
        secrets.append(replace(secret, changed_at=row.get("at"), changed_by=row.get("actor", "")))
    return replace(owner, secrets=tuple(secrets))
