"""Notifications: channels, rules, events and deliveries. Only ``dbops.lifecycle`` writes events and deliveries."""

from typing import ClassVar

from django.db import models

from dbops.engine.notifications.channels import ChannelKind
from dbops.engine.notifications.events import EventSeverity, EventState
from dbops.engine.notifications.rules import DigestInterval, Rule
from dbops.engine.notifications.webhooks import check_secret

from .fleet import Cluster
from .phrases import PhrasesField
from .secret import SecretTextField


class NotificationChannel(models.Model):
    """Where messages go. The address is a secret: most services have a token in it. ``shown`` is the part that pages show.

    Of an address in Vault they show its path.

    ``secret`` signs webhooks; ``old_secret`` signs them, too, until ``old_secret_until``. ``every_minutes`` is the heartbeat's
    interval. ``failures`` counts failed deliveries in a row, ``error`` has the last one. Only ``dbops.lifecycle`` writes the columns
    of deliveries, and holds the lease.
    """

    name = models.CharField(max_length=60, unique=True)
    kind = models.CharField(max_length=10, choices=[(item.value, item.value) for item in ChannelKind])
    address = SecretTextField()
    shown = models.CharField(max_length=500)
    ca = models.TextField(blank=True)
    secret = SecretTextField(blank=True, check_text=check_secret)
    old_secret = SecretTextField(blank=True)
    old_secret_until = models.DateTimeField(null=True)
    every_minutes = models.PositiveIntegerField(null=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    sent_at = models.DateTimeField(null=True)
    sent_count = models.BigIntegerField(default=0)
    failed_count = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    error = PhrasesField(default=dict)
    failed_at = models.DateTimeField(null=True)
    next_try_at = models.DateTimeField()
    lease_owner = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class NotificationRule(models.Model):
    """Which events go to a channel, and when. ``quiet_from`` and ``quiet_until`` are times of the dashboard's time zone."""

    name = models.CharField(max_length=60, unique=True)
    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="rules")
    events = models.JSONField(default=list)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    minimum = models.CharField(max_length=10, choices=[(item.value, item.value) for item in EventSeverity])
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    digest = models.CharField(max_length=10, choices=[(item.value, item.value) for item in DigestInterval])
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def wanted(self) -> Rule:
        """The engine's rule. It reads ``cluster``."""
        quiet = (self.quiet_from, self.quiet_until) if self.quiet_from and self.quiet_until else None
        return Rule(
            events=frozenset(self.events),
            cluster=self.cluster.name if self.cluster else "",
            minimum=EventSeverity(self.minimum),
            quiet=quiet,
            digest=DigestInterval(self.digest),
        )


class NotificationEvent(models.Model):
    """Something that is so, was so or happened. ``slot`` is unique while it is so, and for good if it happened.

    ``reported_from``: rules get it from then on; a state that ends before is removed. ``routed``: the last state for which deliveries
    were written.
    """

    slot = models.CharField(max_length=200, unique=True, null=True)  # noqa: DJ001 - ended states have none
    kind = models.CharField(max_length=40)
    cluster = models.CharField(max_length=63, blank=True)
    subject = models.CharField(max_length=200)
    detail = models.CharField(max_length=300, blank=True)
    path = models.CharField(max_length=300, blank=True)
    opened_at = models.DateTimeField(db_index=True)
    reported_from = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    routed = models.CharField(max_length=10, blank=True, db_index=True)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class NotificationDelivery(models.Model):
    """One event in one state for one rule: a row, so that it is sent once. A test has neither rule nor event.

    ``message`` is the id of the message, the same for each attempt and for all deliveries of a digest. ``is_held``: it was held for a
    digest or by quiet hours.
    """

    class Statuses(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="deliveries")
    rule = models.ForeignKey(NotificationRule, on_delete=models.CASCADE, null=True, related_name="deliveries")
    event = models.ForeignKey(NotificationEvent, on_delete=models.CASCADE, null=True, related_name="deliveries")
    state = models.CharField(max_length=10, choices=[(item.value, item.value) for item in EventState])
    status = models.CharField(max_length=10, choices=Statuses.choices, default=Statuses.WAITING)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    is_held = models.BooleanField(default=False)
    message = models.CharField(max_length=40, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rule", "event", "state"], name="one_delivery_of_a_state_for_each_rule")
        ]
        indexes: ClassVar = [models.Index(fields=["status", "channel", "due_at"], name="dbops_delivery_due")]

    def __str__(self) -> str:
        return f"delivery {self.pk}"


class NotificationWatch(models.Model):
    """One row: which process looks for events now, and since when dbops looks. What happened before is not reported."""

    since = models.DateTimeField()
    looked_at = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
