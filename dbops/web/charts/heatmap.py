"""The week ahead as a table of hours and days: each field a word and a number, with a colour besides."""

from dataclasses import dataclass, replace

from dbops.engine.availability.forecast import ForecastHour
from dbops.queries.availability.forecast import ClusterForecast
from dbops.web.templatetags.dbops import duration

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
KEPT, SLOW, BROKEN, UNKNOWN, NONE = "kept", "slow", "broken", "unknown", "none"
#: More than this share of the goal is told apart from what is far from it.
SLOW_SHARE = 0.5
MARKS = {BROKEN: "!"}
LEGEND = (
    (KEPT, "at most half of the goal"),
    (SLOW, "within the goal"),
    (BROKEN, "longer than the goal"),
    (UNKNOWN, "not known; with a plus, the wait alone is"),
)


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """One hour of one day: what stands in it, its kind for the colour, and all of it in words."""

    text: str
    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class HeatmapRow:
    """One hour of the day, on all days."""

    hour: int
    fields: tuple[HeatmapCell, ...]


@dataclass(frozen=True, slots=True)
class Heatmap:
    """The whole of it: ``lead`` and ``text`` name the worst hour. Hours down and days across, so that it fits a telephone."""

    ahead: ClusterForecast
    lead: str
    text: str
    rows: tuple[HeatmapRow, ...]
    days: tuple[str, ...] = DAYS
    legend: tuple[tuple[str, str], ...] = LEGEND


def heat(found: ClusterForecast) -> Heatmap:
    return Heatmap(found, *worst_in_words(found), _rows(found))


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst hour of a week in short: ``text`` is how long it takes, ``verdict`` says in words what the icon and the colour say."""

    text: str
    verdict: str
    word: str
    icon: str
    when: str = ""


def worst_hour(found: ClusterForecast) -> Worst:
    """Return the hour that takes the longest; where nobody knows how long a rebuild takes, the one with the longest wait."""
    hour = found.forecast.worst or found.forecast.longest_wait
    if hour is None or (hour.seconds is None and not hour.wait_seconds):
        return Worst("not known", "", "unknown", "info-circle")
    when = told(hour) if hour.wait_seconds else f"in every hour{' that is known' if found.unknown else ''}"
    if hour.breaks(found.goal_seconds):
        verdict = Worst("", "over the goal", "failed", "alert-triangle")
    elif found.unknown:
        verdict = Worst(
            "",
            "others are not known" if hour.seconds is not None else "the rest is not known",
            "unknown",
            "info-circle",
        )
    else:
        verdict = Worst("", "within the goal", "healthy", "circle-check")
    text = duration(hour.seconds) if hour.seconds is not None else f"waits {duration(hour.wait_seconds)}"
    return replace(verdict, text=text, when=when)


def worst_in_words(found: ClusterForecast) -> tuple[str, str]:
    """Return what leads a sentence about the worst hour, and the rest of it."""
    worst, wait = found.forecast.worst, found.forecast.longest_wait
    if worst and worst.wait_seconds:
        return f"Worst hour: {told(worst)},", f"{in_words(worst)}."
    if worst:
        return "No hour is worse than another:", f"{in_words(worst)} in each that is known."
    if wait and wait.wait_seconds:
        return f"Longest wait: {told(wait)},", f"{in_words(wait)}."
    if wait:
        return "No rebuild has to wait", "in any hour that is known; how long it takes then is not."
    return "Nothing is known of any hour:", f"{found.forecast.hours[0].why}."


def _rows(found: ClusterForecast) -> tuple[HeatmapRow, ...]:
    by_key = {(one.weekday, one.hour): one for one in found.forecast.hours}
    return tuple(
        HeatmapRow(
            hour, tuple(_field(by_key.get((day, hour)), day, hour, found.goal_seconds) for day in range(len(DAYS)))
        )
        for hour in range(24)
    )


def told(hour: ForecastHour) -> str:
    """Return one hour of the week: ``Monday 02:00``."""
    return f"{DAYS[hour.weekday]} {hour.hour:02d}:00"


def _field(hour: ForecastHour | None, day: int, on: int, goal: float) -> HeatmapCell:
    if hour is None:
        return HeatmapCell("–", NONE, f"{DAYS[day]} {on:02d}:00: the clock jumps over this hour")
    kind = _kind(hour, goal)
    text = _clock(hour) + MARKS.get(kind, "")
    return HeatmapCell(text or "?", kind, f"{told(hour)}: {in_words(hour)}")


def _kind(hour: ForecastHour, goal: float) -> str:
    if hour.breaks(goal):
        return BROKEN
    if hour.seconds is None:
        return UNKNOWN
    return SLOW if hour.seconds > goal * SLOW_SHARE else KEPT


def _clock(hour: ForecastHour) -> str:
    """Return hours and minutes as ``9:05``; more than 99 hours without minutes; a wait alone with ``+``."""
    known = hour.wait_seconds if hour.seconds is None else hour.seconds
    if known is None:
        return ""
    minutes = round(known / 60)
    text = f"{minutes // 60}:{minutes % 60:02d}" if minutes < 6000 else f"{minutes // 60} h"
    return text if hour.seconds is not None else f"{text}+"


def in_words(hour: ForecastHour) -> str:
    """Return how long it takes and what is waited for."""
    if hour.wait_seconds is None:
        return f"not known: {hour.why}"
    wait = f"{duration(hour.wait_seconds)} of it waiting for {hour.why}" if hour.wait_seconds else "can start at once"
    if hour.seconds is None:
        wait = f"{duration(hour.wait_seconds)} waiting for {hour.why}" if hour.wait_seconds else wait
        return f"{wait}; then a rebuild that nobody knows the time of"
    return f"whole again after {duration(hour.seconds)}, {wait}"
