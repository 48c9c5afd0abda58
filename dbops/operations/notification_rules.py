"""Add and remove rules: which events go to a channel, and when."""

from collections.abc import Collection
from datetime import time

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.notifications.channels import ChannelKind
from dbops.engine.notifications.events import EventSeverity
from dbops.engine.notifications.rules import DigestInterval, check_events
from dbops.engine.phrases import phrase, said
from dbops.models import Cluster, NotificationChannel, NotificationRule


def add_rule(
    *,
    actor: str,
    name: str,
    channel: str,
    events: Collection[str],
    cluster: str = "",
    minimum: str = EventSeverity.INFO,
    quiet_from: time | None = None,
    quiet_until: time | None = None,
    digest: str = DigestInterval.NONE,
) -> NotificationRule:
    """Add a rule. It gets what begins or happens from now on.

    Args:
        actor: for the audit log; the caller checks the permission, here and below.
        channel: name of the channel.
        events: names of the table of events.
        cluster: name of the only cluster; by default all, and dbops itself.
        minimum: least severity.
        quiet_from, quiet_until: quiet hours in the dashboard's time zone; both or none.

    Raises:
        Refused: one of them is invalid, or the name is taken (``notification.rule_invalid``).
    """
    target = NotificationChannel.objects.defer("address", "secret", "old_secret").filter(name=channel).first()
    only = Cluster.objects.filter(name=cluster).first() if cluster else None
    if target is None or target.kind == ChannelKind.HEARTBEAT:
        raise _invalid(name, phrase("there is no channel {channel} for messages", channel=f"{channel!r}"))
    if cluster and only is None:
        raise _invalid(name, phrase("there is no cluster {cluster}", cluster=f"{cluster!r}"))
    if (quiet_from is None) != (quiet_until is None):
        raise _invalid(name, phrase("quiet hours need a begin and an end"))
    try:
        rule = NotificationRule(
            name=name,
            channel=target,
            events=check_events(events),
            cluster=only,
            minimum=EventSeverity(minimum),
            quiet_from=quiet_from,
            quiet_until=quiet_until,
            digest=DigestInterval(digest),
            created_by=actor,
            created_at=clock.now(),
        )
        rule.clean_fields(exclude={field.name for field in NotificationRule._meta.fields} - {"name"})
        with transaction.atomic():
            rule.save(force_insert=True)
            append(actor=actor, action="notification.rule_added", subject=name, detail=_detail(rule))
    except ValidationError as error:
        raise _invalid(name, " ".join(error.messages)) from error
    except ValueError as error:
        raise _invalid(name, said(error)) from error
    except IntegrityError as error:
        raise _invalid(name, phrase("a rule of this name exists")) from error
    return rule


def remove_rule(*, actor: str, name: str) -> None:
    """Remove a rule with its deliveries; what waits is not sent.

    Raises:
        Refused: there is no rule of this name (``notification.rule_not_found``).
    """
    with transaction.atomic():
        rule = NotificationRule.objects.select_for_update().filter(name=name).first()
        if rule is None:
            raise Refused(
                "notification.rule_not_found",
                phrase("Removing rule {name}", name=f"{name!r}"),
                cause=phrase("there is no rule of this name"),
            )
        detail = _detail(rule)
        NotificationRule.objects.filter(pk=rule.pk).delete()
        append(actor=actor, action="notification.rule_removed", subject=name, detail=detail)


def _detail(rule: NotificationRule) -> dict[str, object]:
    return {
        "channel": rule.channel.name,
        "events": rule.events,
        "cluster": rule.cluster.name if rule.cluster else "",
        "minimum": str(rule.minimum),
        "quiet": f"{rule.quiet_from:%H:%M}-{rule.quiet_until:%H:%M}" if rule.quiet_from and rule.quiet_until else "",
        "digest": str(rule.digest),
    }


def _invalid(name: str, found: str) -> Refused:
    return Refused.unchanged(
        "notification.rule_invalid", phrase("Adding notification rule {name}", name=f"{name!r}"), found
    )
