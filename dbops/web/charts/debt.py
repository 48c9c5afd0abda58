"""Draw redundancy debt as an SVG: one column per week, stacked by cause. X values are percent, y values are pixels."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from dbops.engine.availability.debt import Week, causes_of
from dbops.engine.availability.record import Cause
from dbops.engine.backups.trends import Figure, Scale, scale
from dbops.web.charts.timeline import percent
from dbops.web.dates import date_text
from dbops.web.figures import duration, round_duration
from dbops.web.templatetags.phrases import translated

TOP, PLOT, BELOW = 8, 120, 22
HEIGHT = TOP + PLOT + BELOW
#: Column width, as a share of a week's width.
COLUMN = 0.7
#: A week narrower than this, in percent, has no date label.
DATED_FROM = 7.0
#: The least height of a column part, in pixels.
THINNEST = 2.0


def waterfall(found: Sequence[Week]) -> SafeString:
    """Return the chart, empty if there was no debt."""
    if not any(week.seconds for week in found):
        return mark_safe("")
    levels = scale((week.seconds for week in found), Figure.SECONDS)
    parts = [*_scale(levels)]
    for number, week in enumerate(found):
        parts += _column(week, number, len(found), levels)
    said = escape(_said(found))
    head = f'<svg class="trend debt" width="100%" height="{HEIGHT}" role="img" aria-label="{said}">'
    return mark_safe("".join([head, *parts, "</svg>"]))  # noqa: S308 - words went through escape, all else is numbers


def key(cause: Cause) -> SafeString:
    """Return a legend box in a cause's colour."""
    box = f'<rect class="debt-part {_css(cause)}" width="12" height="12" rx="2"></rect>'
    return mark_safe(f'<svg width="12" height="12" aria-hidden="true">{box}</svg>')  # noqa: S308 - names of this module


def legend(found: Sequence[Week]) -> list[tuple[SafeString, Cause]]:
    return [(key(cause), cause) for cause in causes_of(found)]


def by_cause(found: Sequence[Week]) -> list[tuple[Week, list[tuple[Cause, float]]]]:
    """Return the rows of the chart's table, newest week first, with a number for every cause of the chart."""
    there = causes_of(found)
    return [(week, [(cause, week.of(cause)) for cause in there]) for week in reversed(found)]


def _said(found: Sequence[Week]) -> str:
    worst = max(found, key=lambda week: week.seconds)
    whole = sum(week.seconds for week in found)
    said = _("Time below the target by week: %(whole)s in %(weeks)s weeks, most of it from %(day)s, %(worst)s")
    day = _day(worst.interval.start)
    return said % {"whole": duration(whole), "weeks": len(found), "day": day, "worst": duration(worst.seconds)}


def _day(moment: datetime) -> str:
    return date_text(timezone.localtime(moment), "day")


def _css(cause: Cause) -> str:
    return f"debt-{cause.name.lower()}"


def _y(share: float) -> float:
    return TOP + PLOT * (1 - share)


def _scale(levels: Scale) -> Iterable[str]:
    yield f'<line class="trend-base" x1="0" x2="100%" y1="{_y(0)}" y2="{_y(0)}"></line>'
    for value in levels.lines:
        y = _y(levels.share(value))
        yield f'<line class="hour-line" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"></line>'
        yield f'<text class="hour-label" x="-6" y="{y + 3:.1f}" text-anchor="end">{escape(round_duration(value))}</text>'


def _column(week: Week, number: int, count: int, levels: Scale) -> Iterable[str]:
    width = 100 / count
    x, wide = percent(number * width + width * (1 - COLUMN) / 2), percent(width * COLUMN)
    bottom = _y(0)
    for cause, seconds in week.causes:
        high = max(THINNEST, PLOT * levels.share(seconds))
        bottom -= high
        values = {"day": _day(week.interval.start), "cause": translated(cause), "duration": duration(seconds)}
        title = escape(_("Week of %(day)s: %(cause)s, %(duration)s") % values)
        place = f'x="{x}" y="{bottom:.1f}" width="{wide}" height="{high:.1f}"'
        yield f'<rect class="debt-part {_css(cause)}" {place}><title>{title}</title></rect>'
    if width >= DATED_FROM or number % 3 == 0:
        middle = percent(number * width + width / 2)
        date = _day(week.interval.start)
        yield f'<text class="hour-label" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(date)}</text>'
