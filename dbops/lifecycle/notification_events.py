"""Write events, and one delivery of each state of an event for each rule that wants it.

One process at a time looks for events: what it found must not be older than what another one has written. The unique keys hold all the
same if two do.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from uuid import uuid4

from django.db import transaction
from django.db.models import Q, QuerySet

from dbops.database import clock
from dbops.engine.notifications.events import EVENTS, EventState, Occurrence
from dbops.engine.notifications.messages import kind_named
from dbops.engine.notifications.rules import due
from dbops.models import NotificationDelivery, NotificationEvent, NotificationRule, NotificationWatch

THE_WATCH = 1
#: Longer than one look takes.
LEASE = timedelta(seconds=90)
LENGTHS = {field.name: field.max_length for field in NotificationEvent._meta.fields}


@dataclass(frozen=True, slots=True)
class Watch:
    """The right to look for events. What happened before ``since`` is not reported."""

    owner: str
    since: datetime


def claim_watch() -> Watch | None:
    """Lease the watch; ``None`` if another process has it."""
    now, owner = clock.now(), uuid4().hex
    row, _ = NotificationWatch.objects.get_or_create(pk=THE_WATCH, defaults={"since": now})
    free = NotificationWatch.objects.filter(Q(lease_until=None) | Q(lease_until__lt=now), pk=THE_WATCH)
    return Watch(owner, row.since) if free.update(lease_owner=owner, lease_until=now + LEASE) else None


def release_watch(watch: Watch) -> None:
    """Give the lease back."""
    _mine(watch).update(lease_owner="", lease_until=None)


def write_events(
    watch: Watch,
    states: Collection[Occurrence],
    happened: Collection[Occurrence],
    now: datetime,
    *,
    zone: tzinfo,
    delays: Mapping[str, int],
) -> bool:
    """Open and resolve events, and write their deliveries. Return whether this process still has the watch.

    Args:
        states: all that are so now; what is open and not among them is over.
        happened: what happened in the last time; what is known already is skipped.
        zone: of quiet hours and digests.
        delays: seconds that a state must last, where the setting differs from the table of events.
    """
    with transaction.atomic():
        if not _mine(watch).select_for_update().exists():
            return False
        _close_what_is_over({one.slot for one in states}, now)
        _open_new([*states, *happened], now, delays)
        _route_open(now, zone)
        _route_resolved(now, zone)
        _mine(watch).update(looked_at=now, lease_owner="", lease_until=None)
    return True


def _mine(watch: Watch) -> QuerySet[NotificationWatch]:
    return NotificationWatch.objects.filter(pk=THE_WATCH, lease_owner=watch.owner)


def _close_what_is_over(slots: Collection[str], now: datetime) -> None:
    states = [name for name, kind in EVENTS.items() if kind.is_state]
    rows = NotificationEvent.objects.filter(kind__in=states, resolved_at=None)
    over = [(pk, routed) for pk, slot, routed in rows.values_list("pk", "slot", "routed") if slot not in slots]
    NotificationEvent.objects.filter(pk__in=[pk for pk, routed in over if not routed]).delete()
    NotificationEvent.objects.filter(pk__in=[pk for pk, routed in over if routed]).update(resolved_at=now, slot=None)


def _open_new(found: Iterable[Occurrence], now: datetime, delays: Mapping[str, int]) -> None:
    wanted = {_fitting("slot", one.slot): one for one in found}
    known = set(NotificationEvent.objects.filter(slot__in=list(wanted)).values_list("slot", flat=True))
    rows = [
        NotificationEvent(
            slot=slot,
            kind=one.kind,
            cluster=_fitting("cluster", one.cluster),
            subject=_fitting("subject", one.subject),
            detail=_fitting("detail", one.detail),
            path=_fitting("path", one.path),
            opened_at=now,
            reported_from=now + timedelta(seconds=delays.get(one.kind, EVENTS[one.kind].delay_seconds)),
        )
        for slot, one in wanted.items()
        if slot not in known
    ]
    NotificationEvent.objects.bulk_create(rows, ignore_conflicts=True)


def _route_open(now: datetime, zone: tzinfo) -> None:
    new = list(NotificationEvent.objects.filter(routed="", reported_from__lte=now, resolved_at=None).order_by("pk"))
    if not new:
        return
    rules = list(
        NotificationRule.objects.select_related("cluster").only(
            *("channel_id", "events", "minimum", "quiet_from", "quiet_until", "digest", "cluster__name")
        )
    )
    made = []
    for event in new:
        kind = kind_named(event.kind)
        state = EventState.OPEN if kind.is_state else EventState.HAPPENED
        made += [_delivery(rule, event, state, now, zone) for rule in rules if rule.wanted.wants(kind, event.cluster)]
    NotificationDelivery.objects.bulk_create(made, ignore_conflicts=True)
    NotificationEvent.objects.filter(pk__in=[event.pk for event in new]).update(routed=EventState.OPEN)


def _route_resolved(now: datetime, zone: tzinfo) -> None:
    """A rule gets the end of what it got the beginning of."""
    over = NotificationEvent.objects.filter(routed=EventState.OPEN, resolved_at__isnull=False)
    begun = NotificationDelivery.objects.filter(event__in=over, state=EventState.OPEN).order_by("pk")
    rows = begun.select_related("event", "rule__cluster")
    made = [_delivery(one.rule, one.event, EventState.RESOLVED, now, zone) for one in rows if one.rule and one.event]
    NotificationDelivery.objects.bulk_create(made, ignore_conflicts=True)
    over.update(routed=EventState.RESOLVED)


def _delivery(
    rule: NotificationRule, event: NotificationEvent, state: EventState, now: datetime, zone: tzinfo
) -> NotificationDelivery:
    when = due(rule.wanted, kind_named(event.kind), now, zone)
    return NotificationDelivery(
        channel_id=rule.channel_id,
        rule_id=rule.pk,
        event_id=event.pk,
        state=state,
        created_at=now,
        due_at=when.at,
        is_held=when.is_held,
    )


def _fitting(name: str, text: str) -> str:
    return text[: LENGTHS[name]]
