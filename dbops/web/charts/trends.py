"""Backup runs over time as charts: an SVG that is made here, whose points are links and whose words stand beside it.

Across it is percent, down it is pixels: so it takes any width without a script, and its letters and shapes keep their size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dbops.engine.backup_states import RunStatus
from dbops.engine.backups.flags import RunFlag
from dbops.engine.backups.trends import Figure, PastRun, Scale, odd_ones, scale
from dbops.engine.schedule.backup_windows import Duration
from dbops.engine.schedule.calendar import Interval, days, position
from dbops.queries.backups.trends import Series
from dbops.web.charts.timeline import percent
from dbops.web.templatetags.dbops import bytes_text, duration, words

TOP, PLOT, BELOW = 8, 96, 22
HEIGHT = TOP + PLOT + BELOW
#: Marks that are named below a chart; the others are in its table.
NAMED = 4
#: A date stands at each so manieth day, counted back from today.
DATES_APART = {30: 7, 90: 30, 365: 91}

#: A shape for each word, around 0 0. A run like any other is a circle.
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
LEGEND = (
    ("", "a run like others"),
    (RunFlag.TOO_LONG, "too long"),
    (RunFlag.LATE, "late"),
    (RunFlag.SMALL, "small"),
    (RunFlag.LARGE, "large"),
    (RunStatus.FAILED, "failed"),
    (RunStatus.MISSED, "missed"),
    (RunStatus.CANCELLED, "cancelled"),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A run that is out of the ordinary, as it is named beside its chart."""

    run: PastRun
    shape: SafeString
    text: str


@dataclass(frozen=True, slots=True)
class Trend:
    """One chart: its drawing, and what is said where there is nothing to draw."""

    title: str
    drawing: SafeString
    empty: str


@dataclass(frozen=True, slots=True)
class Card:
    """All that the page shows of one series."""

    series: Series
    trends: tuple[Trend, ...]
    marks: tuple[Mark, ...]
    unnamed: int


def card(series: Series, period_days: int) -> Card:
    """Return the two charts of a series and the runs that are named beside them."""
    odd = series.odd
    return Card(
        series=series,
        trends=(
            _trend("Duration", series, Figure.SECONDS, period_days),
            _trend("Size", series, Figure.BYTES, period_days),
        ),
        marks=tuple(Mark(run, shape(run.words[0]), ", ".join(map(words, run.words))) for run in odd[:NAMED]),
        unnamed=max(0, len(odd) - NAMED),
    )


def legend() -> list[tuple[SafeString, str]]:
    """Return each shape with its word."""
    return [(shape(code), text) for code, text in LEGEND]


def shape(code: str) -> SafeString:
    """Return a mark that stands in a line of text. It is decoration: its word stands beside it."""
    return mark_safe(  # noqa: S308 - codes and ways are those of this module
        f'<svg class="mark-key" width="14" height="14" aria-hidden="true" focusable="false">'
        f'<svg x="7" y="7" class="mark">{_path(code)}</svg></svg>'
    )


def _path(code: str) -> str:
    known = code if code in SHAPES else ""
    return f'<path class="mark-shape mark-{known or "usual"}" d="{SHAPES[known]}"></path>'


def _trend(title: str, series: Series, figure: Figure, period_days: int) -> Trend:
    known = [value for run in series.runs if (value := run.figure(figure)) is not None]
    if not known:
        empty = (
            "No run of this period has ended."
            if not series.runs
            else f"No run of this period has a known {title.lower()}."
        )
        return Trend(title, mark_safe(""), empty)
    lines = _lines(series.duration) if figure is Figure.SECONDS else []
    found = scale([*known, *(value for _, value, _ in lines)], figure)
    parts = [*_scale(found, figure), *_dates(series.within, period_days)]
    parts += [_level(css, found.share(value), text) for css, value, text in lines]
    # What is out of the ordinary lies above the others.
    parts += [_point(run, figure, found, series.within) for run in sorted(series.runs, key=lambda run: bool(run.words))]
    said = f"{title} of {series.key.name or series.key.instance_name}: {_said(known, figure, odd_ones(series.runs))}"
    head = f'<div role="group" aria-label="{escape(said)}"><svg class="trend" width="100%" height="{HEIGHT}">'
    return Trend(title, mark_safe("".join([head, *parts, "</svg></div>"])), "")  # noqa: S308 - names went through escape


