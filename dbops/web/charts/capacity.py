"""The charts of an instance on its cluster's capacity page, and their figures as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil
from statistics import mean

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dbops.engine.capacity.limits import CapacityLimit, LimitKind, Unit
from dbops.engine.phrases import phrase
from dbops.web.capacity_limits import value_text
from dbops.web.charts.growth import Ahead, GrowthLine, growth_chart
from dbops.web.figures import UNKNOWN, round_bytes
from dbops.web.templatetags.phrases import translated

HOUR_SECONDS = 3600
#: Most rows of the table; the CSV file has every reading.
TABLE_ROWS = 60
#: A forecast is drawn at least and at most for these days, and no longer than the period that is shown.
SHORTEST, LONGEST = timedelta(days=30), timedelta(days=730)

Series = Mapping[str, Sequence[tuple[datetime, float]]]
Daily = dict[date, tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class CapacityFigure:
    """A figure of an instance: the sum of columns, or the first one without the second if ``is_rest``; ``factor`` times that.

    ``kinds`` are the limits that it runs into: the first one that the instance has gives the limit.
    """

    title: str
    unit: Unit
    columns: tuple[str, ...]
    kinds: tuple[LimitKind, ...] = ()
    is_rest: bool = False
    factor: float = 1.0


FIGURES = (
    CapacityFigure(phrase("Disk used"), Unit.BYTES, ("disk_bytes", "disk_free_bytes"), (LimitKind.DISK,), is_rest=True),
    CapacityFigure(phrase("Data and indexes"), Unit.BYTES, ("data_bytes", "index_bytes")),
    CapacityFigure(phrase("Schemas"), Unit.NUMBER, ("schemas",), (LimitKind.SCHEMAS,)),
    CapacityFigure(phrase("Tables"), Unit.NUMBER, ("tables",), (LimitKind.TABLES, LimitKind.DEFINITIONS)),
    CapacityFigure(phrase("Tables and partitions"), Unit.NUMBER, ("tables", "partitions"), (LimitKind.TABLE_CACHE,)),
    CapacityFigure(phrase("Open tables"), Unit.NUMBER, ("open_tables",)),
    CapacityFigure(phrase("Connections (peak)"), Unit.NUMBER, ("connections_peak",), (LimitKind.CONNECTIONS,)),
    CapacityFigure(
        phrase("Redo per hour"), Unit.BYTES, ("redo_bytes_per_second",), (LimitKind.REDO,), factor=HOUR_SECONDS
    ),
    CapacityFigure(phrase("Questions per second"), Unit.NUMBER, ("questions_per_second",)),
    CapacityFigure(phrase("Writes per second"), Unit.NUMBER, ("writes_per_second",)),
    CapacityFigure(phrase("Table cache misses per second"), Unit.NUMBER, ("cache_misses_per_second",)),
)
COLUMNS = tuple(dict.fromkeys(name for figure in FIGURES for name in figure.columns))


@dataclass(frozen=True, slots=True)
class CapacityChart:
    """One chart. ``last`` is the newest value and ``limit`` its limit as text; without a drawing there are too few readings."""

    title: str
    drawing: SafeString
    last: str
    limit: str
    has_forecast: bool


@dataclass(frozen=True, slots=True)
class FigureTable:
    """The figures of the charts: a row for each of some days, newest first, with title and text of each figure."""

    titles: tuple[str, ...]
    rows: tuple[tuple[date, tuple[tuple[str, str], ...]], ...]


def charts_of(series: Series, limits: Iterable[CapacityLimit], now: datetime, period: timedelta) -> list[CapacityChart]:
    """Return the charts of one instance.

    Args:
        series: known values by column, in order of time.
        limits: of this instance.
        period: for how long the charts show readings.
    """
    by_kind = {limit.kind: limit for limit in limits}
    chosen = [next((by_kind[kind] for kind in figure.kinds if kind in by_kind), None) for figure in FIGURES]
    return [_chart(figure, series, limit, now, period) for figure, limit in zip(FIGURES, chosen, strict=True)]


def table_of(series: Series) -> FigureTable:
    """Return at most ``TABLE_ROWS`` days of all figures."""
    found = [_daily(figure, series) for figure in FIGURES]
    known = sorted({day for days in found for day in days}, reverse=True)
    shown = known[:: max(1, ceil(len(known) / TABLE_ROWS))]
    return FigureTable(
        tuple(translated(figure.title) for figure in FIGURES),
        tuple(
            (day, tuple(_cell(figure, days.get(day)) for figure, days in zip(FIGURES, found, strict=True)))
            for day in shown
        ),
    )


def _cell(figure: CapacityFigure, reading: tuple[datetime, float] | None) -> tuple[str, str]:
    return translated(figure.title), value_text(figure.unit, reading[1]) if reading else "—"


def _chart(
    figure: CapacityFigure, series: Series, limit: CapacityLimit | None, now: datetime, period: timedelta
) -> CapacityChart:
    readings = list(_daily(figure, series).values())
    line = GrowthLine(
        figure.unit, readings, _ahead(limit, readings, period) if limit else (), limit.value if limit else None
    )
    last = value_text(figure.unit, readings[-1][1]) if readings else translated(UNKNOWN)
    limit_text = value_text(figure.unit, limit.value) if limit else ""

    def text_of(value: float) -> str:
        return _scale_text(figure.unit, value)

    return CapacityChart(
        translated(figure.title),
        growth_chart(line, now, text_of, _said(figure, readings, limit_text)),
        last,
        limit_text,
        bool(line.ahead),
    )


def _said(figure: CapacityFigure, readings: Sequence[tuple[datetime, float]], limit: str) -> str:
    title = translated(figure.title)
    if not readings:
        return _("%(title)s: no readings") % {"title": title}
    first, last = (value_text(figure.unit, value) for __, value in (readings[0], readings[-1]))
    values = {"title": title, "first": first, "last": last, "days": len(readings), "limit": limit}
    if limit:
        return _("%(title)s: %(first)s to %(last)s in %(days)s days, limit %(limit)s") % values
    return _("%(title)s: %(first)s to %(last)s in %(days)s days") % values


def _scale_text(unit: Unit, value: float) -> str:
    """Return a number of the scale without trailing zeros."""
    return round_bytes(value) if unit is Unit.BYTES else value_text(unit, value)


def _daily(figure: CapacityFigure, series: Series) -> Daily:
    """Return the last value of each day that has all columns; of rates, the mean of the day."""
    columns = [_column(name, series.get(name, ())) for name in figure.columns]
    found: Daily = {}
    for day, (at, first) in columns[0].items():
        others = [column[day][1] for column in columns[1:] if day in column]
        if len(others) == len(columns) - 1:
            value = first - sum(others) if figure.is_rest else first + sum(others)
            found[day] = at, value * figure.factor
    return found


def _column(name: str, readings: Iterable[tuple[datetime, float]]) -> Daily:
    days: dict[date, list[tuple[datetime, float]]] = {}
    for at, value in readings:
        days.setdefault(at.date(), []).append((at, value))
    if name.endswith("_per_second"):
        # The last day is not over: a part of it is no mean of a day.
        whole = list(days.items())[:-1] or list(days.items())
        return {day: (found[-1][0], mean(value for _, value in found)) for day, found in whole}
    return {day: found[-1] for day, found in days.items()}


def _ahead(limit: CapacityLimit, readings: Sequence[tuple[datetime, float]], period: timedelta) -> tuple[Ahead, ...]:
    """Return the range of a forecast until the limit is surely reached, but no longer than readings are shown."""
    trend = limit.trend
    if not readings or trend.level is None or trend.at is None or trend.low_per_day is None:
        return ()
    high = trend.high_per_day or 0.0
    longest = max(SHORTEST, min(LONGEST, period, readings[-1][0] - readings[0][0]))
    wanted = (limit.last or limit.first or trend.at) - trend.at
    until = min(longest, max(SHORTEST, wanted * 1.1))
    days = until / timedelta(days=1)
    end = Ahead(trend.at + until, trend.level + trend.low_per_day * days, trend.level + high * days)
    return Ahead(trend.at, trend.level, trend.level), end
