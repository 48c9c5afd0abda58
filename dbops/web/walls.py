"""Texts of a cluster's walls, for example ``passes 600 schemas between 2027-02-03 and 2027-05-20``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.capacity.trend import RateUsed
from dbops.engine.capacity.walls import THRESHOLD, Unit, Wall, WallKind, WallState
from dbops.engine.phrases import phrase
from dbops.web.figures import bytes_text, count, duration, localized, round_duration
from dbops.web.templatetags.phrases import translated

LABELS = {
    WallKind.DISK: phrase("Disk"),
    WallKind.SCHEMAS: phrase("Schemas"),
    WallKind.TABLES: phrase("Tables"),
    WallKind.TABLE_CACHE: phrase("Table cache"),
    WallKind.DEFINITIONS: phrase("Definition cache"),
    WallKind.OPEN_FILES: phrase("Open files"),
    WallKind.AUTO_INCREMENT: phrase("Auto-increment"),
    WallKind.CONNECTIONS: phrase("Connections"),
    WallKind.REDO: phrase("Redo per hour"),
    WallKind.BINLOG: phrase("Binlog headroom"),
    WallKind.REBUILD_TIME: phrase("Rebuild time"),
}
#: What happens at a wall. ``{limit}``: its limit as text, ``{of}``: where that comes from, ``{subject}``: what it is of.
EVENTS = {
    WallKind.DISK: phrase("disk full"),
    WallKind.SCHEMAS: phrase("passes {limit} schemas"),
    WallKind.TABLES: phrase("passes {limit} tables"),
    WallKind.TABLE_CACHE: phrase("tables and partitions exceed {of} ({limit})"),
    WallKind.DEFINITIONS: phrase("tables exceed {of} ({limit})"),
    WallKind.OPEN_FILES: phrase("table files exceed {of} ({limit})"),
    WallKind.AUTO_INCREMENT: phrase("{subject} has no numbers left"),
    WallKind.CONNECTIONS: phrase("connections exceed {of} ({limit})"),
    WallKind.REDO: phrase("redo of an hour exceeds its capacity ({limit})"),
    WallKind.BINLOG: phrase("a rebuild takes longer than binlogs are kept ({limit})"),
    WallKind.REBUILD_TIME: phrase("a rebuild misses its {limit} goal"),
}
#: Labels that are too long for the fleet page.
SHORT_LABELS = {
    WallKind.TABLE_CACHE: phrase("Cache"),
    WallKind.DEFINITIONS: phrase("Cache"),
    WallKind.OPEN_FILES: phrase("Files"),
    WallKind.AUTO_INCREMENT: phrase("IDs"),
    WallKind.CONNECTIONS: phrase("Conn."),
    WallKind.REDO: phrase("Redo"),
    WallKind.BINLOG: phrase("Binlogs"),
    WallKind.REBUILD_TIME: phrase("Rebuild"),
}
#: Names of evidence; variables of the server keep theirs.
EVIDENCE = {
    "disk_free_bytes": phrase("Free space"),
    "data_dir_bytes": phrase("Data directory"),
    "kept_bytes": phrase("Old data kept"),
    "binlog_bytes": phrase("Binary logs"),
    "backup_bytes": phrase("Data to copy"),
    "open_tables": phrase("Open tables"),
    "open_definitions": phrase("Open definitions"),
    "cache_misses_per_hour": phrase("Cache misses per hour"),
}
#: Whole numbers from here on are shortened.
LONG_NUMBERS = (
    (1e15, phrase("{number} quadrillion")),
    (1e12, phrase("{number} trillion")),
    (1e9, phrase("{number} billion")),
)
EXACT_FROM = 100
HOUR_SECONDS, DAY_SECONDS = 3600, 86400


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
        label=translated(LABELS[wall.kind]),
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
    for power, pattern in LONG_NUMBERS:
        if abs(value) >= power:
            return translated(pattern).format(number=localized(f"{value / power:,.2f}"))
    is_whole = value >= EXACT_FROM or value == round(value)
    return localized(f"{value:,.0f}" if is_whole else f"{value:,.2f}")


def event_text(wall: Wall) -> str:
    """Return what happens at a wall, without the time."""
    if wall.kind is WallKind.DISK and wall.limit_is == THRESHOLD:
        return _("disk use passes %(limit)s") % {"limit": value_text(wall.unit, wall.limit)}
    is_of_hours = wall.unit is Unit.SECONDS and HOUR_SECONDS <= wall.limit < DAY_SECONDS
    limit = round_duration(wall.limit) if is_of_hours else value_text(wall.unit, wall.limit)
    values = {"limit": limit, "of": translated(wall.limit_is), "subject": wall.subject or wall.kind}
    return translated(EVENTS[wall.kind]).format(**values)


def when_text(wall: Wall) -> str:
    """Return when a wall is reached: a date, a range, or why there is none."""
    if wall.state is WallState.UNKNOWN:
        known = {"days": wall.trend.days, "needed": wall.trend.days_needed}
        return _("unknown yet (%(days)s of %(needed)s days)") % known
    if wall.first is None:
        return {
            WallState.REACHED: _("reached"),
            WallState.FAR: _("not within 10 years"),
            WallState.NOT_GROWING: _("not growing"),
        }.get(wall.state, _("no estimate"))
    first = _day(wall.first)
    if wall.last is None:
        return _("%(day)s at the earliest") % {"day": first}
    return first if first == _day(wall.last) else _range(first, _day(wall.last))


def days_text(wall: Wall, now: datetime) -> str:
    """Return how far away the first date of a wall is: ``in 41 days``, ``today``; empty without a date."""
    if wall.first is None:
        return ""
    days = _days(wall.first, now)
    if days < 1:
        return _("today")
    return ngettext("in %(number)s day", "in %(number)s days", days) % {"number": count(days)}


def flag_text(wall: Wall, now: datetime) -> str:
    """Return a wall as a label for the fleet page: ``Disk 41 d``."""
    label = translated(SHORT_LABELS.get(wall.kind, LABELS[wall.kind]))
    days = _days(wall.first, now) if wall.first else 0
    if days:
        return _("%(limit)s %(days)s d") % {"limit": label, "days": days}
    return (_("%(limit)s today") if wall.first else _("%(limit)s now")) % {"limit": label}


def sentence(wall: Wall, now: datetime) -> str:
    """Return a wall with instance and time."""
    values = {"name": wall.instance, "event": event_text(wall)}
    if wall.first is None:
        return _("%(name)s: %(event)s now") % values
    values |= {"first": _day(wall.first), "days": days_text(wall, now)}
    if wall.last is None:
        return _("%(name)s: %(event)s not before %(first)s (%(days)s)") % values
    if _day(wall.first) == _day(wall.last):
        return _("%(name)s: %(event)s on %(first)s (%(days)s)") % values
    values["last"] = _day(wall.last)
    return _("%(name)s: %(event)s between %(first)s and %(last)s (%(days)s at the earliest)") % values


def _range(low: str, high: str) -> str:
    return _("%(low)s to %(high)s") % {"low": low, "high": high}


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
    yield _("Limit"), f"{value_text(wall.unit, wall.limit)} ({translated(wall.limit_is)})"
    days = {"days": trend.days, "needed": trend.days_needed}
    yield _("Days with readings"), _("%(days)s (%(needed)s needed)") % days
    if trend.rate_per_day is not None:
        if trend.used is RateUsed.WITHOUT_STEPS:
            said = _("%(rate)s a day, Theil-Sen slope without steps that happened once")
        else:
            said = _("%(rate)s a day, Theil-Sen slope over all days")
        yield _("Rate used"), said % {"rate": _rate(wall, trend.rate_per_day)}
    if trend.low_per_day is not None and trend.high_per_day is not None:
        ends = {"low": _rate(wall, trend.low_per_day), "high": _rate(wall, trend.high_per_day)}
        yield _("Range of the rate"), _("%(low)s to %(high)s a day") % ends
    if trend.net_per_day is not None:
        net = _rate(wall, trend.net_per_day)
        yield _("Net rate"), _("%(rate)s a day, with deletions and steps") % {"rate": net}
    if trend.gross_per_day is not None:
        gross = _rate(wall, trend.gross_per_day)
        yield _("Gross rate"), _("%(rate)s a day, median of daily differences") % {"rate": gross}
    if trend.backtest_error is not None:
        error = value_text(wall.unit, trend.backtest_error)
        if wall.current:
            error += localized(f" ({100 * trend.backtest_error / wall.current:.1f} %)")
        tested = {"error": error, "days": trend.backtest_days}
        yield _("Backtest"), _("at most %(error)s off over the last %(days)s days") % tested
    if trend.steps:
        said = ngettext(
            "%(number)s day with an extraordinary difference",
            "%(number)s days with an extraordinary difference",
            trend.steps,
        )
        yield _("Steps"), said % {"number": trend.steps}
    for name, value in wall.evidence.items():
        yield translated(EVIDENCE.get(name, name)), _evidence_value(name, value)


def _evidence_value(name: str, value: str) -> str:
    """Return a value of the evidence; its name has the unit."""
    try:
        number = float(value)
    except ValueError:
        return value
    if name.endswith("_bytes"):
        return bytes_text(number)
    return duration(number) if name.endswith("_seconds") else value_text(Unit.NUMBER, number)
