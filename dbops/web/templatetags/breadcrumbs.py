"""Breadcrumbs: the pages above the current one."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dbops.models import BackupRun, Cluster, Rebuild

register = template.Library()

#: Pages of the menu by the name of their URL.
SECTIONS = {
    "fleet": gettext_lazy("Fleet"),
    "rebuilds": gettext_lazy("Rebuilds"),
    "audit": gettext_lazy("Audit log"),
    "inventory": gettext_lazy("Inventory"),
    "schedules": gettext_lazy("Schedules"),
    "users": gettext_lazy("Users and groups"),
    "audit-sinks": gettext_lazy("Audit sinks"),
    "notifications": gettext_lazy("Notifications"),
    "discoveries": gettext_lazy("Discover servers"),
    "connection-tests": gettext_lazy("Tests"),
    "credentials": gettext_lazy("Credentials"),
    "load-tests": gettext_lazy("Load tests"),
}


@dataclass(frozen=True, slots=True)
class Crumb:
    """One link of the breadcrumbs."""

    text: str
    url: str


@register.simple_tag
def crumb(text: object, page: str, *args: Any, **query: Any) -> Crumb:
    """Return a link to the URL named ``page``; keyword arguments become its query."""
    return Crumb(str(text), reverse(page, args=args) + (f"?{urlencode(query)}" if query else ""))


@register.inclusion_tag("includes/breadcrumbs.html")
def crumbs(
    *above: Crumb | Cluster | Rebuild | BackupRun | str, here: object, number: int | None = None
) -> dict[str, Any]:
    """Show the breadcrumbs.

    Args:
        above: the pages above, the topmost first: the name of a section, a cluster, a rebuild, a backup run or a crumb.
        here: name of this page.
        number: follows the name.
    """
    return {"above": [_crumb(page) for page in above], "here": here if number is None else f"{here} {number}"}


def _crumb(page: Crumb | Cluster | Rebuild | BackupRun | str) -> Crumb:
    if isinstance(page, Crumb):
        return page
    if isinstance(page, Cluster):
        return crumb(page.name, "cluster", page.name)
    if isinstance(page, Rebuild):
        return crumb(_("Rebuild %(number)s") % {"number": page.pk}, "rebuild", page.pk)
    if isinstance(page, BackupRun):
        return crumb(_("Backup run %(number)s") % {"number": page.pk}, "backup-run", page.pk)
    return crumb(SECTIONS[page], page)
