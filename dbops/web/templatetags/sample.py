"""Whether a page shows the sample (a builtin: no ``{% load %}``). A tag, so that what is rendered without a request knows it, too."""

from django import template
from django.conf import settings

register = template.Library()


@register.simple_tag
def in_sample() -> bool:
    """Tell whether this process shows generated history."""
    return bool(settings.SAMPLE)


@register.simple_tag
def sample_address() -> str:
    """Return where the sample is shown beside this dashboard, ``""`` where nowhere."""
    return "" if settings.SAMPLE else str(settings.SAMPLE_URL)
