"""The charts of a load test: latency and speed by step, speed by second, CPU by round, and the ratio of each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dbops.engine.load_tests.planning import Axis
from dbops.engine.phrases import phrase
from dbops.queries.load_test_pages import KNEE_OF, Conclusion
from dbops.web.charts.xy import Band, ChartScale, XyLine, key_of, xy_chart
from dbops.web.figures import localized
from dbops.web.templatetags.phrases import translated

#: Percentiles of the chart, with their names.
SHOWN = (("P50", "P50"), ("P95", "P95"), ("P99", "P99"), ("P999", "P99.9"))
#: Most points of the chart by second. Each is the slowest second of its part, so that no stall is lost.
MOST_SECONDS = 600
#: From this ratio of the largest to the smallest step, the scale of steps is logarithmic.
LOG_FROM = 8
TITLES = {
    Axis.SCHEMAS: phrase("schemas"),
    Axis.RATE: phrase("wanted rate (per second)"),
    Axis.THREADS: phrase("threads"),
}
LATENCY = {
    Axis.SCHEMAS: phrase("Latency (ms) against schemas"),
    Axis.RATE: phrase("Latency (ms) against wanted rate (per second)"),
    Axis.THREADS: phrase("Latency (ms) against threads"),
}
SPEED = {
    Axis.SCHEMAS: phrase("Statements a second against schemas"),
    Axis.RATE: phrase("Statements a second against wanted rate (per second)"),
    Axis.THREADS: phrase("Statements a second against threads"),
}
#: The same for screen readers.
LATENCY_SAID = {
    Axis.SCHEMAS: phrase("Latency against schemas"),
    Axis.RATE: phrase("Latency against wanted rate (per second)"),
    Axis.THREADS: phrase("Latency against threads"),
}

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadTestChart:
    """One chart. ``key`` names it for scripts and tests; without a drawing ``empty`` says why."""

    key: str
    title: str
    drawing: SafeString
    legend: tuple[tuple[SafeString, str], ...] = ()
    empty: str = field(default_factory=lambda: _("No round has ended yet."))


def charts_of(found: Conclusion) -> list[LoadTestChart]:
    """Return the charts of the rounds that have ended. A test without rounds has the same charts, empty."""
    own = _of_steps(found) if found.axis else [_pairs_chart(found)]
    return [*own, _seconds_chart(found.report), _cpu_chart(found.report)]


def ms_text(value: float | None) -> str:
    """Return milliseconds with three significant digits: ``0.113``, ``4.42``, ``44.9``, ``1,204``."""
    if value is None:
        return "—"
    return localized(f"{value:,.0f}" if value >= 100 else f"{value:.3g}")


def count_text(value: float | None) -> str:
    """Return a number with commas; thousands and millions are short where nothing is lost."""
    if value is None:
        return "—"
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= 10 * size and value % (size / 10) == 0:
            return localized(f"{value / size:g}") + unit
    return localized(f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}")


def _of_steps(found: Conclusion) -> list[LoadTestChart]:
    assert found.axis is not None  # noqa: S101 - its caller looked
    steps = [step for step in found.report.get("Steps", ()) if step[found.key] is not None]
    values = [float(step[found.key]) for step in steps]
    x = ChartScale(translated(TITLES[found.axis]), count_text, _is_log(values), ticks=tuple(values))
    knee = found.knee
    bands = [Band(knee.after, knee.at, _("knee"))] if knee and knee.after is not None and knee.at is not None else []
    charts = [
        _latency_chart(found, found.axis, steps, x, bands),
        _speed_chart(found, found.axis, steps, x, bands),
        _latency_by_speed(steps),
    ]
    return [*charts, _rate_chart(steps)] if found.axis is Axis.RATE else charts


def _is_log(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) / min(values) >= LOG_FROM


def _latency_chart(
    found: Conclusion, axis: Axis, steps: Sequence[Report], x: ChartScale, bands: Sequence[Band]
) -> LoadTestChart:
    lines = _latency_lines(steps, found.key)
    said = "; ".join(f"{step[found.key]}: {KNEE_OF} {ms_text(step['Duration'][KNEE_OF])} ms" for step in steps)
    drawing = xy_chart(
        lines, x, ChartScale("ms", ms_text, is_log=True), _summary(translated(LATENCY_SAID[axis]), said), bands=bands
    )
    return LoadTestChart("latency", translated(LATENCY[axis]), drawing, _legend(lines))


def _latency_lines(steps: Sequence[Report], key: str) -> list[XyLine]:
    """Return the lines, and the repeats of ``KNEE_OF`` as dots around its line."""
    lines = []
    for number, (name, title) in enumerate(SHOWN, 1):
        known = [(float(step[key]), step["Duration"][name]) for step in steps if step["Duration"][name]]
        dots = [(float(step[key]), value) for step in steps for value in step["Repeats"][name] if value]
        lines.append(XyLine(title, number, known, dots if name == KNEE_OF else known))
    return [line for line in lines if line.points]


def _speed_chart(
    found: Conclusion, axis: Axis, steps: Sequence[Report], x: ChartScale, bands: Sequence[Band]
) -> LoadTestChart:
    points = [(float(step[found.key]), step["TotalQPS"]) for step in steps]
    dots = [(float(step[found.key]), value) for step in steps for value in step["Repeats"]["TotalQPS"]]
    said = "; ".join(f"{step[found.key]}: {count_text(step['TotalQPS'])}" for step in steps)
    line = XyLine(_("statements a second"), 1, points, dots)
    drawing = xy_chart(
        [line], x, ChartScale("", count_text, least=0.0), _summary(translated(SPEED[axis]), said), bands=bands
    )
    return LoadTestChart("speed", translated(SPEED[axis]), drawing)


def _latency_by_speed(steps: Sequence[Report]) -> LoadTestChart:
    """Latency against speed, in the order of the steps: where the line turns back, more load carries less."""
    lines = []
    for number, (name, title) in enumerate(SHOWN, 1):
        points = [(float(step["TotalQPS"]), step["Duration"][name]) for step in steps if step["Duration"][name]]
        lines.append(XyLine(title, number, points, points))
    said = "; ".join(f"{count_text(step['TotalQPS'])}: P99 {ms_text(step['Duration']['P99'])} ms" for step in steps)
    drawing = xy_chart(
        [line for line in lines if line.points],
        ChartScale(_("statements a second"), count_text),
        ChartScale("ms", ms_text, is_log=True),
        _summary(_("Latency against statements a second"), said),
    )
    return LoadTestChart("latency-by-speed", _("Latency (ms) against statements a second"), drawing, _legend(lines))


def _rate_chart(steps: Sequence[Report]) -> LoadTestChart:
    wanted = [(float(step["WantedRate"]), float(step["WantedRate"])) for step in steps]
    achieved = [(float(step["WantedRate"]), float(step["AchievedRate"])) for step in steps]
    lines = [XyLine(_("achieved"), 1, achieved, achieved), XyLine(_("wanted"), 4, wanted)]
    said = "; ".join(
        _("wanted %(wanted)s, achieved %(achieved)s") % {"wanted": count_text(x), "achieved": count_text(y)}
        for x, y in achieved
    )
    ticks = tuple(x for x, _ in wanted)
    scale = ChartScale(translated(TITLES[Axis.RATE]), count_text, _is_log(ticks), ticks=ticks)
    drawing = xy_chart(
        lines, scale, ChartScale("", count_text, least=0.0), _summary(_("Achieved against wanted rate"), said)
    )
    return LoadTestChart("rate", _("Achieved against wanted rate"), drawing, _legend(lines))


def _seconds_chart(report: Report) -> LoadTestChart:
    """The statements of each second of all rounds, in the order of running, with a dot on each second without any."""
    seconds = [second[1] for one in report.get("Rounds", ()) for second in one["Seconds"]]
    size = max(1, -(-len(seconds) // MOST_SECONDS))
    parts = [(float(place), min(seconds[place : place + size])) for place in range(0, len(seconds), size)]
    stalls = sum(value == 0 for value in seconds)
    line = XyLine(_("statements a second"), 1, parts)
    stalled = XyLine(_("second without a statement"), 3, (), [(x, y) for x, y in parts if y == 0], is_drawn=False)
    said = _("Statements in each of %(seconds)s measured seconds. Seconds without a statement: %(stalls)s.")
    said %= {"seconds": len(seconds), "stalls": stalls}
    drawing = xy_chart(
        [line, stalled], ChartScale(_("measured second"), count_text), ChartScale("", count_text, least=0.0), said
    )
    legend = _legend([line, stalled]) if stalls else ()
    return LoadTestChart("seconds", _("Statements a second over time"), drawing, legend)


def _cpu_chart(report: Report) -> LoadTestChart:
    lines = []
    for number, (key, name) in enumerate((("ServerCores", _("server")), ("GeneratorCores", _("load generator"))), 1):
        points = [(float(one["Round"]), one[key]) for one in report.get("Rounds", ()) if one[key] is not None]
        lines.append(XyLine(name, number, points, points))
    shown = [line for line in lines if line.points]
    numbers = sorted({x for one in shown for x, _ in one.points})
    said = "; ".join(
        _("%(name)s %(low)s to %(high)s") % {"name": line.name, **_range([y for __, y in line.points])}
        for line in shown
    )
    drawing = xy_chart(
        shown,
        ChartScale(_("round"), count_text, ticks=tuple(numbers[:: max(1, -(-len(numbers) // 8))])),
        ChartScale("", lambda value: localized(f"{value:g}"), least=0.0),
        _("Cores used in each round: %(cores)s") % {"cores": said},
    )
    return LoadTestChart(
        "cpu", _("CPU of each round (cores)"), drawing, _legend(shown), _("No round with known CPU has ended yet.")
    )


def _pairs_chart(found: Conclusion) -> LoadTestChart:
    both = ((1, _("B by A"), found.pairs), (5, _("A by A"), found.aa_pairs))
    lines = [
        XyLine(name, number, (), [(float(pair.number), pair.ratio) for pair in pairs], is_drawn=False)
        for number, name, pairs in both
        if pairs
    ]
    ratio = found.ab.ab if found.ab else None
    is_known = ratio and ratio.low is not None and ratio.high is not None
    bands = [Band(ratio.low, ratio.high, _("interval of B by A"), is_y=True)] if is_known else []  # type: ignore[union-attr, arg-type]
    said = "; ".join(f"{one.name}: {', '.join(f'{y:.2f}' for _, y in one.dots)}" for one in lines)
    numbers = tuple(sorted({x for one in lines for x, _ in one.dots}))
    drawing = xy_chart(
        lines,
        ChartScale(
            _("pair"),
            count_text,
            ticks=numbers,
            least=min(numbers, default=1) - 0.5,
            most=max(numbers, default=1) + 0.5,
        ),
        ChartScale("", lambda value: localized(f"{value:.3g}")),
        _summary(_("Speed of the second arm by that of the first in each pair"), said),
        bands=bands,
        level=1.0,
    )
    return LoadTestChart("pairs", _("Ratio of each pair"), drawing, _legend(lines), _("No pair has ended yet."))


def _legend(lines: Sequence[XyLine]) -> tuple[tuple[SafeString, str], ...]:
    return tuple((key_of(line), line.name) for line in lines if line.points or line.dots)


def _summary(title: str, figures: str) -> str:
    """Return what a chart shows, for screen readers."""
    return _("%(title)s. %(figures)s") % {"title": title, "figures": figures}


def _range(values: Sequence[float]) -> dict[str, str]:
    return {"low": localized(f"{min(values):.2f}"), "high": localized(f"{max(values):.2f}")}
