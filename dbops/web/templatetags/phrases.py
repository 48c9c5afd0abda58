"""Show texts of the engine in the language of the page (a builtin: no ``{% load %}``)."""

from typing import Any

from django import template
from django.utils.translation import gettext

from dbops.engine.phrases import Phrase

register = template.Library()


@register.filter
def translated(value: Any) -> str:
    """Return a phrase, a label or a sentence of the catalogue in the language of the page; other text stays as it is."""
    if isinstance(value, Phrase):
        values = {name: translated(part) if isinstance(part, Phrase) else part for name, part in value.values.items()}
        pattern = gettext(value.pattern)
        return pattern.format(**values) if values else pattern
    text = "" if value is None else str(value)
    return gettext(text) if text else ""
