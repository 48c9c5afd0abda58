"""Add, remove and test channels of notifications, and rotate the secrets of webhooks."""

from datetime import datetime, timedelta
from functools import partial
from secrets import token_bytes

from django.conf import settings
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.notifications.channels import HEARTBEAT_MINUTES, ChannelKind, check_address
from dbops.engine.notifications.events import EventState
from dbops.engine.notifications.webhooks import MADE_BYTES, make_secret
from dbops.engine.phrases import phrase
from dbops.messaging.wakeups import nudge
from dbops.models import NotificationChannel, NotificationDelivery
from dbops.models.entered import check_values, refusing
from dbops.models.secret import is_set, vault_detail, vault_path

#: How long the secret before a rotation signs, too.
OLD_SECRET_SIGNS = timedelta(hours=24)
SECRETS = ("address", "secret", "old_secret")


def add_channel(
    *,
    actor: str,
    name: str,
    kind: str,
    address: str,
    ca: str = "",
    secret: str = "",
    every_minutes: int | None = None,
) -> tuple[NotificationChannel, str]:
    """Add a channel. Return it, and the secret of a webhook that dbops made, which is shown this once.

    Args:
        actor: for the audit log; the caller checks the permission, here and below.
        kind: a ``ChannelKind``.
        address: stored encrypted; the audit log gets the part that pages show. It can be a ``VaultPath``, as ``secret``: what Vault has is
            checked when it is used.
        ca: certificates of the receiver's authority as PEM; empty for those of the system.
        secret: of a webhook; by default dbops makes one.
        every_minutes: interval of a heartbeat.

    Raises:
        Refused: one of them is invalid, or the name is taken (``notification.channel_invalid``).
    """
    is_webhook = kind == ChannelKind.WEBHOOK
    made = make_secret(token_bytes(MADE_BYTES)) if is_webhook and not secret else ""
    now = clock.now()
    channel = NotificationChannel(
        name=name,
        kind=kind,
        address=address,
        ca=ca,
        secret=secret or made,
        every_minutes=every_minutes,
        created_by=actor,
        created_at=now,
        next_try_at=now,
    )
    _check(channel)
    detail = {"kind": kind, "address": channel.shown, "ca": bool(ca), "every_minutes": every_minutes}
    detail |= vault_detail(channel)
    try:
        with transaction.atomic():
            channel.save(force_insert=True)
            append(actor=actor, action="notification.channel_added", subject=name, detail=detail)
            nudge()
    except IntegrityError as error:
        raise _invalid(name, phrase("a channel of this name exists")) from error
    return channel, made


def remove_channel(*, actor: str, name: str) -> None:
    """Remove a channel with its secrets, rules and deliveries.

    Raises:
        Refused: there is no channel of this name (``notification.channel_not_found``).
    """
    with transaction.atomic():
        channel = _locked(name, phrase("Removing notification channel {name}", name=f"{name!r}"))
        rules = list(channel.rules.order_by("name").values_list("name", flat=True))
        NotificationChannel.objects.filter(pk=channel.pk).delete()
        detail = {"address": channel.shown, "rules": rules}
        append(actor=actor, action="notification.channel_removed", subject=name, detail=detail)


def rotate_secret(*, actor: str, name: str) -> tuple[str, datetime]:
    """Give a webhook a new secret. Return it, and until when the old one signs, too.

    Raises:
        Refused: there is no such channel (``notification.channel_not_found``), or it is no webhook, or its secret is in Vault
            (``notification.channel_invalid``).
    """
    secret, until = make_secret(token_bytes(MADE_BYTES)), clock.now() + OLD_SECRET_SIGNS
    with transaction.atomic():
        channel = _locked(name, phrase("Rotating the secret of notification channel {name}", name=f"{name!r}"))
        if channel.kind != ChannelKind.WEBHOOK:
            raise _invalid(name, phrase("only a webhook has a secret"))
        row = NotificationChannel.objects.get(pk=channel.pk)
        if vault_path(row, "secret"):
            raise _invalid(name, phrase("its secret is in Vault: replace it there"))
        changed = {"secret": secret, "old_secret": row.secret, "old_secret_until": until}
        NotificationChannel.objects.filter(pk=channel.pk).update(**changed)
        detail = {"old_secret_until": until.isoformat()}
        append(actor=actor, action="notification.secret_rotated", subject=name, detail=detail)
    return secret, until


def test_channel(*, actor: str, name: str) -> NotificationDelivery:
    """Queue a test message, and have workers send it now, also after a failure. The row has the result.

    Raises:
        Refused: there is no channel of this name (``notification.channel_not_found``).
    """
    with transaction.atomic():
        channel, now = _locked(name, phrase("Testing notification channel {name}", name=f"{name!r}")), clock.now()
        test = NotificationDelivery.objects.create(
            channel=channel, state=EventState.HAPPENED, created_at=now, due_at=now
        )
        NotificationChannel.objects.filter(pk=channel.pk).update(next_try_at=now)
        append(actor=actor, action="notification.channel_tested", subject=name, detail={"address": channel.shown})
        nudge()
    return test


def _locked(name: str, operation: str) -> NotificationChannel:
    rows = NotificationChannel.objects.select_for_update().defer(*SECRETS)
    channel = rows.filter(name=name).first()
    if channel is None:
        raise Refused(
            "notification.channel_not_found",
            operation,
            cause=phrase("there is no channel of this name"),
        )
    return channel


def _check(channel: NotificationChannel) -> None:
    """Check all values, and set what may be shown of the address."""
    kind = channel.kind
    with refusing(partial(_invalid, channel.name)):
        path = vault_path(channel, "address")
        channel.shown = (
            path.column if path else check_address(ChannelKind(kind), channel.address, settings.NOTIFICATION_NETWORKS)
        )
        if is_set(channel, "secret") and kind != ChannelKind.WEBHOOK:
            raise ValueError(phrase("only a webhook has a secret"))
        check_values(channel, {"name", "shown", "kind"})
    if (kind == ChannelKind.HEARTBEAT) != (channel.every_minutes is not None):
        raise _invalid(channel.name, phrase("a heartbeat needs an interval, and other channels have none"))
    if channel.every_minutes is not None and channel.every_minutes not in HEARTBEAT_MINUTES:
        raise _invalid(channel.name, phrase("the interval is 1 to 1440 minutes"))


def _invalid(name: str, found: str) -> Refused:
    return Refused.unchanged(
        "notification.channel_invalid", phrase("Changing notification channel {name}", name=f"{name!r}"), found
    )
