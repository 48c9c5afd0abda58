"""Channels, rules and events for tests: say only what a test is about."""

from typing import Any

from dbops.database import clock
from dbops.engine.notifications.events import EVENTS, EventState
from dbops.models import NotificationChannel, NotificationDelivery, NotificationEvent, NotificationRule
from dbops.operations.notification_channels import add_channel
from dbops.operations.notification_rules import add_rule
from dbops.worker.notification_sender import send_due


def channel(address: str, name: str = "hook", kind: str = "webhook", **values: Any) -> NotificationChannel:
    return add_channel(actor="root", name=name, kind=kind, address=address, **values)[0]


def rule(name: str = "all", channel: str = "hook", **values: Any) -> NotificationRule:
    return add_rule(actor="root", name=name, channel=channel, **{"events": list(EVENTS), **values})


def due_event(wanted: NotificationRule, kind: str = "backup.missed", **values: Any) -> NotificationDelivery:
    """Return a delivery of a new event that is due now."""
    now = clock.now()
    given = {"kind": kind, "cluster": "shop", "subject": "backup-1", "routed": "open"}
    event = NotificationEvent.objects.create(opened_at=now, reported_from=now, path="/rebuilds/", **given)
    state = EventState.OPEN if EVENTS[kind].is_state else EventState.HAPPENED
    given = {"state": state, "created_at": now, "due_at": now} | values
    return NotificationDelivery.objects.create(channel=wanted.channel, rule=wanted, event=event, **given)


def send() -> int:
    return send_due(seconds=30)


def retry() -> int:
    """Send again without the wait after a failure."""
    NotificationChannel.objects.update(next_try_at=clock.now())
    return send()


def fresh(row: Any) -> Any:
    return type(row)._default_manager.get(pk=row.pk)
