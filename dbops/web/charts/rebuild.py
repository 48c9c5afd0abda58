"""Draw the charts of a rebuild: points as JSON for the page's script, and drawings for pages without a script."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.metrics import MetricPoint, Spread, spread
from dbops.web.figures import duration, rate
from dbops.web.templatetags.phrases import translated

WIDTH, HEIGHT = 300, 90
#: The figures of a line; charts.js writes them, too.
SPREAD = phrase("min {low}, median {middle}, max {high}")


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One line of a chart: its JSON key, name, figures as text, and drawing."""

    key: str
    name: str
    summary: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. ``unit`` is ``MiB/s`` or ``s``; ``empty`` says why there is no line; ``summary`` is the spoken text."""

    key: str
    title: str
    unit: str
    lines: tuple[ChartSeries, ...]
    drawing: SafeString
    summary: str
    empty: str


#: Key, title, unit, lines, and the text of an empty chart.
CHARTS = (
    (
        "rate",
        phrase("Copy rate"),
        "MiB/s",
        (("rate", phrase("copied")),),
        phrase("No data: a rate needs two samples of a running copy."),
    ),
    (
        "lag",
        phrase("Lag of the source"),
        "s",
        (("lag", phrase("lag")),),
        phrase("No data: the source does not replicate, its replication is stopped, or no probe was fresh."),
    ),
    (
        "disk",
        phrase("Disk of the target"),
        "MiB/s",
        (("read", phrase("read")), ("written", phrase("written"))),
        phrase("No data: a rate needs two samples of a running copy or prepare, and disk figures of the host."),
    ),
)


def columns(points: Sequence[MetricPoint]) -> dict[str, list[float | int | None]]:
    """Return points for the page's script: one list per column, ``null`` for unknown values.

    ``number`` identifies a point, ``at`` is in seconds since 1970, ``rate``, ``read`` and ``written`` are bytes a second.
    """
    return {
        "number": [point.number for point in points],
        "at": [round(point.at, 1) for point in points],
        "rate": _whole(point.rate for point in points),
        "lag": [point.source_lag_seconds for point in points],
        "read": _whole(point.disk_read for point in points),
        "written": _whole(point.disk_written for point in points),
    }


def as_json(points: Sequence[MetricPoint]) -> str:
    """Return the columns as JSON without blanks."""
    return json.dumps(columns(points), separators=(",", ":"), allow_nan=False)


def _whole(values: Iterable[float | None]) -> list[float | int | None]:
    return [None if value is None else round(value) for value in values]


def charts(points: Sequence[MetricPoint]) -> list[Chart]:
    """Return every chart of a rebuild, also those without points."""
    found = columns(points)
    return [_chart(found, *chart) for chart in CHARTS]


def _chart(
    found: dict[str, list[float | int | None]],
    key: str,
    title: str,
    unit: str,
    named: Sequence[tuple[str, str]],
    empty: str,
) -> Chart:
    spreads = {line: spread(found[line]) for line, _ in named}
    lines = tuple(ChartSeries(line, translated(name), _summary(spreads[line], unit)) for line, name in named)
    known = [f"{line.name} {line.summary}" for line in lines if line.summary]
    top = max((item.high for item in spreads.values() if item), default=0.0)
    drawing = _drawing(found["at"], [(line, found[line]) for line, _ in named], top)
    none = translated(empty)
    return Chart(key, translated(title), unit, lines, drawing, "; ".join(known) or none, "" if known else none)


def _summary(known: Spread | None, unit: str) -> str:
    """Return the figures as text: ``min 12, median 90, max 110 MiB/s``. A common unit appears once."""
    if known is None:
        return ""
    say = rate if unit == "MiB/s" else duration
    low, middle, high = say(known.low), say(known.middle), say(known.high)
    if unit == "MiB/s":
        low, middle = low.removesuffix(f" {unit}"), middle.removesuffix(f" {unit}")
    return translated(SPREAD).format(low=low, middle=middle, high=high)


def _drawing(
    at: Sequence[float | int | None], lines: Sequence[tuple[str, Sequence[float | int | None]]], top: float
) -> SafeString:
    """Draw the lines; they stretch to the available width, their strokes do not."""
    parts = format_html_join(
        "", '<path class="spark spark-{}" d="{}"></path>', ((key, path(at, values, top)) for key, values in lines)
    )
    return format_html(
        '<svg class="spark-box" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>',
        WIDTH,
        HEIGHT,
        parts,
    )


def path(at: Sequence[float | int | None], values: Sequence[float | int | None], top: float) -> str:
    """Return the path of a line in SVG notation, with a break at each unknown value."""
    moments = [moment or 0.0 for moment in at]
    span = (moments[-1] - moments[0] or 1.0) if moments else 1.0
    words, is_down = [], False
    for moment, value in zip(moments, values, strict=True):
        if value is not None:
            x, y = WIDTH * (moment - moments[0]) / span, HEIGHT - 2 - (HEIGHT - 6) * value / (top or 1.0)
            words.append(f"{'L' if is_down else 'M'}{x:.1f} {y:.1f}" + ("" if is_down else "h.1"))
        is_down = value is not None
    return "".join(words)
