"""Leases of channels, and what became of deliveries."""

from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from dbops.database import clock
from dbops.engine.errors import DbopsError
from dbops.engine.network.retries import wait_after
from dbops.engine.notifications.channels import FIRST_WAIT, LONGEST_WAIT, ChannelKind
from dbops.engine.notifications.events import EVENTS, REPORT
from dbops.models import NotificationChannel, NotificationDelivery, NotificationEvent

#: Longer than a delivery.
LEASE = timedelta(seconds=60)
#: A message is given up so long after its event, or after this many attempts if the receiver refuses it.
GIVEN_UP_AFTER = timedelta(hours=24)
REFUSED_ATTEMPTS = 3
REFUSED = "notification.rejected"
#: More events of a rule than this that are due together become one message. A digest has at most so many.
MOST_SINGLE, MOST_IN_DIGEST = 5, 500
#: Wait until dbops looks again whether it is well enough for its heartbeat.
UNWELL_SECONDS = 30
#: Events that happened are kept so long at least: as long as their rows are there, they are not reported again.
NEWS_KEPT = timedelta(days=14)
_STATUSES = NotificationDelivery.Statuses
WAITING, SENT, FAILED = _STATUSES.WAITING, _STATUSES.SENT, _STATUSES.FAILED


def due(now: datetime) -> QuerySet[NotificationChannel]:
    """Return channels with something to send, no living worker and no wait after a failure."""
    waits = Exists(NotificationDelivery.objects.filter(channel=OuterRef("pk"), status=WAITING, due_at__lte=now))
    rows = NotificationChannel.objects.filter(_is_free(now), next_try_at__lte=now)
    return rows.filter(Q(waits) | Q(kind=ChannelKind.HEARTBEAT))


def claim(channel_id: int) -> NotificationChannel | None:
    """Lease a due channel; ``None`` if it is not due, or another worker has it."""
    now, owner = clock.now(), uuid4().hex
    free = NotificationChannel.objects.filter(_is_free(now), pk=channel_id, next_try_at__lte=now)
    if not free.update(lease_owner=owner, lease_until=now + LEASE):
        return None
    return NotificationChannel.objects.filter(pk=channel_id, lease_owner=owner).first()


def next_batch(channel: NotificationChannel) -> list[NotificationDelivery]:
    """Return the deliveries of the channel's next message, and give them its id before the first attempt.

    Tests are first. Then the order is that of the events, so that no end is sent before its beginning. A retry has the same deliveries
    and the same id.
    """
    now = clock.now()
    waiting = channel.deliveries.filter(status=WAITING, due_at__lte=now).select_related("event", "rule")
    first = waiting.filter(rule=None).order_by("pk").first() or waiting.order_by("pk").first()
    if first is None:
        return []
    if first.message:
        return list(waiting.filter(message=first.message).order_by("pk"))
    batch = [first]
    if first.rule and not _is_report(first):
        others = waiting.filter(rule=first.rule, message="").order_by("pk")[:MOST_IN_DIGEST]
        together = [one for one in others if not _is_report(one)]
        held = [one for one in together if one.is_held]
        batch = together if len(together) > MOST_SINGLE else held if first.is_held else batch
    message = f"msg_{uuid4().hex}"
    NotificationDelivery.objects.filter(pk__in=[one.pk for one in batch]).update(message=message)
    for one in batch:
        one.message = message
    return batch


def mark_sent(channel: NotificationChannel, batch: list[NotificationDelivery]) -> bool:
    """Record that the receiver has a message, and keep the lease. Return whether this worker still has it."""
    now = clock.now()
    next_try = now + timedelta(minutes=channel.every_minutes or 0)
    with transaction.atomic():
        kept = _mine(channel).update(
            sent_at=now,
            sent_count=F("sent_count") + 1,
            failures=0,
            error={},
            failed_at=None,
            lease_until=now + LEASE,
            next_try_at=next_try,
        )
        channel.next_try_at, channel.failures = next_try, 0
        if kept:
            _rows(batch).update(status=SENT, ended_at=now, attempts=F("attempts") + 1, error={})
    return bool(kept)


def mark_failed(channel: NotificationChannel, batch: list[NotificationDelivery], error: DbopsError) -> None:
    """Record a failed attempt, and when to retry, or that the message is given up."""
    now, failures = clock.now(), channel.failures + 1
    is_over = any(_is_over(one, error, now) for one in batch)
    changed = {"failures": failures, "error": error.as_record(), "failed_at": now}
    changed["failed_count"] = F("failed_count") + int(is_over)
    retry = now + timedelta(seconds=wait_after(1 if is_over else failures, first=FIRST_WAIT, longest=LONGEST_WAIT))
    mine = _mine(channel)
    with transaction.atomic():
        # A test that was requested during the attempt is not delayed.
        kept = mine.filter(next_try_at=channel.next_try_at).update(**changed, next_try_at=retry) or mine.update(
            **changed
        )
        if kept:
            ended = {"status": FAILED, "ended_at": now} if is_over else {}
            _rows(batch).update(attempts=F("attempts") + 1, error=error.as_record(), **ended)


def withhold(channel: NotificationChannel, error: DbopsError) -> None:
    """Record why the heartbeat is not sent."""
    retry = clock.now() + timedelta(seconds=UNWELL_SECONDS)
    _mine(channel).update(error=error.as_record(), failed_at=clock.now(), next_try_at=retry)


def release(channel: NotificationChannel) -> None:
    """Give the lease back."""
    _mine(channel).update(lease_owner="", lease_until=None)


def trim(now: datetime, keep: timedelta) -> int:
    """Remove what ended longer ago than ``keep``. Return the number of removed deliveries."""
    gone, _ = NotificationDelivery.objects.filter(ended_at__lt=now - keep).delete()
    happenings = [name for name, kind in EVENTS.items() if not kind.is_state]
    old = NotificationEvent.objects.filter(
        Q(resolved_at__lt=now - keep) | Q(kind__in=happenings, opened_at__lt=now - max(keep, NEWS_KEPT))
    )
    # Listed first: MariaDB deletes no rows by a condition on the table itself.
    waiting = NotificationDelivery.objects.filter(status=WAITING).exclude(event=None).values_list("event", flat=True)
    NotificationEvent.objects.filter(
        pk__in=list(old.exclude(pk__in=list(waiting)).values_list("pk", flat=True))
    ).delete()
    return gone


def _is_over(one: NotificationDelivery, error: DbopsError, now: datetime) -> bool:
    is_refused = error.code == REFUSED and one.attempts + 1 >= REFUSED_ATTEMPTS
    return one.rule_id is None or is_refused or one.created_at <= now - GIVEN_UP_AFTER


def _is_report(one: NotificationDelivery) -> bool:
    return one.event is not None and one.event.kind == REPORT


def _rows(batch: list[NotificationDelivery]) -> QuerySet[NotificationDelivery]:
    return NotificationDelivery.objects.filter(pk__in=[one.pk for one in batch], status=WAITING)


def _is_free(now: datetime) -> Q:
    return Q(lease_until=None) | Q(lease_until__lt=now)


def _mine(channel: NotificationChannel) -> QuerySet[NotificationChannel]:
    return NotificationChannel.objects.filter(pk=channel.pk, lease_owner=channel.lease_owner)
