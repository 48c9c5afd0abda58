"""Breadcrumbs: the pages above the current one."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse

from dbops.models import BackupRun, Cluster, Rebuild

register = template.Library()

#: Pages of the menu by the name of their URL.
SECTIONS = {
    "fleet": "Fleet",
    "rebuilds": "Rebuilds",
    "audit": "Audit log",
    "inventory": "Inventory",
    "schedules": "Schedules",
    "users": "Users and groups",
    "audit-sinks": "Audit sinks",
    "notifications": "Notifications",
    "discoveries": "Discover servers",
    "connection-tests": "Tests",
    "load-tests": "Load tests",
}


@dataclass(frozen=True, slots=True)
class Crumb:
    """One link of the breadcrumbs."""

    text: str
    url: str


@register.simple_tag
def crumb(text: str, page: str, *args: Any, **query: Any) -> Crumb:
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
        return crumb(f"Rebuild {page.pk}", "rebuild", page.pk)
    if isinstance(page, BackupRun):
        return crumb(f"Backup run {page.pk}", "backup-run", page.pk)
    return crumb(SECTIONS[page], page)
