"""Show texts of the engine in the language of the page (a builtin: no ``{% load %}``)."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from django import template
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext

from dbops.engine.phrases import Phrase

register = template.Library()


@register.filter
def translated(value: Any) -> str:
    """Return a phrase, a label or a sentence of the catalogue in the language of the page; other text stays as it is."""
    if isinstance(value, Phrase):
        values = {name: translated(part) if isinstance(part, Phrase) else part for name, part in value.values.items()}
        pattern = ngettext(value.pattern, value.plural, value.number) if value.plural else gettext(value.pattern)
        return pattern.format(**values) if values else pattern
    text = "" if value is None else str(value)
    return gettext(text) if text else ""


@register.filter
def listed(values: Iterable[Any], attribute: str = "") -> SafeString:
    """Return values, or an attribute of each, as ``a, b and c`` in the language of the page."""
    shown = map(attrgetter(attribute), values) if attribute else values
    parts = [str(conditional_escape(value)) for value in shown]
    if len(parts) < 2:
        return SafeString("".join(parts))
    names = pgettext("between the parts of a list", ", ").join(parts[:-1])
    return SafeString(pgettext("a list", "{names} and {last}").format(names=names, last=parts[-1]))
