"""Summarize a cluster's forecasts. A builtin as well."""

from django import template

from dbops.database import clock
from dbops.engine.capacity.walls import Wall
from dbops.queries.availability.forecast import ClusterForecast
from dbops.web.charts.heatmap import Worst, describe_worst_hour, worst_hour
from dbops.web.walls import flag_text, sentence

register = template.Library()


@register.filter
def worst(ahead: ClusterForecast) -> Worst:
    """Return the worst hour for a table: duration, time, and whether it misses the goal."""
    return worst_hour(ahead)


@register.filter
def worst_hour_text(ahead: ClusterForecast) -> str:
    """Return the worst hour as a sentence."""
    return " ".join(describe_worst_hour(ahead))


@register.filter
def wall_flag(wall: Wall) -> str:
    """Return a limit that comes near as a short label."""
    return flag_text(wall, clock.now())


@register.filter
def wall_sentence(wall: Wall) -> str:
    """Return a limit with its instance and time."""
    return sentence(wall, clock.now())
