"""The drawing of a topology (a builtin: no ``{% load %}``)."""

from collections.abc import Sequence

from django import template
from django.utils.safestring import SafeString

from dbops.queries.topology import Drawn
from dbops.web.charts import topology

register = template.Library()


@register.simple_tag
def topology_graph(trees: Sequence[Drawn]) -> SafeString:
    """Return the drawing of servers and their replication connections."""
    return topology.drawing(trees)
