"""Write the sample's notifications: channels of the team, their rules, and what was sent in the last month."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.urls import reverse

from dbops.engine.notifications.channels import ChannelKind
from dbops.engine.notifications.events import EVENTS, EventSeverity, EventState
from dbops.engine.notifications.rules import DigestInterval, due
from dbops.engine.states import RunStatus, Status
from dbops.models import (
    BackupRun,
    NotificationChannel,
    NotificationDelivery,
    NotificationEvent,
    NotificationRule,
    Rebuild,
)

PERIOD = timedelta(days=28)
#: Name, kind, what is shown of the address, days since it was added.
CHANNELS = (
    ("dba-mail", ChannelKind.MESSAGE, "mailtos://mail.example.org to dba@example.org", 50),
    ("dba-slack", ChannelKind.MESSAGE, "slack://...", 50),
    ("on-call", ChannelKind.MESSAGE, "pagerduty://...", 48),
    ("ticket-system", ChannelKind.WEBHOOK, "https://tickets.example.org/...", 31),
    ("deadman", ChannelKind.HEARTBEAT, "https://hc.example.org/...", 48),
)
_REBUILDS = [name for name in EVENTS if name.startswith("rebuild.")]
RULES: tuple[tuple[str, str, list[str], EventSeverity, tuple[time, time] | None, DigestInterval], ...] = (
    ("All by mail", "dba-mail", list(EVENTS), EventSeverity.INFO, None, DigestInterval.DAILY),
    ("Rebuilds in chat", "dba-slack", _REBUILDS, EventSeverity.INFO, (time(22), time(7)), DigestInterval.NONE),
    ("Critical", "on-call", list(EVENTS), EventSeverity.CRITICAL, None, DigestInterval.NONE),
    ("Tickets", "ticket-system", list(EVENTS), EventSeverity.WARNING, None, DigestInterval.NONE),
)
OUTAGE = {
    "code": "notification.unavailable",
    "who": "host",
    "operation": "Sending a notification",
    "cause": "the receiver answered HTTP 503",
    "state": "",
    "next_step": "Check that the receiver runs, and that the firewall allows every worker. dbops retries.",
}


def write_notifications(now: datetime, *, by: str) -> None:
    """Write channels, rules, events and deliveries. The addresses are not real: the sample sends nothing."""
    channels = {
        name: _channel(name, kind, shown, now - timedelta(days=days), now, by) for name, kind, shown, days in CHANNELS
    }
    rules = []
    for name, channel, events, minimum, quiet, digest in RULES:
        rules.append(
            NotificationRule.objects.create(
                name=name,
                channel=channels[channel],
                events=events,
                minimum=minimum,
                quiet_from=quiet[0] if quiet else None,
                quiet_until=quiet[1] if quiet else None,
                digest=digest,
                created_by=by,
                created_at=now - timedelta(days=30),
            )
        )
    for values in sorted([*_rebuilds(now), *_runs(now)], key=lambda one: one["opened_at"]):
        event = NotificationEvent.objects.create(reported_from=values["opened_at"], **values)
        for rule in rules:
            if rule.wanted.wants(EVENTS[event.kind], event.cluster):
                _deliver(rule, event, now)
    _count(channels["ticket-system"], now)


def _channel(name: str, kind: ChannelKind, shown: str, since: datetime, now: datetime, by: str) -> NotificationChannel:
    every = 5 if kind is ChannelKind.HEARTBEAT else None
    return NotificationChannel.objects.create(
        name=name,
        kind=kind,
        address="https://example.org/",
        shown=shown,
        every_minutes=every,
        created_by=by,
        created_at=since,
        next_try_at=now,
        sent_at=now - timedelta(minutes=2) if every else None,
    )


def _rebuilds(now: datetime) -> list[dict[str, Any]]:
    ends = {Status.SUCCEEDED.value: "rebuild.done", Status.FAILED.value: "rebuild.failed"}
    rows = Rebuild.objects.filter(finished_at__gt=now - PERIOD, status__in=ends)
    return [
        {
            "kind": ends[row.status],
            "cluster": row.target.cluster.name,
            "subject": row.target.name,
            "detail": f"Rebuild {row.pk}",
            "path": reverse("rebuild", args=[row.pk]),
            "opened_at": row.finished_at,
            "routed": EventState.OPEN,
        }
        for row in rows.select_related("target__cluster").order_by("pk")
    ]


def _runs(now: datetime) -> list[dict[str, Any]]:
    ends = {RunStatus.MISSED.value: "backup.missed", RunStatus.FAILED.value: "backup.failed"}
    rows = BackupRun.objects.filter(finished_at__gt=now - PERIOD, status__in=ends).exclude(schedule=None)
    found = []
    for row in rows.select_related("instance__cluster", "schedule").order_by("pk"):
        good = BackupRun.objects.filter(
            schedule=row.schedule_id, status=RunStatus.SUCCEEDED, finished_at__gt=row.finished_at
        )
        over = good.order_by("finished_at").values_list("finished_at", flat=True).first()
        found.append(
            {
                "kind": ends[row.status],
                "cluster": row.instance.cluster.name,
                "subject": row.instance.name,
                "detail": f"Schedule {row.schedule}, run {row.pk}",
                "path": reverse("backup-run", args=[row.pk]),
                "opened_at": row.finished_at,
                "resolved_at": over,
                "routed": EventState.RESOLVED if over else EventState.OPEN,
            }
        )
    return found


def _deliver(rule: NotificationRule, event: NotificationEvent, now: datetime) -> None:
    kind, states = EVENTS[event.kind], NotificationDelivery.Statuses
    begins = EventState.OPEN if kind.is_state else EventState.HAPPENED
    for state, at in ((begins, event.opened_at), (EventState.RESOLVED, event.resolved_at)):
        if at is None:
            continue
        when = due(rule.wanted, kind, at, UTC)
        is_sent = when.at < now
        NotificationDelivery.objects.create(
            channel=rule.channel,
            rule=rule,
            event=event,
            state=state,
            status=states.SENT if is_sent else states.WAITING,
            created_at=at,
            due_at=when.at,
            is_held=when.is_held,
            attempts=int(is_sent),
            ended_at=when.at + timedelta(seconds=2) if is_sent else None,
        )


def _count(failing: NotificationChannel, now: datetime) -> None:
    """Let one channel fail since its last delivery, and count what the others have sent."""
    last = failing.deliveries.order_by("-pk").first()
    if last:
        waits = {"status": NotificationDelivery.Statuses.WAITING, "attempts": 6, "ended_at": None, "error": OUTAGE}
        NotificationDelivery.objects.filter(pk=last.pk).update(**waits)
        changed = {"error": OUTAGE, "failures": 6, "failed_at": now - timedelta(minutes=4)}
        NotificationChannel.objects.filter(pk=failing.pk).update(**changed)
    for channel in NotificationChannel.objects.all():
        sent = channel.deliveries.filter(status=NotificationDelivery.Statuses.SENT).order_by("pk")
        newest = sent.last()
        if newest:
            NotificationChannel.objects.filter(pk=channel.pk).update(sent_count=sent.count(), sent_at=newest.ended_at)
