"""Summarize a cluster's forecast. A builtin as well."""

from django import template

from dbops.queries.availability.forecast import ClusterForecast
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
