"""Tags about shared reads (a builtin: no ``{% load %}``)."""

from collections.abc import Iterable

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dbops.models import Rebuild
from dbops.web.templatetags.phrases import translated

register = template.Library()


@register.simple_tag
def sharers(rebuild: Rebuild, shared: Iterable[Rebuild]) -> list[SafeString]:
    """Return the rebuilds of a shared read, each as a link with target and status, but ``rebuild`` as "this rebuild"."""
    return [_this(one) if one.pk == rebuild.pk else _link(one) for one in shared]


def _this(rebuild: Rebuild) -> SafeString:
    return format_html('<strong data-shares="{}" data-self>{}</strong>', rebuild.pk, _("this rebuild"))


def _link(rebuild: Rebuild) -> SafeString:
    return format_html(
        _('<a data-shares="{number}" href="{url}">rebuild {number}</a> of {target} ({status})'),
        number=rebuild.pk,
        url=reverse("rebuild", args=(rebuild.pk,)),
        target=rebuild.target.name,
        status=translated(rebuild.status),
    )
