"""Draw backup trends as SVG.

X values are percent and y values are pixels, so a chart fits any width without a script.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.backups.flags import RunFlag
from dbops.engine.backups.trends import Figure, PastRun, Scale, odd_ones, scale
from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import Duration
from dbops.engine.schedule.calendar import Interval, days, position
from dbops.engine.states import RunStatus
from dbops.queries.backups.trends import Series
from dbops.web.charts.timeline import percent
from dbops.web.dates import date_text
from dbops.web.figures import bytes_text, duration, round_bytes, round_duration
from dbops.web.templatetags.dbops import words
from dbops.web.templatetags.phrases import translated

TOP, PLOT, BELOW = 8, 96, 22
HEIGHT = TOP + PLOT + BELOW
#: Maximum number of marks listed below a chart; the table has all of them.
NAMED = 4
#: Days between two date labels, counted back from today, by the days of the period.
DATES_APART = {30: 7, 90: 30, 365: 91}

#: A shape per flag or status, around 0 0. A normal run is a circle.
SHAPES = {
    "": "M-2.75 0a2.75 2.75 0 1 0 5.5 0a2.75 2.75 0 1 0 -5.5 0z",
    RunStatus.FAILED: "M-4.5 -4.5L4.5 4.5M-4.5 4.5L4.5 -4.5",
    RunStatus.MISSED: "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
    RunStatus.CANCELLED: "M-5 0L5 0",
    RunFlag.TOO_LONG: "M0 -6L5.5 4.5L-5.5 4.5z",
    RunFlag.LATE: "M-4.5 -4.5H4.5V4.5H-4.5z",
    RunFlag.SMALL: "M0 6L5.5 -4.5L-5.5 -4.5z",
    RunFlag.LARGE: "M0 -6L5.5 -1L3.5 5.5L-3.5 5.5L-5.5 -1z",
}
EMPTY = {
    Figure.SECONDS: phrase("No run of this period has a duration."),
    Figure.BYTES: phrase("No run of this period has a size."),
}
LEGEND = (
    ("", phrase("normal")),
    (RunFlag.TOO_LONG, phrase("too long")),
    (RunFlag.LATE, phrase("late")),
    (RunFlag.SMALL, phrase("small")),
    (RunFlag.LARGE, phrase("large")),
    (RunStatus.FAILED, phrase("failed")),
    (RunStatus.MISSED, phrase("missed")),
    (RunStatus.CANCELLED, phrase("cancelled")),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """An unusual run, as listed below its chart."""

    run: PastRun
    shape: SafeString
    text: str


@dataclass(frozen=True, slots=True)
class TrendChart:
    """One chart: its drawing, or the text of an empty one."""

    title: str
    drawing: SafeString
    empty: str


@dataclass(frozen=True, slots=True)
class Card:
    """Everything that the page shows of one series."""

    series: Series
    trends: tuple[TrendChart, ...]
    marks: tuple[Mark, ...]
    unnamed: int


def card(series: Series, period_days: int) -> Card:
    """Return the two charts of a series and the listed unusual runs."""
    odd = series.odd
    return Card(
        series=series,
        trends=(
            _trend(_("Duration"), series, Figure.SECONDS, period_days),
            _trend(_("Size"), series, Figure.BYTES, period_days),
        ),
        marks=tuple(Mark(run, shape(run.codes[0]), ", ".join(map(words, run.codes))) for run in odd[:NAMED]),
        unnamed=max(0, len(odd) - NAMED),
    )


def legend() -> list[tuple[SafeString, str]]:
    """Return each shape with its name."""
    return [(shape(code), translated(text)) for code, text in LEGEND]


def shape(code: str) -> SafeString:
    """Return a shape for a line of text; it is decoration beside its name."""
    return mark_safe(  # noqa: S308 - codes and ways are those of this module
        f'<svg class="mark-key" width="14" height="14" aria-hidden="true" focusable="false">'
        f'<svg x="7" y="7" class="mark">{_path(code)}</svg></svg>'
    )


def _path(code: str) -> str:
    known = code if code in SHAPES else ""
    return f'<path class="mark-shape mark-{known or "usual"}" d="{SHAPES[known]}"></path>'


def _trend(title: str, series: Series, figure: Figure, period_days: int) -> TrendChart:
    known = [value for run in series.runs if (value := run.figure(figure)) is not None]
    if not known:
        empty = _("No run ended in this period.") if not series.runs else translated(EMPTY[figure])
        return TrendChart(title, mark_safe(""), empty)
    lines = _lines(series.duration) if figure is Figure.SECONDS else []
    found = scale([*known, *(value for _, value, _ in lines)], figure)
    parts = [*_scale(found, figure), *_dates(series.within, period_days)]
    parts += [_level(css, found.share(value), text) for css, value, text in lines]
    # Unusual runs are drawn above the others.
    parts += [_point(run, figure, found, series.within) for run in sorted(series.runs, key=lambda run: bool(run.codes))]
    values = {"figure": title, "name": series.key.name or series.key.instance_name}
    said = _("%(figure)s of %(name)s: %(summary)s") % {**values, "summary": _said(known, figure, odd_ones(series.runs))}
    head = f'<div role="group" aria-label="{escape(said)}"><svg class="trend" width="100%" height="{HEIGHT}">'
    return TrendChart(title, mark_safe("".join([head, *parts, "</svg></div>"])), "")  # noqa: S308 - names went through escape


def _lines(known: Duration | None) -> list[tuple[str, float, str]]:
    if known is None:
        return []
    return [
        ("trend-median", known.p50_seconds, _("median %(duration)s") % {"duration": duration(known.p50_seconds)}),
        ("trend-late", known.p90_seconds, f"p90 {duration(known.p90_seconds)}"),
    ]


def _said(values: Sequence[float], figure: Figure, odd: Sequence[PastRun]) -> str:
    """Return the spoken summary: the range, and the number of unusual runs."""
    said = ngettext("%(number)s run, %(low)s to %(high)s", "%(number)s runs, %(low)s to %(high)s", len(values))
    summary = said % {"number": len(values), "low": text_of(min(values), figure), "high": text_of(max(values), figure)}
    return _("%(summary)s; %(number)s unusual") % {"summary": summary, "number": len(odd)} if odd else summary


def text_of(value: float | None, figure: Figure) -> str:
    """Return a figure as on pages."""
    return duration(value) if figure is Figure.SECONDS else bytes_text(value)


def _y(share: float) -> str:
    return f"{TOP + PLOT * (1 - share):.1f}"


def _scale(found: Scale, figure: Figure) -> Iterable[str]:
    yield f'<line class="trend-base" x1="0" x2="100%" y1="{_y(0)}" y2="{_y(0)}"></line>'
    for value in found.lines:
        y = _y(found.share(value))
        yield f'<line class="hour-line" x1="0" x2="100%" y1="{y}" y2="{y}"></line>'
        yield f'<text class="hour-label" x="-6" y="{float(y) + 3:.1f}" text-anchor="end">{escape(_round(value, figure))}</text>'


def _round(value: float, figure: Figure) -> str:
    """Return a number of the scale without trailing zeros."""
    return round_bytes(value) if figure is Figure.BYTES else round_duration(value)


def _dates(within: Interval, period_days: int) -> Iterable[str]:
    zone, apart = timezone.get_current_timezone(), DATES_APART.get(period_days, max(1, period_days // 5))
    today = timezone.localtime(within.end).date()
    for number in range(0, period_days, apart):
        [one] = days(today - timedelta(days=number), 1, zone)
        left = position(one.start, within)
        if left is None:
            continue
        x = percent(left)
        anchor = "start" if left < 3 else "end" if left > 94 else "middle"
        yield f'<line class="hour-line" x1="{x}" x2="{x}" y1="{TOP}" y2="{_y(0)}"></line>'
        yield f'<text class="hour-label" x="{x}" y="{HEIGHT - 4}" text-anchor="{anchor}">{escape(_day(one.start))}</text>'


def _day(moment: datetime) -> str:
    return date_text(timezone.localtime(moment), "day")


def _level(css: str, share: float, text: str) -> str:
    y = _y(share)
    return f'<line class="{css}" x1="0" x2="100%" y1="{y}" y2="{y}"><title>{escape(text)}</title></line>'


def _point(run: PastRun, figure: Figure, found: Scale, within: Interval) -> str:
    """Return a run's point, a link. Unusual runs without a value are drawn on the base line.

    Only unusual runs are tab stops: ninety of them per chart would be too many. The table lists all runs.
    """
    value, mark = run.figure(figure), run.mark(figure)
    left = position(run.at, within)
    if left is None or (value is None and not mark):
        return ""
    y = _y(found.share(value or 0.0))
    title = escape(describe_run(run))
    state = f'aria-label="{title}"' if mark else 'tabindex="-1" aria-hidden="true"'
    return (
        f'<a href="{reverse("backup-run", args=[run.run])}" {state} class="trend-point">'
        f'<svg x="{percent(left)}" y="{y}" class="mark"><title>{title}</title><circle class="mark-hit-area" r="8"></circle>'
        f"{_path(mark)}</svg></a>"
    )


def describe_run(run: PastRun) -> str:
    """Return a run in one line of text."""
    figures = [text_of(run.figure(item), item) for item in Figure if run.figure(item) is not None]
    values = {"number": run.run, "time": date_text(timezone.localtime(run.at), "day_hour")}
    began = _("run %(number)s: %(time)s") % values
    return ", ".join([began, *figures, translated(run.status), *map(words, run.flags)])
