"""Show the recovery forecast as a table of hours and days, with a number and a colour per cell."""

from dataclasses import dataclass, replace

from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dbops.engine.availability.forecast import ForecastHour
from dbops.queries.availability.forecast import ClusterForecast
from dbops.web.figures import UNKNOWN as UNKNOWN_VALUE
from dbops.web.figures import duration
from dbops.web.templatetags.phrases import translated

DAYS = tuple(WEEKDAYS[day] for day in range(7))
KEPT, SLOW, BROKEN, UNKNOWN, NONE = "kept", "slow", "broken", "unknown", "none"
#: Above this share of the goal an hour counts as slow.
SLOW_SHARE = 0.5
MARKS = {BROKEN: "!"}
LEGEND = (
    (KEPT, gettext_lazy("at most half of the goal")),
    (SLOW, gettext_lazy("within the goal")),
    (BROKEN, gettext_lazy("longer than the goal")),
    (UNKNOWN, gettext_lazy("unknown (“+”: waiting time only)")),
)


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """One hour of one day: its text, the kind for the colour, and a spoken text."""

    text: str
    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class HeatmapRow:
    """One hour of the day on all days."""

    hour: int
    fields: tuple[HeatmapCell, ...]


@dataclass(frozen=True, slots=True)
class Heatmap:
    """The whole heatmap: hours down and days across, so that it fits a phone.

    ``lead`` and ``text`` describe the worst hour.
    """

    ahead: ClusterForecast
    lead: str
    text: str
    rows: tuple[HeatmapRow, ...]
    days: tuple[object, ...] = DAYS
    legend: tuple[tuple[str, object], ...] = LEGEND


def heat(found: ClusterForecast) -> Heatmap:
    return Heatmap(found, *describe_worst_hour(found), _rows(found))


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst hour of a week: ``text`` is its duration, ``label`` the text beside icon and colour."""

    text: str
    label: str
    word: str
    icon: str
    when: str = ""


def worst_hour(found: ClusterForecast) -> Worst:
    """Return the slowest hour; if rebuild durations are unknown, the hour with the longest wait."""
    hour = found.forecast.worst or found.forecast.longest_wait
    if hour is None or (hour.seconds is None and not hour.wait_seconds):
        return Worst(translated(UNKNOWN_VALUE), "", "unknown", "info-circle")
    if hour.wait_seconds:
        when = hour_name(hour)
    else:
        when = _("every known hour") if found.unknown else _("every hour")
    if hour.breaks(found.goal_seconds):
        worst = Worst("", _("over the goal"), "failed", "alert-triangle")
    elif found.unknown:
        label = _("other hours unknown") if hour.seconds is not None else _("rebuild time unknown")
        worst = Worst("", label, "unknown", "info-circle")
    else:
        worst = Worst("", _("within the goal"), "healthy", "circle-check")
    if hour.seconds is not None:
        text = duration(hour.seconds)
    else:
        text = _("waits %(duration)s") % {"duration": duration(hour.wait_seconds)}
    return replace(worst, text=text, when=when)


def describe_worst_hour(found: ClusterForecast) -> tuple[str, str]:
    """Return the lead and the rest of the sentence about the worst hour."""
    worst, wait = found.forecast.worst, found.forecast.longest_wait
    if worst and worst.wait_seconds:
        return _("Worst hour: %(hour)s,") % {"hour": hour_name(worst)}, _ended(describe_hour(worst))
    if worst:
        return _("All known hours are equal:"), _ended(describe_hour(worst))
    if wait and wait.wait_seconds:
        return _("Longest wait: %(hour)s,") % {"hour": hour_name(wait)}, _ended(describe_hour(wait))
    if wait:
        return _("No waiting time in any known hour."), _("The rebuild time is unknown.")
    return _("No estimate for any hour:"), _ended(translated(found.forecast.hours[0].why))


def _ended(text: str) -> str:
    return _("%(cause)s.") % {"cause": text}


def _rows(found: ClusterForecast) -> tuple[HeatmapRow, ...]:
    by_key = {(one.weekday, one.hour): one for one in found.forecast.hours}
    return tuple(
        HeatmapRow(
            hour, tuple(_field(by_key.get((day, hour)), day, hour, found.goal_seconds) for day in range(len(DAYS)))
        )
        for hour in range(24)
    )


def hour_name(hour: ForecastHour) -> str:
    """Return an hour of the week, for example ``Monday 02:00``."""
    return f"{DAYS[hour.weekday]} {hour.hour:02d}:00"


def _field(hour: ForecastHour | None, day: int, on: int, goal: float) -> HeatmapCell:
    if hour is None:
        return HeatmapCell(
            "–",
            NONE,
            _("%(day)s %(hour)s:00: skipped by the daylight-saving change") % {"day": DAYS[day], "hour": f"{on:02d}"},
        )
    kind = _kind(hour, goal)
    text = _clock(hour) + MARKS.get(kind, "")
    return HeatmapCell(text or "?", kind, f"{hour_name(hour)}: {describe_hour(hour)}")


def _kind(hour: ForecastHour, goal: float) -> str:
    if hour.breaks(goal):
        return BROKEN
    if hour.seconds is None:
        return UNKNOWN
    return SLOW if hour.seconds > goal * SLOW_SHARE else KEPT


def _clock(hour: ForecastHour) -> str:
    """Return hours and minutes as ``9:05``, above 99 hours without minutes; a wait alone ends with ``+``."""
    known = hour.wait_seconds if hour.seconds is None else hour.seconds
    if known is None:
        return ""
    minutes = round(known / 60)
    text = f"{minutes // 60}:{minutes % 60:02d}" if minutes < 6000 else f"{minutes // 60} h"
    return text if hour.seconds is not None else f"{text}+"


def describe_hour(hour: ForecastHour) -> str:
    """Return the time to full redundancy and its waiting part."""
    why = translated(hour.why)
    if hour.wait_seconds is None:
        return _("unknown (%(why)s)") % {"why": why}
    values = {"wait": duration(hour.wait_seconds), "why": why, "duration": duration(hour.seconds)}
    if hour.seconds is None:
        if hour.wait_seconds:
            return _("%(wait)s waiting for %(why)s; rebuild time unknown") % values
        return _("no waiting time; rebuild time unknown")
    if hour.wait_seconds:
        return _("full redundancy after %(duration)s, including %(wait)s waiting for %(why)s") % values
    return _("full redundancy after %(duration)s, no waiting time") % values
