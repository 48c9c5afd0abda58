"""Summarize a cluster's forecasts. A builtin as well."""

from django import template

from dbops.database import clock
from dbops.engine.capacity.limits import CapacityLimit
from dbops.queries.availability.forecast import ClusterForecast
from dbops.web.capacity_limits import flag_text, sentence
from dbops.web.charts.heatmap import Worst, describe_worst_hour, worst_hour

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
def limit_flag(limit: CapacityLimit) -> str:
    """Return a limit that comes near as a short label."""
    return flag_text(limit, clock.now())


@register.filter
def limit_sentence(limit: CapacityLimit) -> str:
    """Return a limit with its instance and time."""
    return sentence(limit, clock.now())
