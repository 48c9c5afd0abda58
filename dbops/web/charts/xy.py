"""Draw lines and points over two scales as SVG, each linear or logarithmic.

The lines are in a box that stretches; text and points have percent as x and pixels as y, so that they keep their shape at any width.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dbops.web.charts.timeline import percent

TOP, PLOT, BELOW = 8, 150, 34
HEIGHT = TOP + PLOT + BELOW
#: Width of the box of the lines, in its own units.
WIDTH = 1000
#: Most lines of a scale.
LINES = 6
#: A logarithmic scale with more decades has a line for each only.
FEW_DECADES = 2.5
#: Labels below a chart are at least this far apart, in percent of its width.
APART = 9.0

Point = tuple[float, float]
Text = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class XyLine:
    """One line: its name, number of its colour from 1, points in order of x, and single measurements around it."""

    name: str
    number: int
    points: Sequence[Point]
    dots: Sequence[Point] = ()
    is_drawn: bool = True


@dataclass(frozen=True, slots=True)
class ChartScale:
    """One scale. ``least``, ``most``: that it covers in any case. ``ticks``: where its lines are; empty: round numbers."""

    title: str
    text: Text
    is_log: bool = False
    least: float | None = None
    most: float | None = None
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Band:
    """A range of x, such as the place of a knee, or with ``is_y`` of y, such as an interval."""

    low: float
    high: float
    name: str
    is_y: bool = False


@dataclass(frozen=True, slots=True)
class _Frame:
    low: float
    high: float
    is_log: bool
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            value = math.log(max(value, self.low))
        else:
            low, high = self.low, self.high
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5


def xy_chart(
    lines: Sequence[XyLine],
    x: ChartScale,
    y: ChartScale,
    said: str,
    *,
    bands: Sequence[Band] = (),
    level: float | None = None,
) -> SafeString:
    """Return the chart, empty without points.

    Args:
        lines: what is drawn.
        x, y: the scales.
        said: what the chart shows, for screen readers.
        bands: ranges behind the lines.
        level: a value of y with a dashed line.
    """
    points = [point for line in lines for point in (*line.points, *line.dots)]
    points = [point for point in points if (point[1] > 0 or not y.is_log) and (point[0] > 0 or not x.is_log)]
    if not points:
        return mark_safe("")
    across = _frame(
        x, [point[0] for point in points], [edge for band in bands if not band.is_y for edge in (band.low, band.high)]
    )
    up = _frame(y, [point[1] for point in points], [] if level is None else [level])
    parts = [*_bands(bands, across, up), *_up(up, y), *_across(across, x)]
    if level is not None:
        place = f"{_y(up, level):.1f}"
        parts.append(f'<line class="xy-level" x1="0" x2="100%" y1="{place}" y2="{place}"></line>')
    parts.append(_box(lines, across, up))
    parts += [dot for line in lines for dot in _dots(line, across, up)]
    head = f'<svg class="trend" width="100%" height="{HEIGHT}" role="img" aria-label="{escape(said)}">'
    return mark_safe("".join([head, *parts, "</svg>"]))  # noqa: S308 - texts went through escape, all else is numbers


def key_of(line: XyLine) -> SafeString:
    """Return the sign of a line in a legend; decoration beside its name."""
    shape = (
        f'<line class="xy-line xy-{line.number:d}" x1="0" x2="22" y1="7" y2="7"></line>'
        if line.is_drawn
        else f'<circle class="xy-dot xy-{line.number:d}" cx="11" cy="7" r="4"></circle>'
    )
    return mark_safe(f'<svg width="22" height="14" aria-hidden="true" focusable="false">{shape}</svg>')  # noqa: S308 - of ours


def _frame(scale: ChartScale, values: Sequence[float], more: Sequence[float]) -> _Frame:
    around = [*values, *more, *(one for one in (scale.least, scale.most) if one is not None)]
    if scale.is_log:
        return _log_frame(scale, [value for value in around if value > 0])
    low, high = min(around), max(around)
    if scale.ticks:
        return _Frame(low, high if high > low else low + 1, False, scale.ticks)
    step = _step((high - low) or abs(high) or 1)
    low, high = math.floor(low / step) * step, max(math.ceil(high / step) * step, low + step)
    return _Frame(low, high, False, tuple(low + step * number for number in range(round((high - low) / step) + 1)))


def _log_frame(scale: ChartScale, values: Sequence[float]) -> _Frame:
    low, high = min(values), max(values)
    if scale.ticks:
        return _Frame(low, high, True, scale.ticks)
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < FEW_DECADES else (1,)
    numbers = [
        round(step * 10.0**power, 12)
        for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        for step in steps
    ]
    least = max(number for number in numbers if number <= low * 1.000001)
    most = min(number for number in numbers if number >= high * 0.999999 and number > least)
    return _Frame(least, most, True, tuple(number for number in numbers if least <= number <= most))


def _step(spread: float) -> float:
    """Return the round number that divides a spread into at most ``LINES`` parts."""
    power = 10.0 ** math.floor(math.log10(spread / LINES))
    return next(step * power for step in (1, 2, 5, 10, 20) if spread <= LINES * step * power)


def _y(frame: _Frame, value: float) -> float:
    return TOP + PLOT * (1 - frame.share(value))


def _bands(bands: Iterable[Band], across: _Frame, up: _Frame) -> Iterable[str]:
    for band in bands:
        title = f"<title>{escape(band.name)}</title>"
        if band.is_y:
            top, low = _y(up, band.high), _y(up, band.low)
            yield f'<rect class="xy-band" x="0" width="100%" y="{top:.1f}" height="{max(1.0, low - top):.1f}">{title}</rect>'
        else:
            left, right = across.share(band.low) * 100, across.share(band.high) * 100
            yield (
                f'<rect class="xy-band" x="{percent(left)}" width="{percent(max(0.3, right - left))}" '
                f'y="{TOP}" height="{PLOT}">{title}</rect>'
            )


def _up(frame: _Frame, scale: ChartScale) -> Iterable[str]:
    for number, value in enumerate(frame.ticks):
        y, css = _y(frame, value), "trend-base" if number == 0 else "hour-line"
        yield f'<line class="{css}" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"></line>'
        yield f'<text class="hour-label" x="-6" y="{y + 3:.1f}" text-anchor="end">{escape(scale.text(value))}</text>'


def _across(frame: _Frame, scale: ChartScale) -> Iterable[str]:
    last = -APART
    for value in frame.ticks:
        left = frame.share(value) * 100
        if not frame.low <= value <= frame.high:
            continue
        yield f'<line class="hour-line" x1="{percent(left)}" x2="{percent(left)}" y1="{TOP}" y2="{TOP + PLOT}"></line>'
        if left - last < APART:
            continue
        last, anchor = left, "start" if left < 3 else "end" if left > 97 else "middle"
        text = escape(scale.text(value))
        yield f'<text class="hour-label" x="{percent(left)}" y="{TOP + PLOT + 14}" text-anchor="{anchor}">{text}</text>'
    yield f'<text class="hour-label" x="100%" y="{HEIGHT - 4}" text-anchor="end">{escape(scale.title)}</text>'


def _box(lines: Iterable[XyLine], across: _Frame, up: _Frame) -> str:
    size = f'y="{TOP}" width="100%" height="{PLOT}" viewBox="0 0 {WIDTH} {PLOT}"'
    parts = [f'<svg {size} preserveAspectRatio="none">']
    for line in lines:
        if line.is_drawn and line.points:
            path = "L".join(f"{WIDTH * across.share(x):.1f} {PLOT * (1 - up.share(y)):.1f}" for x, y in line.points)
            parts.append(f'<path class="xy-line xy-{line.number}" d="M{path}h.1"></path>')
    return "".join([*parts, "</svg>"])


def _dots(line: XyLine, across: _Frame, up: _Frame) -> Iterable[str]:
    for x, y in line.dots:
        yield (
            f'<circle class="xy-dot xy-{line.number}" cx="{percent(across.share(x) * 100)}" '
            f'cy="{_y(up, y):.1f}" r="{2.5 if line.is_drawn else 4}"></circle>'
        )
