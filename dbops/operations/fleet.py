"""Import and export the inventory; add, change and delete its objects; accept host keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from dbops.audit.log import append
from dbops.engine.access.roles import Action
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase, phrases
from dbops.fleetfile import sshkeys, stored
from dbops.fleetfile.apply import apply
from dbops.fleetfile.check import check
from dbops.fleetfile.document import Errors, FileError, TooManyErrors
from dbops.fleetfile.read import read
from dbops.fleetfile.rules import CLUSTER_RULES
from dbops.fleetfile.store import CHANGED, UNCHANGED, ImportReport, Item, Row, store
from dbops.fleetfile.write import write
from dbops.lifecycle.instance_periods import end_periods
from dbops.loaders.ssh_addresses import jump_of
from dbops.models import Cluster, Host, Instance, InstanceState
from dbops.models.secret import holds
from dbops.operations.audit import record_item
from dbops.operations.host_access import require_on_hosts
from dbops.operations.strict_places import strict_places_kept
from dbops.security.permissions import may_administer, require, require_operator
from dbops.security.vault_paths import VaultPath

NOTHING = phrase("Nothing was changed.")
KINDS: dict[type[Any], str] = {Host: phrase("host"), Cluster: phrase("cluster"), Instance: phrase("instance")}


class FleetFileErrors(Refused):
    """Refusal of a fleet file. ``errors`` has every error with its line, in the order of the file."""

    def __init__(self, errors: list[FileError]) -> None:
        super().__init__(
            "fleet.file",
            phrase("Importing a fleet file"),
            cause=phrases(
                "{number} error, first on line {line}",
                "{number} errors, first on line {line}",
                len(errors),
                line=errors[0].line,
            ),
            state=NOTHING,
            next_step=phrase("Correct the lines that are named and import the file again."),
        )
        self.errors = errors


def import_fleet(
    *,
    actor: str,
    text: str,
    base_dir: Path | None,
    replace_host_keys: bool = False,
    dry_run: bool = False,
    user: User | None = None,
) -> ImportReport:
    """Create and update all objects of a fleet file, or none. The caller has checked the permission of ``actor``.

    Args:
        actor: for the audit log.
        base_dir: base of relative paths in the file. ``None`` for text from a browser, which may name
            neither password files nor environment variables of the dashboard's machine.
        replace_host_keys: allow the file to replace accepted host keys.
        dry_run: check everything and report the changes without making them.
        user: the account that imports; ``None`` for ``manage.py``, whose user controls the machine.

    Raises:
        FleetFileErrors: the file has errors (``fleet.file``).
        Refused: the user may not change the rules of a cluster (``access.denied``).
    """
    errors = Errors()
    try:
        return _imported(text, base_dir, errors, actor, replace_host_keys, dry_run, user)
    except TooManyErrors:
        raise FleetFileErrors(errors.sorted()) from None


def _imported(
    text: str,
    base_dir: Path | None,
    errors: Errors,
    actor: str,
    replace_host_keys: bool,
    dry_run: bool,
    user: User | None,
) -> ImportReport:
    fleet = read(text, base_dir, errors)
    with transaction.atomic(), strict_places_kept(actor):
        rows = stored.load(lock=True)
        check(fleet, rows, errors, replace_host_keys=replace_host_keys)
        report = ImportReport(()) if errors else apply(fleet, rows, errors, actor=actor)
        if errors:
            raise FleetFileErrors(errors.sorted())
        for item in report.items:
            if user is not None:
                _require_rules(user, item, phrase("Importing a fleet file"))
            record_item(actor, item, via="fleet file")
        if dry_run:
            transaction.set_rollback(True)
    return report


def export_fleet() -> str:
    """Return the inventory as a fleet file, without secrets."""
    return write()


def save_host(*, actor: User, host: Host | None, values: Mapping[str, Any]) -> Host:
    """Add a host (``None``) or change one. ``values``: model fields; a missing secret keeps its stored value.

    Raises:
        Refused: ``access.denied``, ``fleet.busy`` (a rebuild uses it), ``fleet.invalid``.
    """
    return _save(actor, host, Host, values)


def save_cluster(*, actor: User, cluster: Cluster | None, values: Mapping[str, Any]) -> Cluster:
    """Add or change a cluster. Arguments and errors as ``save_host``."""
    return _save(actor, cluster, Cluster, values)


def save_instance(*, actor: User, instance: Instance | None, values: Mapping[str, Any]) -> Instance:
    """Add or change an instance. A new one is probed at once. Arguments and errors as ``save_host``."""
    return _save(actor, instance, Instance, values)


def read_host_key(host: Host) -> sshkeys.HostKey:
    """Return the key that the host presents now. Connects to the host: only at an operator's click, never to show a page.

    Raises:
        Unreachable: ``ssh.unreachable``; of a jump host ``ssh.jump_unreachable``.
        NoAccess, Refused: of a jump host.
    """
    return sshkeys.presented_host_key(host.ssh_address, host.ssh_port, jump_of(host))


def accept_host_key(*, actor: User, host: Host, host_key: str, replace: bool = False, shown: str | None = None) -> None:
    """Pin a compared host key, with the user and the time.

    Args:
        host_key: ``type base64``, as shown to the person.
        replace: replace the pinned key, which the person has seen.
        shown: fingerprint of the pinned key on the page (``""`` for none); if it has changed, the call is refused.

    Raises:
        Refused: ``access.denied``; the text is no host key (``ssh.bad_host_key``); another key is pinned (``fleet.host_key``).
    """
    operation = phrase("Accepting the host key of {host}", host=host.name)
    require_operator(actor, operation)
    line = sshkeys.host_key_line(host_key)
    with transaction.atomic(), strict_places_kept(actor.get_username()):
        row = Host.objects.select_for_update().get(pk=host.pk)
        pinned = sshkeys.fingerprint_or_empty(row.host_key)
        if row.host_key and row.host_key != line and not replace:
            found = phrase(
                "another key is pinned: {pinned}, accepted by {host_key_accepted_by}",
                pinned=pinned,
                host_key_accepted_by=row.host_key_accepted_by or phrase("an unknown user"),
            )
            raise Refused("fleet.host_key", operation, cause=found)
        if shown is not None and shown != pinned:
            found = phrase(
                "the pinned key is {pinned} by now, not what the page showed", pinned=pinned or phrase("gone")
            )
            raise Refused("fleet.host_key", operation, cause=found)
        _, item = store(row, Host, {"host_key": line}, actor=actor.get_username())
        if item.outcome != UNCHANGED:
            keys = item.changes["host_key"]
            append(actor=actor.get_username(), action="host.key_accepted", subject=host.name, detail=keys)
    host.refresh_from_db()


def require_to_save(actor: User, operation: str, row: Row | None) -> None:
    """Refuse a change of the inventory (``access.denied``). Hosts and instances belong to the fleet: they name programs and paths."""
    if isinstance(row, Cluster) and may_administer(actor, row.pk):
        return require(actor, Action.ADMINISTER, operation, row.pk)  # refuses in the sample
    return require_operator(actor, operation)


def _require_paths(actor: User, operation: str, row: Row | None, values: Mapping[str, Any]) -> None:
    """Refuse another path in Vault from an admin of one cluster: it could be the secret of another one."""
    for name, value in values.items():
        if isinstance(value, VaultPath) and not (row and holds(row, name, value)):
            require_operator(actor, f"{operation}: path in Vault")


def _require_rules(actor: User, item: Item, operation: str) -> None:
    """Refuse a change of a cluster's rules, or of the host of its restore tests. A new cluster can have any."""
    if item.kind != "cluster" or item.outcome != CHANGED:
        return
    cluster = Cluster.objects.get(name=item.name)
    if not item.changes.keys().isdisjoint(CLUSTER_RULES):
        require(actor, Action.ADMINISTER, f"{operation}: rules of {item.name}", cluster.pk)
    if "restore_test_host" in item.changes:
        require_on_hosts(actor, operation, Host.objects.filter(name=cluster.restore_test_host))


