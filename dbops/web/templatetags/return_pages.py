"""The tag of the page to return to (a builtin: no ``{% load %}``)."""

from typing import Any

from django import template

from dbops.web.return_pages import return_page

register = template.Library()


@register.simple_tag(takes_context=True)
def page_to_return_to(context: dict[str, Any]) -> str:
    """Return the address to which a button of this answer leads back."""
    return return_page(context["request"])
