"""Tell templates whether this is the sample (a builtin: no ``{% load %}``). A tag, because it also works without a request."""

from django import template
from django.conf import settings

register = template.Library()


@register.simple_tag
def in_sample() -> bool:
    """Return whether this process shows generated history."""
    return bool(settings.SAMPLE)


@register.simple_tag
def sample_address() -> str:
    """Return the URL of the sample beside this dashboard, or ``""``."""
    return "" if settings.SAMPLE else str(settings.SAMPLE_URL)
