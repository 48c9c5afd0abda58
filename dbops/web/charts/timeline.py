"""Draw timelines as SVG. X values are percent, y values are pixels. No sizes in styles, because the page's policy forbids them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from dbops.database import clock as database_clock
from dbops.engine.schedule.calendar import Interval, lanes, merge, place, position, ticks
from dbops.engine.schedule.timeline import SHORTEST_SECONDS, BarKind, Timeline, TimelineBar
from dbops.security.redaction import CONTROL, ESCAPES
from dbops.web.dates import date_text
from dbops.web.templatetags.phrases import own_words, translated

#: Least visible width, in percent.
NARROWEST = 0.4
#: Least width of a bar with its name in it, in percent.
NAMED_FROM = 9.0
#: Maximum number of spoken bars per kind; a schedule of every minute must not fill a day of listening.
READ_OUT = 6
#: From this many hours, lines are at days.
DAY_HOURS = 24
#: From this length, times include the day.
LONGEST_DAY_SECONDS = 25 * 3600


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle. ``fill`` is a pattern's URL, empty if the class colours it; ``label`` is drawn in it."""

    x: str
    width: str
    y: int
    height: int
    css: str
    title: str
    fill: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class HourLine:
    """A line across, with its hour if ``label`` is not empty."""

    x: str
    label: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """The content of one SVG. ``name``, ``summary`` and the titles of the shapes are its text for screen readers."""

    name: str
    summary: str
    height: int
    shapes: tuple[Rectangle, ...]
    hours: tuple[HourLine, ...]
    now: str
    baseline: int


def svg(drawing: Drawing) -> SafeString:
    """Return the SVG element. Built here because a page has hundreds of shapes, and a template is slow for each."""
    spoken = _text(read_out(drawing))
    parts = [f'<svg class="timeline-chart" width="100%" height="{drawing.height}" role="img" aria-label="{spoken}">']
    parts += map(_element, drawing.shapes)
    for hour in drawing.hours:
        parts.append(f'<line class="hour-line" x1="{hour.x}" x2="{hour.x}" y1="0" y2="{drawing.baseline}"></line>')
        if hour.label:
            place = f'x="{hour.x}" y="{drawing.height - 3}" text-anchor="{hour.anchor}"'
            parts.append(f'<text class="hour-label" {place}>{_text(hour.label)}</text>')
    if drawing.now:
        line = f'x1="{drawing.now}" x2="{drawing.now}" y1="0" y2="{drawing.baseline}"'
        parts.append(f'<line class="now-line" {line}></line>')
    return mark_safe("".join([*parts, "</svg>"]))  # noqa: S308 - every text in it went through _text


def read_out(drawing: Drawing) -> str:
    """Return the text for screen readers: free slots, blocked times, then each bar."""
    head = f"{drawing.name}: {drawing.summary}" if drawing.name else drawing.summary
    blocked = [
        _("blocked %(times)s") % {"times": shape.title.rstrip(".")}
        for shape in drawing.shapes
        if "band-blocked" in shape.css
    ]
    bars = [shape.title for shape in drawing.shapes if "bar-shape" in shape.css]
    return "; ".join([head, *_latest(blocked), *_latest(bars)])


def _latest(titles: Iterable[str]) -> list[str]:
    """Return the last titles, because upcoming ones matter most, and the number of earlier ones."""
    unique = list(dict.fromkeys(titles))  # a bar and its tail have one title
    earlier = [_("%(number)s earlier") % {"number": len(unique) - READ_OUT}] if len(unique) > READ_OUT else []
    return [*earlier, *unique[-READ_OUT:]]


def _element(shape: Rectangle) -> str:
    title = f"<title>{_text(shape.title)}</title>"
    place = f'x="{shape.x}" y="{shape.y}" width="{shape.width}" height="{shape.height}"'
    if not shape.label:
        style = f'fill="{shape.fill}"' if shape.fill else 'rx="2"' if "bar-shape" in shape.css else ""
        return f'<rect class="{shape.css}" {place} {style}>{title}</rect>'
    # An inner svg cuts its text off at its edge.
    box = f'<rect class="{shape.css}" width="100%" height="100%" rx="2"></rect>'
    return f'<svg {place}>{title}{box}<text class="bar-label" x="4" y="12">{_text(shape.label)}</text></svg>'


