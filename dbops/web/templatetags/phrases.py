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

#: What ends a sentence.
ENDS = (".", "?", "\N{IDEOGRAPHIC FULL STOP}", "\N{FULLWIDTH QUESTION MARK}")


@register.filter
def translated(value: Any) -> str:
    """Return a phrase, a label or a sentence of the catalogue in the language of the page; other text stays as it is."""
    if isinstance(value, Phrase):
        values = {name: translated(part) if isinstance(part, Phrase) else part for name, part in value.values.items()}
        pattern = ngettext(value.pattern, value.plural, value.number) if value.plural else gettext(value.pattern)
        try:
            return pattern.format(**values) if values else pattern
        except LookupError:  # a stored phrase, whose pattern has other values by now
            return str(value)
    text = "" if value is None else str(value)
    return gettext(text) if text else ""


@register.filter
def own_words(value: Any) -> Any:
    """Return a phrase in the language of the page. Other text is a value, and stays even if it looks like a word of dbops."""
    return translated(value) if isinstance(value, Phrase) else value


@register.filter
def sentence(value: Any) -> str:
    """Return a text as a sentence in the language of the page, with its capital letter and full stop."""
    text = translated(value)
    text = text[:1].upper() + text[1:]
    return text if text.endswith(ENDS) else gettext("%(cause)s.") % {"cause": text}


@register.filter
def listed(values: Iterable[Any], attribute: str = "") -> SafeString:
    """Return values, or an attribute of each, as ``a, b and c`` in the language of the page."""
    shown = map(attrgetter(attribute), values) if attribute else values
    parts = [str(conditional_escape(value)) for value in shown]
    if len(parts) < 2:
        return SafeString("".join(parts))
    names = pgettext("between the parts of a list", ", ").join(parts[:-1])
    return SafeString(pgettext("a list", "{names} and {last}").format(names=names, last=parts[-1]))