def delete(*, actor: User, row: Host | Cluster | Instance) -> None:
    """Delete an object from the inventory. No machine is changed.

    Raises:
        Refused: ``access.denied``; something refers to it (``fleet.in_use``).
    """
    kind, name = type(row).__name__.lower(), row.name
    operation = phrase("Removing the {kind} {name}", kind=KINDS[type(row)], name=name)
    require_operator(actor, operation)
    if isinstance(row, Host) and (
        chosen := Cluster.objects.filter(restore_test_host=name).values_list("name", flat=True).first()
    ):
        raise Refused(
            "fleet.in_use",
            operation,
            cause=phrase("cluster {chosen} uses it for restore tests", chosen=chosen),
            next_step=phrase("Choose another host for these restore tests first."),
        )
    try:
        with transaction.atomic(), strict_places_kept(actor.get_username()):
            if isinstance(row, Instance):
                end_periods(InstanceState.objects.filter(instance=row))
            row.delete()
            append(actor=actor.get_username(), action=f"{kind}.removed", subject=name)
    except ProtectedError as error:
        users = sorted(
            {f"{type(item).__name__.lower()} {getattr(item, 'name', item.pk)}" for item in error.protected_objects}
        )
        raise Refused(
            "fleet.in_use",
            operation,
            cause=phrase("needed by {shown} and {number} more", shown=", ".join(users[:5]), number=len(users) - 5)
            if len(users) > 5
            else phrase("needed by {shown}", shown=", ".join(users)),
        ) from error


def _save(actor: User, row: Row | None, model: type[Row], values: Mapping[str, Any]) -> Row:
    name = row.name if row else values.get("name", "")
    operation = phrase("Saving the {kind} {name}", kind=KINDS[model], name=name)
    require_to_save(actor, operation, row)
    _require_paths(actor, operation, row, values)
    try:
        with transaction.atomic(), strict_places_kept(actor.get_username()):
            rows = stored.load(lock=True)
            current = model.objects.get(pk=row.pk) if row else None
            if reason := rows.why_frozen(current, stored.differences(current, model, values) if current else ()):
                raise Refused("fleet.busy", operation, cause=reason)
            written, item = store(current, model, values, actor=actor.get_username())
            _require_rules(actor, item, operation)
            record_item(actor.get_username(), item, via="browser")
    except (ValidationError, IntegrityError, model.DoesNotExist) as error:
        found = (
            " ".join(error.messages)
            if isinstance(error, ValidationError)
            else phrase("it was changed or taken by someone else")
        )
        raise Refused("fleet.invalid", operation, cause=found) from error
    return written
