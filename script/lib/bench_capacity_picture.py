"""Draw the curves of script/bench capacity: latency and statements a second against the number of schemas, as one SVG."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 330, 62, 26, 44, 46
#: Colours that differ for people who see red and green alike, on white and on black.
COLOURS = ("#d55e00", "#0072b2")
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points with ``schemas``, ``QPS`` and ``P99`` (ms)."""

    title: str
    points: Sequence[dict[str, float]]


def draw(curves: Sequence[Curve]) -> str:
    """Return the picture: P99 (logarithmic) on the left, QPS on the right."""
    panels = (
        _panel(curves, "P99", "P99 latency (ms, logarithmic)", 0, is_log=True),
        _panel(curves, "QPS", "statements a second", WIDTH, is_log=False),
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">\n'
        f'<title>Latency and statements a second against schemas</title>\n<rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )


def _panel(curves: Sequence[Curve], name: str, title: str, at: float, *, is_log: bool) -> str:
    values = [point[name] for curve in curves for point in curve.points]
    places = [point["schemas"] for curve in curves for point in curve.points]
    horizontal = _log_scale(min(places), max(places), at + LEFT, at + WIDTH - RIGHT)
    ticks = _log_ticks(values) if is_log else _linear_ticks(max(values))
    bottom, top = HEIGHT - BOTTOM, TOP
    vertical = _log_scale(ticks[0], ticks[-1], bottom, top) if is_log else _linear_scale(ticks[-1], bottom, top)
    parts = [f'<text x="{at + LEFT}" y="18" font-weight="bold">{title}</text>']
    for tick in ticks:
        y = vertical(tick)
        parts.append(f'<line x1="{at + LEFT}" x2="{at + WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{at + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{tick:,.6g}</text>')
    for place in sorted(set(places)):
        x = horizontal(place)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#444">{place:,.0f}</text>')
    parts.append(
        f'<text x="{at + (LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#444">schemas</text>'
    )
    for number, (curve, colour) in enumerate(zip(curves, COLOURS, strict=True)):
        spots = [(horizontal(point["schemas"]), vertical(point[name])) for point in curve.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        dash = ' stroke-dasharray="6 3"' if number else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in spots]
        parts.append(f'<text x="{at + LEFT + number * 120}" y="36" fill="{colour}">{curve.title}</text>')
    return "\n".join(parts)


def _log_scale(low: float, high: float, start: float, end: float) -> Scale:
    width = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / width


def _linear_scale(high: float, start: float, end: float) -> Scale:
    return lambda value: start + (end - start) * value / high


def _log_ticks(values: Sequence[float]) -> list[float]:
    """Return 1, 2 and 5 of each power of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
    first = max(number for number, tick in enumerate(ticks) if tick <= min(values))
    last = min(number for number, tick in enumerate(ticks) if tick >= max(values))
    return ticks[first : last + 1]


def _linear_ticks(high: float) -> list[float]:
    power = 10.0 ** math.floor(math.log10(high))
    step = next(size * power for size in (0.2, 0.5, 1.0, 2.0) if high / (size * power) <= 6)
    return [step * number for number in range(math.ceil(high / step) + 1)]
