"""The filter of details of audit entries (a builtin: no ``{% load %}``)."""

from django import template

from dbops.web.detail_names import DETAIL_NAMES
from dbops.web.templatetags.dbops import words

register = template.Library()


@register.filter
def detail_name(key: str) -> str:
    """Return the name of a detail in the language of the page."""
    name = DETAIL_NAMES.get(key.replace(" ", "_"))
    return words(key) if name is None else str(name)
