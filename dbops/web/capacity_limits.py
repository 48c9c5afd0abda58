"""Texts of a cluster's limits, for example ``passes 600 schemas between 2027-02-03 and 2027-05-20``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.capacity.limits import THRESHOLD, CapacityLimit, LimitKind, LimitState, Unit
from dbops.engine.capacity.trend import RateUsed
from dbops.engine.phrases import phrase
from dbops.web.figures import bytes_text, count, duration, localized, round_duration
from dbops.web.templatetags.phrases import translated

LABELS = {
    LimitKind.DISK: phrase("Disk"),
    LimitKind.SCHEMAS: phrase("Schemas"),
    LimitKind.TABLES: phrase("Tables"),
    LimitKind.TABLE_CACHE: phrase("Table cache"),
    LimitKind.DEFINITIONS: phrase("Definition cache"),
    LimitKind.OPEN_FILES: phrase("Open files"),
    LimitKind.AUTO_INCREMENT: phrase("Auto-increment"),
    LimitKind.CONNECTIONS: phrase("Connections"),
    LimitKind.REDO: phrase("Redo per hour"),
    LimitKind.BINLOG: phrase("Binlog headroom"),
    LimitKind.REBUILD_TIME: phrase("Rebuild time"),
}
#: What happens at a limit. ``{limit}``: its value as text, ``{of}``: where that comes from, ``{subject}``: what it is of.
EVENTS = {
    LimitKind.DISK: phrase("disk full"),
    LimitKind.SCHEMAS: phrase("passes {limit} schemas"),
    LimitKind.TABLES: phrase("passes {limit} tables"),
    LimitKind.TABLE_CACHE: phrase("tables and partitions exceed {of} ({limit})"),
    LimitKind.DEFINITIONS: phrase("tables exceed {of} ({limit})"),
    LimitKind.OPEN_FILES: phrase("table files exceed {of} ({limit})"),
    LimitKind.AUTO_INCREMENT: phrase("{subject} has no numbers left"),
    LimitKind.CONNECTIONS: phrase("connections exceed {of} ({limit})"),
    LimitKind.REDO: phrase("redo of an hour exceeds its capacity ({limit})"),
    LimitKind.BINLOG: phrase("a rebuild takes longer than binlogs are kept ({limit})"),
    LimitKind.REBUILD_TIME: phrase("a rebuild misses its {limit} goal"),
}
#: Labels that are too long for the fleet page.
SHORT_LABELS = {
    LimitKind.TABLE_CACHE: phrase("Cache"),
    LimitKind.DEFINITIONS: phrase("Cache"),
    LimitKind.OPEN_FILES: phrase("Files"),
    LimitKind.AUTO_INCREMENT: phrase("IDs"),
    LimitKind.CONNECTIONS: phrase("Conn."),
    LimitKind.REDO: phrase("Redo"),
    LimitKind.BINLOG: phrase("Binlogs"),
    LimitKind.REBUILD_TIME: phrase("Rebuild"),
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
class LimitRow:
    """A limit as the page lists it; ``others`` are those of the same kind and subject on other instances, which come later."""

    limit: CapacityLimit
    label: str
    when: str
    days: str
    per_day: str
    is_soon: bool
    evidence: tuple[tuple[str, str], ...]
    others: tuple["LimitRow", ...] = ()

    @property
    def current(self) -> str:
        return value_text(self.limit.unit, self.limit.current)

    @property
    def value(self) -> str:
        return value_text(self.limit.unit, self.limit.value)

    @property
    def percent(self) -> float:
        return 100 * self.limit.share


def rows_of(limits: Iterable[CapacityLimit], now: datetime) -> list[LimitRow]:
    """Return ranked limits as rows, the unknown ones last.

    There is one for each kind and subject, and one for a threshold: that of the instance which comes first.
    """
    groups: dict[tuple[LimitKind, str, bool], list[CapacityLimit]] = {}
    for limit in sorted(limits, key=lambda limit: limit.state is LimitState.UNKNOWN):
        groups.setdefault((limit.kind, limit.subject, limit.set_by == THRESHOLD), []).append(limit)
    return [_row(first, now, tuple(_row(limit, now) for limit in others)) for first, *others in groups.values()]


def _row(limit: CapacityLimit, now: datetime, others: tuple[LimitRow, ...] = ()) -> LimitRow:
    return LimitRow(
        limit=limit,
        label=translated(LABELS[limit.kind]),
        when=when_text(limit),
        days=days_text(limit, now),
        per_day=_per_day(limit),
        is_soon=limit.is_soon(now) and limit.is_flagged,
        evidence=tuple(_evidence(limit)),
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


def event_text(limit: CapacityLimit) -> str:
    """Return what happens at a limit, without the time."""
    if limit.kind is LimitKind.DISK and limit.set_by == THRESHOLD:
        return _("disk use passes %(limit)s") % {"limit": value_text(limit.unit, limit.value)}
    is_of_hours = limit.unit is Unit.SECONDS and HOUR_SECONDS <= limit.value < DAY_SECONDS
    value = round_duration(limit.value) if is_of_hours else value_text(limit.unit, limit.value)
    values = {"limit": value, "of": translated(limit.set_by), "subject": limit.subject or limit.kind}
    return translated(EVENTS[limit.kind]).format(**values)


def when_text(limit: CapacityLimit) -> str:
    """Return when a limit is reached: a date, a range, or why there is none."""
    if limit.state is LimitState.UNKNOWN:
        known = {"days": limit.trend.days, "needed": limit.trend.days_needed}
        return _("unknown yet (%(days)s of %(needed)s days)") % known
    if limit.first is None:
        return {
            LimitState.REACHED: _("reached"),
            LimitState.FAR: _("not within 10 years"),
            LimitState.NOT_GROWING: _("not growing"),
        }.get(limit.state, _("no estimate"))
    first = _day(limit.first)
    if limit.last is None:
        return _("%(day)s at the earliest") % {"day": first}
    return first if first == _day(limit.last) else _range(first, _day(limit.last))


def days_text(limit: CapacityLimit, now: datetime) -> str:
    """Return how far away the first date of a limit is: ``in 41 days``, ``today``; empty without a date."""
    if limit.first is None:
        return ""
    days = _days(limit.first, now)
    if days < 1:
        return _("today")
    return ngettext("in %(number)s day", "in %(number)s days", days) % {"number": count(days)}


def flag_text(limit: CapacityLimit, now: datetime) -> str:
    """Return a limit as a label for the fleet page: ``Disk 41 d``."""
    label = translated(SHORT_LABELS.get(limit.kind, LABELS[limit.kind]))
    days = _days(limit.first, now) if limit.first else 0
    if days:
        return _("%(limit)s %(days)s d") % {"limit": label, "days": days}
    return (_("%(limit)s today") if limit.first else _("%(limit)s now")) % {"limit": label}


def sentence(limit: CapacityLimit, now: datetime) -> str:
    """Return a limit with instance and time."""
    values = {"name": limit.instance, "event": event_text(limit)}
    if limit.first is None:
        return _("%(name)s: %(event)s now") % values
    values |= {"first": _day(limit.first), "days": days_text(limit, now)}
    if limit.last is None:
        return _("%(name)s: %(event)s not before %(first)s (%(days)s)") % values
    if _day(limit.first) == _day(limit.last):
        return _("%(name)s: %(event)s on %(first)s (%(days)s)") % values
    values["last"] = _day(limit.last)
    return _("%(name)s: %(event)s between %(first)s and %(last)s (%(days)s at the earliest)") % values


def _range(low: str, high: str) -> str:
    return _("%(low)s to %(high)s") % {"low": low, "high": high}


def _days(moment: datetime, now: datetime) -> int:
    return max(0, floor((moment - now) / timedelta(days=1)))


def _day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"


def _per_day(limit: CapacityLimit) -> str:
    rate = limit.trend.rate_per_day
    return _rate(limit, rate) if rate else "—"


def _rate(limit: CapacityLimit, value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{value_text(limit.unit, abs(value))}"


def _evidence(limit: CapacityLimit) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each part of the evidence."""
    trend = limit.trend
    yield _("Limit"), f"{value_text(limit.unit, limit.value)} ({translated(limit.set_by)})"
    days = {"days": trend.days, "needed": trend.days_needed}
    yield _("Days with readings"), _("%(days)s (%(needed)s needed)") % days
    if trend.rate_per_day is not None:
        if trend.used is RateUsed.WITHOUT_STEPS:
            said = _("%(rate)s a day, Theil-Sen slope without steps that happened once")
        else:
            said = _("%(rate)s a day, Theil-Sen slope over all days")
        yield _("Rate used"), said % {"rate": _rate(limit, trend.rate_per_day)}
    if trend.low_per_day is not None and trend.high_per_day is not None:
        ends = {"low": _rate(limit, trend.low_per_day), "high": _rate(limit, trend.high_per_day)}
        yield _("Range of the rate"), _("%(low)s to %(high)s a day") % ends
    if trend.net_per_day is not None:
        net = _rate(limit, trend.net_per_day)
        yield _("Net rate"), _("%(rate)s a day, with deletions and steps") % {"rate": net}
    if trend.gross_per_day is not None:
        gross = _rate(limit, trend.gross_per_day)
        yield _("Gross rate"), _("%(rate)s a day, median of daily differences") % {"rate": gross}
    if trend.backtest_error is not None:
        error = value_text(limit.unit, trend.backtest_error)
        if limit.current:
            error += localized(f" ({100 * trend.backtest_error / limit.current:.1f} %)")
        tested = {"error": error, "days": trend.backtest_days}
        yield _("Backtest"), _("at most %(error)s off over the last %(days)s days") % tested
    if trend.steps:
        said = ngettext(
            "%(number)s day with an extraordinary difference",
            "%(number)s days with an extraordinary difference",
            trend.steps,
        )
        yield _("Steps"), said % {"number": trend.steps}
    for name, value in limit.evidence.items():
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
