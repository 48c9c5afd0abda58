"""Rank the limits ahead of a cluster by the date at which it reaches them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dbops.engine.capacity.trend import Trend, TrendState

#: A wall this near is a reason for action.
SOON = timedelta(days=90)


class WallKind(StrEnum):
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
    """Unit of a wall's values."""

    BYTES = "bytes"
    NUMBER = "number"
    SECONDS = "seconds"


UNITS = {
    WallKind.DISK: Unit.BYTES,
    WallKind.REDO: Unit.BYTES,
    WallKind.BINLOG: Unit.SECONDS,
    WallKind.REBUILD_TIME: Unit.SECONDS,
}
#: What many servers reach for good, such as a cache, or once, such as a peak since the start: only a coming date is flagged.
LISTED = (
    *(WallKind.TABLE_CACHE, WallKind.DEFINITIONS, WallKind.OPEN_FILES),
    *(WallKind.CONNECTIONS, WallKind.REDO),
)
#: Once the own limit of one of these is reached, rows cannot be written.
WORST = (WallKind.DISK, WallKind.AUTO_INCREMENT)
#: Source of a limit that people set.
THRESHOLD = "threshold"
#: Kinds for which people may set a threshold of a cluster; the others have limits of their own.
WITH_THRESHOLD = (WallKind.SCHEMAS, WallKind.TABLES, WallKind.DISK)


class WallState(StrEnum):
    """What is known of a wall. ``AHEAD`` has a date; ``FAR`` grows, but has none within the horizon."""

    REACHED = "reached"
    AHEAD = "ahead"
    FAR = "far"
    NOT_GROWING = "not-growing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wall:
    """A limit of one instance, and when it is reached.

    Args:
        subject: which of several, such as ``shop.orders.id``; empty if there is only one.
        limit_is: the source of the limit, such as ``table_definition_cache`` or ``threshold``.
        first, last: range of dates; ``last`` is ``None`` if it may never be reached.
        evidence: pairs of a name and a value, for the details.
    """

    kind: WallKind
    instance: str
    current: float
    limit: float
    limit_is: str
    trend: Trend
    state: WallState
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
        return self.current / self.limit if self.limit > 0 else 1.0

    @property
    def is_flagged(self) -> bool:
        """Return whether the fleet page flags it when it is near: it has a date, or is reached and not only ``LISTED``."""
        return self.first is not None or (self.state is WallState.REACHED and self.kind not in LISTED)

    def is_soon(self, now: datetime) -> bool:
        """Return whether it is reached, or may be within ``SOON``."""
        return self.state is WallState.REACHED or (self.first is not None and self.first <= now + SOON)


def wall_of(
    kind: WallKind,
    instance: str,
    *,
    current: float,
    limit: float,
    limit_is: str,
    trend: Trend,
    subject: str = "",
    evidence: dict[str, str] | None = None,
) -> Wall:
    """Return a wall with its state and dates, from the trend of its current value."""
    state, crossing = _state(current, limit, trend), trend.reaches(limit)
    if state is WallState.AHEAD and crossing.first is None:
        state = WallState.FAR
    has_date = state is WallState.AHEAD
    return Wall(
        kind=kind,
        instance=instance,
        current=current,
        limit=limit,
        limit_is=limit_is,
        trend=trend,
        state=state,
        first=crossing.first if has_date else None,
        last=crossing.last if has_date else None,
        subject=subject,
        evidence=evidence or {},
    )


def _state(current: float, limit: float, trend: Trend) -> WallState:
    if current >= limit:
        return WallState.REACHED
    return {
        TrendState.UNKNOWN: WallState.UNKNOWN,
        TrendState.NOT_GROWING: WallState.NOT_GROWING,
        TrendState.GROWING: WallState.AHEAD,
    }[trend.state]


_ORDER = (WallState.REACHED, WallState.AHEAD, WallState.FAR, WallState.UNKNOWN, WallState.NOT_GROWING)


def ranked(walls: Iterable[Wall]) -> tuple[Wall, ...]:
    """Return walls: reached first, then by date, then those without a date, the fullest first."""
    return tuple(
        sorted(
            walls,
            key=lambda wall: (
                _ORDER.index(wall.state),
                wall.first.timestamp() if wall.first else 0.0,
                -wall.share,
                wall.kind,
                wall.instance,
                wall.subject,
            ),
        )
    )


def most_urgent(walls: Iterable[Wall], now: datetime) -> Wall | None:
    """Return the wall to flag: the ``WORST`` if reached, then the soonest date within ``SOON``, then what else is reached.

    ``None``: no wall is flagged. A limit that is reached for months must not hide a disk that fills in two days.
    """
    flagged = (wall for wall in ranked(walls) if wall.is_flagged)
    return min(flagged, key=lambda wall: _urgency(wall, now), default=None)


def _urgency(wall: Wall, now: datetime) -> int:
    if wall.state is WallState.REACHED:
        return 0 if wall.kind in WORST and wall.limit_is != THRESHOLD else 2
    return 1 if wall.is_soon(now) else 3
