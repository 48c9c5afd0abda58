"""Texts of a cluster's walls, for example ``passes 600 schemas between 2027-02-03 and 2027-05-20``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

from django.utils import timezone

from dbops.engine.capacity.trend import RateUsed
from dbops.engine.capacity.walls import THRESHOLD, Unit, Wall, WallKind, WallState
from dbops.web.figures import bytes_text, duration

LABELS = {
    WallKind.DISK: "Disk",
    WallKind.SCHEMAS: "Schemas",
    WallKind.TABLES: "Tables",
    WallKind.TABLE_CACHE: "Table cache",
    WallKind.DEFINITIONS: "Definition cache",
    WallKind.OPEN_FILES: "Open files",
    WallKind.AUTO_INCREMENT: "Auto-increment",
    WallKind.CONNECTIONS: "Connections",
    WallKind.REDO: "Redo per hour",
    WallKind.BINLOG: "Binlog headroom",
    WallKind.REBUILD_TIME: "Rebuild time",
}
#: What happens at a wall. ``{limit}``: its limit as text, ``{of}``: where that comes from, ``{subject}``: what it is of.
EVENTS = {
    WallKind.DISK: "disk full",
    WallKind.SCHEMAS: "passes {limit} schemas",
    WallKind.TABLES: "passes {limit} tables",
    WallKind.TABLE_CACHE: "tables and partitions exceed {of} ({limit})",
    WallKind.DEFINITIONS: "tables exceed {of} ({limit})",
    WallKind.OPEN_FILES: "table files exceed {of} ({limit})",
    WallKind.AUTO_INCREMENT: "{subject} has no numbers left",
    WallKind.CONNECTIONS: "connections exceed {of} ({limit})",
    WallKind.REDO: "redo of an hour exceeds its capacity ({limit})",
    WallKind.BINLOG: "a rebuild takes longer than binlogs are kept ({limit})",
    WallKind.REBUILD_TIME: "a rebuild misses its {limit} goal",
}
#: Labels that are too long for the fleet page.
SHORT_LABELS = {
    WallKind.TABLE_CACHE: "Cache",
    WallKind.DEFINITIONS: "Cache",
    WallKind.OPEN_FILES: "Files",
    WallKind.AUTO_INCREMENT: "IDs",
    WallKind.CONNECTIONS: "Conn.",
    WallKind.REDO: "Redo",
    WallKind.BINLOG: "Binlogs",
    WallKind.REBUILD_TIME: "Rebuild",
}
#: Names of evidence; variables of the server keep theirs.
EVIDENCE = {
    "disk_free_bytes": "Free space",
    "data_dir_bytes": "Data directory",
    "kept_bytes": "Old data kept",
    "binlog_bytes": "Binary logs",
    "backup_bytes": "Data to copy",
    "open_tables": "Open tables",
    "open_definitions": "Open definitions",
    "cache_misses_per_hour": "Cache misses per hour",
}
#: Whole numbers from here on are shortened.
LONG_NUMBERS = ((1e15, "quadrillion"), (1e12, "trillion"), (1e9, "billion"))
EXACT_FROM = 100


@dataclass(frozen=True, slots=True)
class WallRow:
    """A wall as the page lists it; ``others`` are those of the same kind and subject on other instances, which come later."""

    wall: Wall
    label: str
    when: str
    days: str
    per_day: str
    is_soon: bool
    evidence: tuple[tuple[str, str], ...]
    others: tuple["WallRow", ...] = ()

    @property
    def current(self) -> str:
        return value_text(self.wall.unit, self.wall.current)

    @property
    def limit(self) -> str:
        return value_text(self.wall.unit, self.wall.limit)

    @property
    def percent(self) -> float:
        return 100 * self.wall.share


def rows_of(walls: Iterable[Wall], now: datetime) -> list[WallRow]:
    """Return ranked walls as rows, the unknown ones last.

    There is one for each kind and subject, and one for a threshold: that of the instance which comes first.
    """
    groups: dict[tuple[WallKind, str, bool], list[Wall]] = {}
    for wall in sorted(walls, key=lambda wall: wall.state is WallState.UNKNOWN):
        groups.setdefault((wall.kind, wall.subject, wall.limit_is == THRESHOLD), []).append(wall)
    return [_row(first, now, tuple(_row(wall, now) for wall in others)) for first, *others in groups.values()]


def _row(wall: Wall, now: datetime, others: tuple[WallRow, ...] = ()) -> WallRow:
    return WallRow(
        wall=wall,
        label=LABELS[wall.kind],
        when=when_text(wall),
        days=days_text(wall, now),
        per_day=_per_day(wall),
        is_soon=wall.is_soon(now) and wall.is_flagged,
        evidence=tuple(_evidence(wall)),
        others=others,
    )


def value_text(unit: Unit, value: float) -> str:
    """Return a value in its unit."""
    if unit is Unit.BYTES:
        return bytes_text(value)
    if unit is Unit.SECONDS:
        return duration(value)
    for power, name in LONG_NUMBERS:
        if abs(value) >= power:
            return f"{value / power:,.2f} {name}"
    return f"{value:,.0f}" if value >= EXACT_FROM or value == round(value) else f"{value:,.2f}"


def event_text(wall: Wall) -> str:
    """Return what happens at a wall, without the time."""
    limit = value_text(wall.unit, wall.limit)
    if wall.kind is WallKind.DISK and wall.limit_is == THRESHOLD:
        return f"disk use passes {limit}"
    return EVENTS[wall.kind].format(
        limit=limit.replace(" h 00 min", " h"), of=wall.limit_is, subject=wall.subject or wall.kind
    )


def when_text(wall: Wall) -> str:
    """Return when a wall is reached: a date, a range, or why there is none."""
    if wall.state is WallState.UNKNOWN:
        return f"unknown yet ({wall.trend.days} of {wall.trend.days_needed} days)"
    if wall.first is None:
        return {
            WallState.REACHED: "reached",
            WallState.FAR: "not within 10 years",
            WallState.NOT_GROWING: "not growing",
        }.get(wall.state, "no estimate")
    first = _day(wall.first)
    if wall.last is None:
        return f"{first} at the earliest"
    return first if first == _day(wall.last) else f"{first} to {_day(wall.last)}"


def days_text(wall: Wall, now: datetime) -> str:
    """Return how far away the first date of a wall is: ``in 41 days``, ``today``; empty without a date."""
    if wall.first is None:
        return ""
    days = _days(wall.first, now)
    if days < 1:
        return "today"
    return f"in {days:,} day{'' if days == 1 else 's'}"


def flag_text(wall: Wall, now: datetime) -> str:
    """Return a wall as a label for the fleet page: ``Disk 41 d``."""
    days = _days(wall.first, now) if wall.first else 0
    return (
        f"{SHORT_LABELS.get(wall.kind, LABELS[wall.kind])} {f'{days} d' if days else 'today' if wall.first else 'now'}"
    )


def sentence(wall: Wall, now: datetime) -> str:
    """Return a wall with instance and time."""
    if wall.first is None:
        return f"{wall.instance}: {event_text(wall)} now"
    where = f"{wall.instance}: {event_text(wall)}"
    if wall.last is None or _day(wall.first) == _day(wall.last):
        on = "not before" if wall.last is None else "on"
        return f"{where} {on} {_day(wall.first)} ({days_text(wall, now)})"
    return f"{where} between {_day(wall.first)} and {_day(wall.last)} ({days_text(wall, now)} at the earliest)"


def _days(moment: datetime, now: datetime) -> int:
    return max(0, floor((moment - now) / timedelta(days=1)))


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"


def _per_day(wall: Wall) -> str:
    rate = wall.trend.rate_per_day
    return _rate(wall, rate) if rate else "—"


def _rate(wall: Wall, value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{value_text(wall.unit, abs(value))}"


def _evidence(wall: Wall) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each part of the evidence."""
    trend = wall.trend
    yield "Limit", f"{value_text(wall.unit, wall.limit)} ({wall.limit_is})"
    yield "Days with readings", f"{trend.days} ({trend.days_needed} needed)"
    if trend.rate_per_day is not None:
        steps = "without steps that happened once" if trend.used is RateUsed.WITHOUT_STEPS else "over all days"
        yield "Rate used", f"{_rate(wall, trend.rate_per_day)} a day, Theil-Sen slope {steps}"
    if trend.low_per_day is not None and trend.high_per_day is not None:
        yield "Range of the rate", f"{_rate(wall, trend.low_per_day)} to {_rate(wall, trend.high_per_day)} a day"
    if trend.net_per_day is not None:
        yield "Net rate", f"{_rate(wall, trend.net_per_day)} a day, with deletions and steps"
    if trend.gross_per_day is not None:
        yield "Gross rate", f"{_rate(wall, trend.gross_per_day)} a day, median of daily differences"
    if trend.backtest_error is not None:
        error = value_text(wall.unit, trend.backtest_error)
        share = f" ({100 * trend.backtest_error / wall.current:.1f} %)" if wall.current else ""
        yield "Backtest", f"at most {error}{share} off over the last {trend.backtest_days} days"
    if trend.steps:
        yield "Steps", f"{trend.steps} day{'' if trend.steps == 1 else 's'} with an extraordinary difference"
    for name, value in wall.evidence.items():
        yield EVIDENCE.get(name, name), _evidence_value(name, value)


def _evidence_value(name: str, value: str) -> str:
    """Return a value of the evidence; its name has the unit."""
    try:
        number = float(value)
    except ValueError:
        return value
    if name.endswith("_bytes"):
        return bytes_text(number)
    return duration(number) if name.endswith("_seconds") else value_text(Unit.NUMBER, number)
