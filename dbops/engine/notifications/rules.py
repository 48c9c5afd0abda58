"""Rules: which events go to a channel, and when."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum

from dbops.engine.notifications.events import EVENTS, REPORT, EventKind, EventSeverity
from dbops.engine.phrases import phrase

#: When a daily digest is sent, by the dashboard's clock.
DAILY_AT = time(8, 0)


class DigestInterval(StrEnum):
    """Whether events are sent at once, or collected into one message."""

    NONE = "none"
    HOURLY = "hourly"
    DAILY = "daily"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule wants. ``cluster`` is empty for all; equal times of ``quiet`` are none, an end before the begin is on the next day."""

    events: frozenset[str]
    cluster: str = ""
    minimum: EventSeverity = EventSeverity.INFO
    quiet: tuple[time, time] | None = None
    digest: DigestInterval = DigestInterval.NONE

    def wants(self, kind: EventKind, cluster: str) -> bool:
        """Return whether an event of a cluster is sent. Events of dbops itself have no cluster: a cluster's rule has none of them."""
        is_ours = not self.cluster or self.cluster == cluster
        return kind.name in self.events and is_ours and kind.severity.rank >= self.minimum.rank


@dataclass(frozen=True, slots=True)
class Due:
    """When an event is sent. ``is_held``: others of the rule that are due then come in the same message."""

    at: datetime
    is_held: bool


def due(rule: Rule, kind: EventKind, now: datetime, zone: tzinfo) -> Due:
    """Return when an event is sent: critical ones at once; others after quiet hours, and with the rule's next digest."""
    if kind.severity is EventSeverity.CRITICAL:
        return Due(now, is_held=False)
    at, is_held = now, False
    if rule.digest is not DigestInterval.NONE and kind.name != REPORT:
        at, is_held = _next_digest(rule.digest, now, zone), True
    end = _end_of_quiet(rule.quiet, at, zone)
    return Due(end or at, is_held=is_held or end is not None)


def check_events(names: Collection[str]) -> list[str]:
    """Return event names in the table's order.

    Raises:
        ValueError: one is not in the table, or there is none.
    """
    if unknown := sorted(set(names) - set(EVENTS)):
        raise ValueError(phrase("there is no event {name}", name=repr(unknown[0])))
    if not names:
        raise ValueError(phrase("the rule has no event"))
    return [name for name in EVENTS if name in names]


def _next_digest(digest: DigestInterval, now: datetime, zone: tzinfo) -> datetime:
    local = now.astimezone(zone)
    if digest is DigestInterval.HOURLY:
        return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    day = local.date()
    if local >= datetime.combine(day, DAILY_AT, zone):
        day += timedelta(days=1)
    return datetime.combine(day, DAILY_AT, zone).astimezone(UTC)


def _end_of_quiet(quiet: tuple[time, time] | None, at: datetime, zone: tzinfo) -> datetime | None:
    """Return the end of the quiet hours that contain a moment; ``None`` if none do."""
    if quiet is None or quiet[0] == quiet[1]:
        return None
    begin, end = quiet
    local = at.astimezone(zone)
    for day in (local.date() - timedelta(days=1), local.date()):
        starts = datetime.combine(day, begin, zone)
        ends = datetime.combine(day + timedelta(days=end <= begin), end, zone)
        if starts.astimezone(UTC) <= at < ends.astimezone(UTC):
            return ends.astimezone(UTC)
    return None
