"""Add, remove and read inventory sources; ignore their differences."""

from functools import partial
from typing import Any

from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.inventory.address import read_address
from dbops.engine.inventory.comparison import ListingDifference
from dbops.engine.inventory.readers import SourceKind
from dbops.engine.phrases import phrase
from dbops.messaging.wakeups import nudge
from dbops.models import IgnoredDifference, InventorySource
from dbops.models.entered import check_values, refusing
from dbops.models.secret import is_set, vault_detail
from dbops.operations.audit import says_why


def add_source(
    *,
    actor: str,
    name: str,
    kind: str,
    address: str,
    user: str = "",
    secret: str = "",
    ca: str = "",
    every_minutes: int = 60,
) -> InventorySource:
    """Add a source. A worker reads it within seconds.

    Args:
        actor: for the audit log; the caller checks the permission, here and below.
        kind: a ``SourceKind``.
        address: ``https://``, ``http://``, or ``file:NAME`` of a file in ``DBOPS_INVENTORY_DIR``.
        user: empty: ``secret`` is a bearer token.
        secret: stored encrypted; or a ``VaultPath``.
        ca: certificates of the server's authority as PEM; empty for those of the system.

    Raises:
        Refused: one of them is invalid, or the name is taken (``inventory_source.invalid``).
    """
    now = clock.now()
    source = InventorySource(
        name=name,
        kind=kind,
        address=address,
        user=user,
        secret=secret,
        ca=ca,
        every_minutes=every_minutes,
        created_by=actor,
        created_at=now,
        next_read_at=now,
    )
    _check(source)
    detail: dict[str, Any] = {"kind": kind, "address": address, "user": user, "secret": bool(secret), "ca": bool(ca)}
    detail |= vault_detail(source)
    try:
        with transaction.atomic():
            source.save(force_insert=True)
            append(actor=actor, action="inventory_source.added", subject=name, detail=detail)
            nudge()
    except IntegrityError as error:
        raise _invalid(name, phrase("a source of this name exists")) from error
    return source


def remove_source(*, actor: str, name: str) -> None:
    """Remove a source with its secret and its ignored differences. The inventory does not change.

    Raises:
        Refused: there is no source of this name (``inventory_source.not_found``).
    """
    with transaction.atomic():
        source = _locked(name, phrase("Removing inventory source {name}", name=f"{name!r}"))
        InventorySource.objects.filter(pk=source.pk).delete()
        detail = {"kind": source.kind, "address": source.address}
        append(actor=actor, action="inventory_source.removed", subject=name, detail=detail)


def request_reading(*, actor: str, name: str) -> InventorySource:
    """Have a worker read a source now.

    Raises:
        Refused: there is no source of this name (``inventory_source.not_found``).
    """
    with transaction.atomic():
        source = _locked(name, phrase("Reading inventory source {name}", name=f"{name!r}"))
        source.next_read_at = clock.now()
        InventorySource.objects.filter(pk=source.pk).update(next_read_at=source.next_read_at)
        append(actor=actor, action="inventory_source.read_requested", subject=name)
        nudge()
    return source


def ignore_difference(*, actor: str, name: str, difference: ListingDifference, reason: str) -> None:
    """Ignore a difference as long as it has these values. One that was ignored with other values is replaced.

    Raises:
        Refused: there is no source of this name (``inventory_source.not_found``), or no reason (``inventory_source.reason``).
    """
    operation = phrase("Ignoring a difference of inventory source {name}", name=f"{name!r}")
    if not says_why(reason):
        raise Refused("inventory_source.reason", operation, cause=phrase("no reason was given"))
    with transaction.atomic():
        source = _locked(name, operation)
        values = {"listed": difference.listed, "known": difference.known, "reason": reason.strip()}
        IgnoredDifference.objects.update_or_create(
            source=source,
            code=difference.code,
            server=difference.server,
            defaults={**values, "ignored_by": actor, "ignored_at": clock.now()},
        )
        _audit(actor, "inventory_source.difference_ignored", source, difference, reason.strip())


def stop_ignoring(*, actor: str, name: str, difference: ListingDifference) -> None:
    """Show an ignored difference as open again.

    Raises:
        Refused: there is no source of this name (``inventory_source.not_found``), or the difference is not ignored
            (``inventory_source.stale``).
    """
    with transaction.atomic():
        operation = phrase("Opening a difference of inventory source {name}", name=f"{name!r}")
        source = _locked(name, operation)
        mine = IgnoredDifference.objects.filter(source=source, code=difference.code, server=difference.server)
        if not mine.delete()[0]:
            raise Refused("inventory_source.stale", operation, cause=phrase("it is not ignored"))
        _audit(actor, "inventory_source.difference_opened", source, difference)


def _audit(actor: str, action: str, source: InventorySource, difference: ListingDifference, reason: str = "") -> None:
    seen = {"difference": difference.code.value, "listed": difference.listed, "known": difference.known}
    append(actor=actor, action=action, subject=source.name, reason=reason, detail={"server": difference.server, **seen})


def _locked(name: str, operation: str) -> InventorySource:
    source = InventorySource.objects.select_for_update().defer("secret", "listing").filter(name=name).first()
    if source is None:
        raise Refused(
            "inventory_source.not_found",
            operation,
            cause=phrase("there is no source of this name"),
        )
    return source


def _check(source: InventorySource) -> None:
    with refusing(partial(_invalid, source.name)):
        check_values(source, {"name", "kind", "address", "user", "every_minutes"})
        address = read_address(source.address)
    kind, has_secret = SourceKind(source.kind), is_set(source, "secret")
    if address.is_file and (not kind.is_document or source.user or has_secret or source.ca):
        raise _invalid(source.name, phrase("a file needs the kind csv or ansible, and no account and no CA"))
    if source.ca and address.scheme != "https":
        raise _invalid(source.name, phrase("a CA needs https://"))
    if has_secret and not address.hides_secrets:
        raise _invalid(source.name, phrase("a password or token needs https://"))
    if not all("!" <= sign <= "~" and sign != ":" for sign in source.user):
        raise _invalid(source.name, phrase("the user has a space, a colon or a character outside ASCII"))
    if kind is SourceKind.REPLICATION_MANAGER and not (source.user and has_secret):
        raise _invalid(source.name, phrase("replication-manager needs user and password"))


def _invalid(name: str, found: str) -> Refused:
    return Refused.unchanged(
        "inventory_source.invalid", phrase("Adding inventory source {name}", name=f"{name!r}"), found
    )