def _text(value: str) -> str:
    """Return text that is safe in a page: without escape sequences and control characters, and escaped."""
    return str(escape(CONTROL.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", value))))


def percent(value: float) -> str:
    """Return a length for SVG, in any language."""
    return f"{value:.3f}%"


def clock(moment: datetime, day: Interval | None = None) -> str:
    """Return the time in the page's zone: ``24:00`` for the end of the displayed day."""
    if day and moment == day.end:
        return "24:00"
    return f"{timezone.localtime(moment):%H:%M}"


def spoken(interval: Interval, now: datetime | None = None) -> str:
    """Return ``06:10-23:00``, with the day if it is not today."""
    today = timezone.localtime(now or database_clock.now()).date()

    def one(moment: datetime) -> str:
        local = timezone.localtime(moment)
        return f"{local:%H:%M}" if local.date() == today else date_text(local, "weekday_hour")

    return f"{one(interval.start)}\N{EN DASH}{one(interval.end)}"


def strip(line: Timeline, *, name: str = "", is_dense: bool = False) -> Drawing:
    """Draw a cluster's day on one line: blocked times across all of it, and bars in at most three lanes."""
    height, top, step, thick = (18, 2, 5, 4) if is_dense else (26, 4, 7, 5)
    placed = lanes((bar.whole, bar) for bar in line.bars if bar.kind is not BarKind.MAINTENANCE)
    shapes = [*_bands(line, height)]
    for item in placed:
        shapes += _bar(item.item, line, y=top + step * min(item.lane, 2), height=thick, named=False)
    return _drawing(line, shapes, name=name, height=height, every_hours=6, labels=not is_dense)


def hours(line: Timeline) -> SafeString:
    """Return the hours of a timeline as the heading of rows without hours."""
    found = _hours(line.within, timezone.get_current_timezone(), 6, labels=True)
    texts = "".join(
        f'<text class="hour-label" x="{hour.x}" y="9" text-anchor="{hour.anchor}">{_text(hour.label)}</text>'
        for hour in found
    )
    return mark_safe(f'<svg class="timeline-chart" width="100%" height="11" aria-hidden="true">{texts}</svg>')  # noqa: S308 - escaped


def day_row(line: Timeline, *, name: str) -> Drawing:
    """Draw one day of the calendar: the bands, and every bar in its own lane."""
    placed = lanes((bar.whole, bar) for bar in line.bars)
    count = max((item.lane for item in placed), default=0) + 1
    height = 20 * max(1, count) + 8
    shapes = [*_bands(line, height)]
    for item in placed:
        shapes += _bar(item.item, line, y=4 + 20 * item.lane, height=16, named=True)
    return _drawing(line, shapes, name=name, height=height, every_hours=3, labels=True)


def calendar_row(line: Timeline, *, name: str, days: int) -> Drawing:
    """Draw a cluster's row of the fleet calendar: like ``strip``, but higher, with maintenance, and with days if there are several."""
    placed = lanes((bar.whole, bar) for bar in line.bars)
    height = 12 * min(4, max((item.lane for item in placed), default=0) + 1) + 8
    shapes = [*_bands(line, height)]
    for item in placed:
        shapes += _bar(item.item, line, y=4 + 12 * min(item.lane, 3), height=10, named=False)
    return _drawing(line, shapes, name=name, height=height, every_hours=3 if days == 1 else 24, labels=True)


def instance_rows(line: Timeline, names: Sequence[str]) -> list[Drawing]:
    """Draw a line for each instance with a bar, the cluster's own first."""
    found = [_cluster_row(line)]
    for name in names:
        bars = [bar for bar in line.bars if bar.instance == name or name in bar.busy]
        if not bars:
            continue
        placed = lanes((bar.whole, bar) for bar in bars)
        shapes = [
            shape for item in placed for shape in _bar(item.item, line, y=3 + 20 * item.lane, height=16, named=True)
        ]
        height = 20 * (max(item.lane for item in placed) + 1) + 4
        found.append(_drawing(line, shapes, name=name, height=height, every_hours=3, labels=False))
    return found


def _cluster_row(line: Timeline) -> Drawing:
    shapes = list(_bands(line, 24))
    for bar in line.bars:
        if bar.kind is BarKind.MAINTENANCE:
            shapes += _bar(bar, line, y=5, height=14, named=True)
    return _drawing(line, shapes, name=_("Rebuild"), height=24, every_hours=3, labels=True)


def _drawing(
    line: Timeline, shapes: Iterable[Rectangle], *, name: str, height: int, every_hours: int, labels: bool
) -> Drawing:
    now = position(line.now, line.within)
    return Drawing(
        name=name,
        summary=summary(line),
        height=height + (16 if labels else 0),
        shapes=tuple(shapes),
        hours=tuple(_hours(line.within, timezone.get_current_timezone(), every_hours, labels)),
        now=percent(now) if now is not None else "",
        baseline=height,
    )


def summary(line: Timeline) -> str:
    """Return the free slots as text; of a past day, the blocked times."""
    if line.within.end <= line.now:
        return _past_summary(line)
    slots = line.free_ahead
    if not slots:
        return _("no free slot")
    if [(item.start, item.end) for item in slots] == [(line.within.start, line.within.end)]:
        return _("always free")
    return _("free %(times)s") % {"times": _times(slots, line)}


def _past_summary(line: Timeline) -> str:
    if not line.bars:
        return _("nothing ran")
    blocked = [item for item in merge([one.interval for one in line.blocked]) if item.seconds >= SHORTEST_SECONDS]
    return _("was blocked %(times)s") % {"times": _times(blocked, line)} if blocked else _("not blocked")


def _times(intervals: Iterable[Interval], line: Timeline) -> str:
    """Return the intervals by the minute; intervals less than a minute apart become one."""
    is_day = line.within.seconds <= LONGEST_DAY_SECONDS
    found: list[tuple[str, str]] = []
    for item in intervals:
        start, end = (
            (clock(item.start), clock(item.end, line.within))
            if is_day
            else (date_text(timezone.localtime(moment), "weekday_hour") for moment in (item.start, item.end))
        )
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return ", ".join(_("%(start)s to %(end)s") % {"start": start, "end": end} for start, end in found)


def _bands(line: Timeline, height: int) -> Iterable[Rectangle]:
    """Yield free and blocked times. Of the past only blocked times are known."""
    for css, fill, intervals in (
        ("band-free", "", [(item, _("free: a rebuild can start")) for item in line.free_ahead]),
        (
            "band-perhaps",
            "url(#hatch-light)",
            [(item, _("may still be blocked (p90)")) for item in line.perhaps],
        ),
        ("band-blocked", "url(#hatch)", [(item.interval, translated(item.why)) for item in line.blocked]),
    ):
        for interval, why in intervals:
            if at := place(interval, line.within):
                title = f"{spoken(interval, line.now)}: {why}"
                yield Rectangle(percent(at.left), percent(at.width), 0, height, f"band {css}", title, fill)


def _bar(bar: TimelineBar, line: Timeline, *, y: int, height: int, named: bool) -> Iterable[Rectangle]:
    name, when = str(own_words(bar.title)), spoken(bar.interval, line.now)
    title = f"{name}: {when}"
    if bar.is_open:
        start = when.partition("\N{EN DASH}")[0]
        title = _("%(name)s: from %(start)s, end unknown") % {"name": name, "start": start}
    if bar.tail:
        title += f" (p90 {clock(bar.tail.end)})"
    title += f", {translated(bar.status)}" if bar.status else ""
    css = f"bar-shape bar-{bar.kind.value} bar-{bar.status or 'plain'}" + (" bar-open" if bar.is_open else "")
    if at := place(_known(bar, line.now), line.within):
        width = max(at.width, NARROWEST)
        label = name if named and width >= NAMED_FROM else ""
        yield Rectangle(percent(min(at.left, 100 - width)), percent(width), y, height, css, title, label=label)
    if bar.tail and (at := place(bar.tail, line.within)):
        yield Rectangle(percent(at.left), percent(at.width), y, height, f"{css} bar-tail", title)


def _known(bar: TimelineBar, now: datetime) -> Interval:
    """Return the known part of a bar: up to now for a job without a known end."""
    if not bar.is_open or bar.kind is BarKind.MAINTENANCE:
        return bar.interval
    start = bar.interval.start
    return Interval(start, max(now, start + timedelta(seconds=SHORTEST_SECONDS)))


def _hours(within: Interval, zone: tzinfo, every_hours: int, labels: bool) -> Iterable[HourLine]:
    for tick in ticks(within, zone, every_hours):
        anchor = "start" if tick.left < 2 else "end" if tick.left > 98 else "middle"
        local = tick.at.astimezone(zone)
        if every_hours >= DAY_HOURS:
            # the day that begins at the end is not drawn
            anchor, label = "start", "" if tick.at == within.end else date_text(local, "weekday")
        else:
            label = "24" if tick.at == within.end and local.hour == 0 else f"{local:%H}"
        yield HourLine(percent(tick.left), label if labels else "", anchor)