def _lines(known: Duration | None) -> list[tuple[str, float, str]]:
    if known is None:
        return []
    return [
        ("trend-median", known.p50_seconds, f"median {duration(known.p50_seconds)}"),
        ("trend-late", known.p90_seconds, f"p90 {duration(known.p90_seconds)}"),
    ]


def _said(values: Sequence[float], figure: Figure, odd: Sequence[PastRun]) -> str:
    """Say what is seen at one look: the range, and what is out of the ordinary."""
    told = f"{len(values)} run{'s' if len(values) > 1 else ''}, {text_of(min(values), figure)} to {text_of(max(values), figure)}"
    return f"{told}; {len(odd)} out of the ordinary" if odd else told


def text_of(value: float | None, figure: Figure) -> str:
    """Return a figure as pages write it."""
    return duration(value) if figure is Figure.SECONDS else bytes_text(value)


def _y(share: float) -> str:
    return f"{TOP + PLOT * (1 - share):.1f}"


def _scale(found: Scale, figure: Figure) -> Iterable[str]:
    yield f'<line class="trend-base" x1="0" x2="100%" y1="{_y(0)}" y2="{_y(0)}"></line>'
    for value in found.lines:
        y = _y(found.share(value))
        yield f'<line class="hour-line" x1="0" x2="100%" y1="{y}" y2="{y}"></line>'
        yield f'<text class="hour-label" x="-6" y="{float(y) + 3:.1f}" text-anchor="end">{_round(value, figure)}</text>'


def _round(value: float, figure: Figure) -> str:
    """Return a number of the scale without the zeros that it has by being round."""
    text = text_of(value, figure)
    if figure is Figure.BYTES:
        number, _, unit = text.partition(" ")
        return f"{float(number):g} {unit}"
    return text.replace(" min 00 s", " min").replace(" h 00 min", " h").replace(" d 0 h", " d")


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
        yield f'<text class="hour-label" x="{x}" y="{HEIGHT - 4}" text-anchor="{anchor}">{_day(one.start)}</text>'


def _day(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b}"


def _level(css: str, share: float, text: str) -> str:
    y = _y(share)
    return f'<line class="{css}" x1="0" x2="100%" y1="{y}" y2="{y}"><title>{text}</title></line>'


def _point(run: PastRun, figure: Figure, found: Scale, within: Interval) -> str:
    """Return a run's point: a link. What nobody measured stands on the base line where it is out of the ordinary.

    A chart of ninety nights must not be ninety stops of the Tab key: only what is out of the ordinary is one. The table below has all.
    """
    value, mark = run.figure(figure), run.mark(figure)
    left = position(run.at, within)
    if left is None or (value is None and not mark):
        return ""
    y = _y(found.share(value or 0.0))
    title = escape(told(run))
    state = f'aria-label="{title}"' if mark else 'tabindex="-1" aria-hidden="true"'
    return (
        f'<a href="{reverse("backup-run", args=[run.run])}" {state} class="trend-point">'
        f'<svg x="{percent(left)}" y="{y}" class="mark"><title>{title}</title><circle class="mark-room" r="8"></circle>'
        f"{_path(mark)}</svg></a>"
    )


def told(run: PastRun) -> str:
    """Say all of a run in one line."""
    local = timezone.localtime(run.at)
    figures = [text_of(run.figure(item), item) for item in Figure if run.figure(item) is not None]
    return ", ".join(
        [f"run {run.run}: {local:%a} {local.day} {local:%b %H:%M}", *figures, run.status, *map(words, run.flags)]
    )
