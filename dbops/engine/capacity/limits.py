"""Rank the limits ahead of a cluster by the date at which it reaches them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dbops.engine.capacity.trend import Trend, TrendState

#: A limit this near is a reason for action.
SOON = timedelta(days=90)


class LimitKind(StrEnum):
    """What runs into a limit."""

    DISK = "disk"
    SCHEMAS = "schemas"
    TABLES = "tables"
    TABLE_CACHE = "table-cache"
    DEFINITIONS = "definitions"
    OPEN_FILES = "open-files"
    AUTO_INCREMENT = "auto-increment"
    CONNECTIONS = "connections"
    REDO = "redo"
    BINLOG = "binlog"
    REBUILD_TIME = "rebuild-time"


class Unit(StrEnum):
    """Unit of a limit's values."""

    BYTES = "bytes"
    NUMBER = "number"
    SECONDS = "seconds"


UNITS = {
    LimitKind.DISK: Unit.BYTES,
    LimitKind.REDO: Unit.BYTES,
    LimitKind.BINLOG: Unit.SECONDS,
    LimitKind.REBUILD_TIME: Unit.SECONDS,
}
#: What many servers reach for good, such as a cache, or once, such as a peak since the start: only a coming date is flagged.
LISTED = (
    *(LimitKind.TABLE_CACHE, LimitKind.DEFINITIONS, LimitKind.OPEN_FILES),
    *(LimitKind.CONNECTIONS, LimitKind.REDO),
)
#: Once the own limit of one of these is reached, rows cannot be written.
WORST = (LimitKind.DISK, LimitKind.AUTO_INCREMENT)
#: What sets a limit that people set.
THRESHOLD = "threshold"
#: Kinds for which people may set a threshold of a cluster; the others have limits of their own.
WITH_THRESHOLD = (LimitKind.SCHEMAS, LimitKind.TABLES, LimitKind.DISK)


class LimitState(StrEnum):
    """What is known of a limit. ``AHEAD`` has a date; ``FAR`` grows, but has none within the horizon."""

    REACHED = "reached"
    AHEAD = "ahead"
    FAR = "far"
    NOT_GROWING = "not-growing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """A limit of one instance, and when it is reached.

    Args:
        subject: which of several, such as ``shop.orders.id``; empty if there is only one.
        value: what ``current`` must not exceed, in ``unit``.
        set_by: what sets it, such as ``table_definition_cache`` or ``threshold``.
        first, last: range of dates; ``last`` is ``None`` if it may never be reached.
        evidence: pairs of a name and a value, for the details.
    """

    kind: LimitKind
    instance: str
    current: float
    value: float
    set_by: str
    trend: Trend
    state: LimitState
    first: datetime | None = None
    last: datetime | None = None
    subject: str = ""
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        return UNITS.get(self.kind, Unit.NUMBER)

    @property
    def share(self) -> float:
        """Return how much of the limit is used; 1 is all of it."""
        return self.current / self.value if self.value > 0 else 1.0

    @property
    def is_flagged(self) -> bool:
        """Return whether the fleet page flags it when it is near: it has a date, or is reached and not only ``LISTED``."""
        return self.first is not None or (self.state is LimitState.REACHED and self.kind not in LISTED)

    def is_soon(self, now: datetime) -> bool:
        """Return whether it is reached, or may be within ``SOON``."""
        return self.state is LimitState.REACHED or (self.first is not None and self.first <= now + SOON)


def limit_of(
    kind: LimitKind,
    instance: str,
    *,
    current: float,
    value: float,
    set_by: str,
    trend: Trend,
    subject: str = "",
    evidence: dict[str, str] | None = None,
) -> CapacityLimit:
    """Return a limit with its state and dates, from the trend of its current value."""
    state, crossing = _state(current, value, trend), trend.reaches(value)
    if state is LimitState.AHEAD and crossing.first is None:
        state = LimitState.FAR
    has_date = state is LimitState.AHEAD
    return CapacityLimit(
        kind=kind,
        instance=instance,
        current=current,
        value=value,
        set_by=set_by,
        trend=trend,
        state=state,
        first=crossing.first if has_date else None,
        last=crossing.last if has_date else None,
        subject=subject,
        evidence=evidence or {},
    )


def _state(current: float, value: float, trend: Trend) -> LimitState:
    if current >= value:
        return LimitState.REACHED
    return {
        TrendState.UNKNOWN: LimitState.UNKNOWN,
        TrendState.NOT_GROWING: LimitState.NOT_GROWING,
        TrendState.GROWING: LimitState.AHEAD,
    }[trend.state]


_ORDER = (LimitState.REACHED, LimitState.AHEAD, LimitState.FAR, LimitState.UNKNOWN, LimitState.NOT_GROWING)


def ranked(limits: Iterable[CapacityLimit]) -> tuple[CapacityLimit, ...]:
    """Return limits: reached first, then by date, then those without a date, the fullest first."""
    return tuple(
        sorted(
            limits,
            key=lambda limit: (
                _ORDER.index(limit.state),
                limit.first.timestamp() if limit.first else 0.0,
                -limit.share,
                limit.kind,
                limit.instance,
                limit.subject,
            ),
        )
    )


def most_urgent(limits: Iterable[CapacityLimit], now: datetime) -> CapacityLimit | None:
    """Return the limit to flag: the ``WORST`` if reached, then the soonest date within ``SOON``, then what else is reached.

    ``None``: no limit is flagged. A limit that is reached for months must not hide a disk that fills in two days.
    """
    flagged = (limit for limit in ranked(limits) if limit.is_flagged)
    return min(flagged, key=lambda limit: _urgency(limit, now), default=None)


def _urgency(limit: CapacityLimit, now: datetime) -> int:
    if limit.state is LimitState.REACHED:
        return 0 if limit.kind in WORST and limit.set_by != THRESHOLD else 2
    return 1 if limit.is_soon(now) else 3
