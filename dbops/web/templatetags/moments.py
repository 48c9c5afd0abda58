"""Show times near now. A builtin as well."""

from datetime import datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dbops.database import clock
from dbops.web.dates import date_text
from dbops.web.figures import UNKNOWN
from dbops.web.templatetags.dbops import exact, machine_time
from dbops.web.templatetags.phrases import translated

register = template.Library()


@register.simple_tag
def moment(value: datetime | None, unknown: str = UNKNOWN) -> SafeString | str:
    """Return ``03:10``, ``tomorrow 03:10``, ``yesterday 03:10`` or ``Tue 24 Nov 03:10`` in the dashboard's zone, UTC in its title."""
    if value is None:
        return translated(unknown)
    local, today = timezone.localtime(value), timezone.localtime().date()
    days = (local.date() - today).days
    clock_time = f"{local:%H:%M}"
    near = {0: "%(time)s", 1: _("tomorrow %(time)s"), -1: _("yesterday %(time)s")}.get(days)
    text = near % {"time": clock_time} if near else date_text(local, "day_hour")
    return format_html('<time datetime="{}" title="{}">{}</time>', machine_time(value), exact(value), text)


@register.filter
def in_its_zone(value: datetime) -> str:
    """Return a time in its own zone, with the zone's name: ``Tue 24 Nov 03:10 CET``."""
    return f"{date_text(value, 'padded_day_hour')} {value:%Z}"


@register.filter
def seconds_until(value: datetime) -> int:
    """Return the seconds until a time, up to the end of its displayed minute: app.js shows when it has passed."""
    return max(0, round((value - clock.now()).total_seconds())) + 60


@register.simple_tag
def reference_url(reference: str) -> str:
    """Return the URL of ``rebuild 7`` or ``run 12``, ``""`` for a reference without a page."""
    kind, _, number = reference.rpartition(" ")
    name = {"rebuild": "rebuild", "run": "backup-run"}.get(kind)
    return reverse(name, args=[number]) if name and number.isdecimal() else ""


@register.filter
def lowerfirst(value: str) -> str:
    """Return a title with a lower-case first letter."""
    return value[:1].lower() + value[1:]
