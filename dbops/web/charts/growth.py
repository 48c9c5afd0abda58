"""Draw a growing figure as SVG: its readings, the range of its forecast, and its limit.

The lines are in a box that stretches; text has percent as x and pixels as y, so that it keeps its shape at any width.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil, floor
from statistics import median

from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from dbops.engine.backups.trends import BYTES_STEPS, SCALE_LINES, SECONDS_STEPS
from dbops.engine.schedule.calendar import Interval, days
from dbops.web.charts.timeline import percent
from dbops.web.dates import date_text

TOP, PLOT, BELOW = 8, 120, 22
HEIGHT = TOP + PLOT + BELOW
#: Width of the box of the lines, in its own units.
WIDTH = 1000
#: Maximum number of dates below a chart: more are too many for a phone.
DATES = 5
DAYS_APART = (1, 2, 7, 14, 28, 56, 91, 182, 365, 730, 1825)
#: From this many days between dates, they have a year.
YEARS_FROM = 182
#: The scale covers at least this share of the greatest value, so that noise does not fill the chart.
LEAST_SHARE = 0.1
#: A limit beyond this multiple of all values is not drawn: it would flatten the line.
LIMIT_WITHIN = 1.5
#: A time without readings, in multiples of the usual one, that breaks the line.
GAP_MULTIPLE = 4
COUNT_STEPS = tuple(number * 10.0**power for power in range(16) for number in (1, 2, 5))
STEPS = {"bytes": BYTES_STEPS, "seconds": SECONDS_STEPS}


@dataclass(frozen=True, slots=True)
class Ahead:
    """The range of a forecast at one time."""

    at: datetime
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GrowthLine:
    """What a chart draws. ``readings`` are times with values, oldest first; ``unit`` is ``bytes``, ``seconds`` or a count's word."""

    unit: str
    readings: Sequence[tuple[datetime, float]]
    ahead: Sequence[Ahead] = ()
    limit: float | None = None

    @property
    def shown_limit(self) -> float | None:
        """Return the limit if the chart has room for it."""
        most = max([*(value for _, value in self.readings), *(one.high for one in self.ahead)])
        return self.limit if self.limit is not None and self.limit <= most * LIMIT_WITHIN else None


@dataclass(frozen=True, slots=True)
class _GrowthFrame:
    """Where times and values are in the box."""

    within: Interval
    low: float
    high: float
    step: float

    def x(self, at: datetime) -> float:
        return WIDTH * (at - self.within.start).total_seconds() / self.within.seconds

    def y(self, value: float) -> float:
        return PLOT * (1 - (min(self.high, max(self.low, value)) - self.low) / (self.high - self.low))

    def path(self, points: Iterable[tuple[datetime, float]]) -> str:
        return "M" + "L".join(f"{self.x(at):.1f} {self.y(value):.1f}" for at, value in points)


def growth_chart(line: GrowthLine, now: datetime, text_of: Callable[[float], str], said: str) -> SafeString:
    """Return the chart, empty without two readings.

    Args:
        text_of: writes a value.
        said: what the chart shows, for screen readers.
    """
    if len(line.readings) < 2:  # noqa: PLR2004 - a line has two ends
        return mark_safe("")
    frame = _frame(line, now)
    parts = [*_scale(frame, text_of), *_dates(frame), _box(line, frame)]
    if line.ahead:
        x = percent(frame.x(now) * 100 / WIDTH)
        parts.append(f'<line class="growth-now" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + PLOT}"></line>')
    if line.shown_limit is not None:
        y, title = (
            f"{TOP + frame.y(line.shown_limit):.1f}",
            escape(_("limit %(limit)s") % {"limit": text_of(line.shown_limit)}),
        )
        parts.append(f'<line class="growth-limit" x1="0" x2="100%" y1="{y}" y2="{y}"><title>{title}</title></line>')
    name = escape(said)
    head = f'<svg class="trend" width="100%" height="{HEIGHT}" role="img" aria-label="{name}">'
    return mark_safe("".join([head, *parts, "</svg>"]))  # noqa: S308 - texts went through escape, all else is numbers


def _frame(line: GrowthLine, now: datetime) -> _GrowthFrame:
    end = max([line.readings[-1][0], now, *(one.at for one in line.ahead)])
    values = [value for _, value in line.readings]
    values += [value for one in line.ahead for value in (one.low, one.high)]
    values += [] if line.shown_limit is None else [line.shown_limit]
    most, least = max(values), min(values)
    spread = max(most - least, most * LEAST_SHARE)
    steps = STEPS.get(line.unit, COUNT_STEPS)
    step = next((item for item in steps if spread <= SCALE_LINES * item), steps[-1])
    # A flat line is in the middle.
    around = (spread - (most - least)) / 2
    low = max(0.0, floor((least - around) / step) * step)
    high = max(low + step, ceil((most + around) / step) * step)
    return _GrowthFrame(Interval(line.readings[0][0], end), low, high, step)


def _scale(frame: _GrowthFrame, text_of: Callable[[float], str]) -> Iterable[str]:
    for number in range(round((frame.high - frame.low) / frame.step) + 1):
        value = frame.low + number * frame.step
        y = TOP + frame.y(value)
        css = "hour-line" if number else "trend-base"
        yield f'<line class="{css}" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"></line>'
        yield f'<text class="hour-label" x="-6" y="{y + 3:.1f}" text-anchor="end">{escape(text_of(value))}</text>'


def _dates(frame: _GrowthFrame) -> Iterable[str]:
    zone, whole = timezone.get_current_timezone(), frame.within.seconds / 86400
    apart = next((item for item in DAYS_APART if whole / item <= DATES), DAYS_APART[-1])
    last = timezone.localtime(frame.within.end).date()
    for number in range(0, ceil(whole) + 1, apart):
        [one] = days(last - timedelta(days=number), 1, zone)
        left = frame.x(one.start) * 100 / WIDTH
        if left < 0:
            continue
        x, anchor = percent(left), "start" if left < 5 else "end" if left > 92 else "middle"
        yield f'<line class="hour-line" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + PLOT}"></line>'
        text = _day(timezone.localtime(one.start).date(), with_year=apart >= YEARS_FROM)
        yield f'<text class="hour-label" x="{x}" y="{HEIGHT - 4}" text-anchor="{anchor}">{escape(text)}</text>'


def _day(day: date, *, with_year: bool) -> str:
    return date_text(day, "month" if with_year else "day")


def _box(line: GrowthLine, frame: _GrowthFrame) -> str:
    size = f'y="{TOP}" width="100%" height="{PLOT}" viewBox="0 0 {WIDTH} {PLOT}"'
    parts = [f'<svg {size} preserveAspectRatio="none">']
    if line.ahead:
        around = [*((one.at, one.high) for one in line.ahead), *((one.at, one.low) for one in reversed(line.ahead))]
        parts.append(f'<path class="growth-band" d="{frame.path(around)}z"></path>')
    parts += [f'<path class="spark" d="{frame.path(part)}h.1"></path>' for part in _parts(line.readings)]
    return "".join([*parts, "</svg>"])


def _parts(readings: Sequence[tuple[datetime, float]]) -> list[list[tuple[datetime, float]]]:
    """Return the readings, cut where there were none for a long time."""
    pairs = list(zip(readings, readings[1:], strict=False))
    longest = median((after[0] - before[0]).total_seconds() for before, after in pairs) * GAP_MULTIPLE
    found = [[readings[0]]]
    for before, after in pairs:
        if (after[0] - before[0]).total_seconds() > longest:
            found.append([])
        found[-1].append(after)
    return found
