"""Read the channels, their state, and the delivery log."""

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q

from dbops.database import clock
from dbops.engine.notifications.channels import ChannelKind, is_encrypted
from dbops.engine.notifications.messages import kind_named
from dbops.models import NotificationChannel, NotificationDelivery, NotificationRule
from dbops.models.secret import is_set, vault_path

DELIVERIES_ON_A_PAGE = 50
WITHHELD = "notification.withheld"


@dataclass(frozen=True, slots=True)
class ChannelNow:
    """A channel, the number of events that are due for it, and its last test."""

    channel: NotificationChannel
    waiting: int
    rules: int
    test: NotificationDelivery | None

    @property
    def state(self) -> str:
        """``withheld`` for a heartbeat while dbops is unwell, ``failing``, ``waiting`` or ``current``."""
        if self.channel.error.get("code") == WITHHELD:
            return "withheld"
        return "failing" if self.channel.error else "waiting" if self.waiting else "current"

    @property
    def is_encrypted(self) -> bool | None:
        """Whether the way to it is encrypted; ``None``: the address is in Vault."""
        return None if vault_path(self.channel, "address") else is_encrypted(self.channel.shown)

    @property
    def is_rotated_here(self) -> bool:
        """Whether dbops can replace its signing secret."""
        return self.channel.kind == ChannelKind.WEBHOOK and not vault_path(self.channel, "secret")

    @property
    def is_rotating(self) -> bool:
        return is_set(self.channel, "old_secret")


@dataclass(frozen=True, slots=True)
class RuleNow:
    """A rule with the titles of its events."""

    rule: NotificationRule

    @property
    def titles(self) -> list[str]:
        return [kind_named(name).title for name in self.rule.events]


def channels() -> list[ChannelNow]:
    """Return all channels by name. Three queries."""
    due = Count("deliveries", Q(deliveries__status="waiting", deliveries__due_at__lte=clock.now()))
    rows = list(NotificationChannel.objects.annotate(due=due).order_by("name"))
    rules = dict(NotificationRule.objects.order_by().values_list("channel").annotate(count=Count("pk")))
    tests: dict[int, NotificationDelivery] = {}
    for one in NotificationDelivery.objects.filter(rule=None).order_by("pk"):
        tests[one.channel_id] = one
    return [ChannelNow(row, row.due, rules.get(row.pk, 0), tests.get(row.pk)) for row in rows]


def rules() -> list[RuleNow]:
    """Return all rules by name. One query."""
    rows = NotificationRule.objects.select_related("channel", "cluster").defer(
        *(f"channel__{name}" for name in ("address", "secret", "old_secret"))
    )
    return [RuleNow(row) for row in rows.order_by("name")]


def deliveries(number: str | int, *, channel: str = "", status: str = "") -> Page[NotificationDelivery]:
    """Return one page of the delivery log, newest first. Two queries."""
    rows = NotificationDelivery.objects.select_related("channel", "rule", "event").defer(
        *(f"channel__{name}" for name in ("address", "secret", "old_secret"))
    )
    if channel:
        rows = rows.filter(channel__name=channel)
    if status:
        rows = rows.filter(status=status)
    return Paginator(rows.order_by("-pk"), DELIVERIES_ON_A_PAGE).get_page(number)
