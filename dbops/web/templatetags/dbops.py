"""Filters and tags of every template (a builtin: no ``{% load %}``)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from signal import Signals
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from dbops.database import clock
from dbops.engine.facts.age import age_seconds
from dbops.engine.rebuilds.plan import Plan, PlannedCommand, PlannedInstance
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.timeline import Timeline
from dbops.security.redaction import CONTROL, ESCAPES
from dbops.web.charts import timeline
from dbops.web.dates import date_text
from dbops.web.figures import NEVER, UNKNOWN, UNKNOWN_AGE, bytes_text, count, duration, rate, seconds_ago
from dbops.web.templatetags.phrases import own_words, translated

register = template.Library()
register.filter("bytes", bytes_text)
register.filter("count", count)
register.filter("rate", rate)
register.filter("duration", duration)

SPRITE = "vendor/tabler-icons-3.51.0.svg"
SIGNALLED, SSH_FAILED = 128, 255
TIME_STYLES = {
    "full": "%Y-%m-%d %H:%M:%S",
    "clock": "%H:%M:%S",
    "minute": "%Y-%m-%d %H:%M",
    "hour": "%H:%M",
}
# Characters that reverse the direction of text can disguise a command.
DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Every state has an icon and a word: colour (``state-<word>`` in app.css) is never the only sign.
ICONS = {
    "queued": "hourglass",
    "running": "player-play",
    "succeeded": "circle-check",
    "passed": "circle-check",
    "failed": "circle-x",
    "cancelled": "ban",
    "expired": "clock",
    "lost": "plug-x",
    "ended": "player-stop",
    "missed": "alert-triangle",
    "pending": "clock",
    "done": "circle-check",
    "skipped": "chevron-right",
    "healthy": "circle-check",
    "lagging": "hourglass",
    "stopped": "player-stop",
    "unreachable": "plug-x",
    "unknown": "info-circle",
    "rebuilding": "refresh",
    "ok": "circle-check",
    "warning": "alert-triangle",
    "refusal": "ban",
    "info": "info-circle",
    "error": "circle-x",
    "primary": "edit",
    "replica": "copy",
    "backup": "database-export",
    "yes": "circle-check",
    "no": "ban",
    "maintenance": "lock",
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return one icon of the sprite. It is decoration: a word always appears beside it."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>', static(SPRITE), name
    )


@register.simple_tag
def state(word: str, text: str = "") -> SafeString:
    """Return the mark of a state: colour, icon and word. ``text`` replaces the word, which is one of ``state_words``."""
    word = str(word)
    return format_html(
        '<span class="state state-{}">{}<span>{}</span></span>',
        word,
        icon(ICONS.get(word, "info-circle")),
        translated(text or word),
    )


@register.filter
def state_icon(word: str) -> str:
    """Return the name of a state's icon."""
    return ICONS.get(str(word), "info-circle")


@register.simple_tag
def role(word: str) -> SafeString:
    """Return the mark of a role: icon and word."""
    return format_html(
        '<span class="role">{}<span>{}</span></span>', icon(ICONS.get(str(word), "server")), translated(word)
    )


@register.filter
def age(value: datetime | None) -> str:
    """Return how long ago a time was: ``12 s ago``, ``now`` below one second; ``never`` for none."""
    if value is None:
        return translated(NEVER)
    seconds = age_seconds(value, clock.now())
    return translated(UNKNOWN_AGE) if seconds is None else seconds_ago(round(seconds))


def machine_time(value: datetime) -> str:
    """Return a time for an element's ``datetime``: HTML has only milliseconds."""
    return value.isoformat(timespec="milliseconds")


@register.simple_tag
def ago(value: datetime | None) -> SafeString | str:
    """Return ``12 s ago`` or ``now`` as an element that app.js keeps counting, with the exact time in its title."""
    if value is None:
        return translated(NEVER)
    seconds = age_seconds(value, clock.now())
    if seconds is None:
        text = translated(UNKNOWN_AGE)
        return format_html('<time datetime="{}" title="{}">{}</time>', machine_time(value), exact(value), text)
    return format_html(
        '<time datetime="{}" title="{}" data-ago="{}">{}</time>',
        machine_time(value),
        exact(value),
        round(seconds),
        seconds_ago(round(seconds)),
    )


@register.simple_tag
def elapsed(start: datetime | None, end: datetime | None = None) -> SafeString | str:
    """Return the time from start to end; app.js keeps counting while there is no end."""
    if start is None:
        return "—"
    if end:
        return duration((end - start).total_seconds())
    seconds = age_seconds(start, clock.now())
    if seconds is None:
        return translated(UNKNOWN_AGE)
    return format_html('<span data-elapsed="{}">{}</span>', round(seconds), duration(round(seconds)))


@register.simple_tag
def when(value: datetime | None, style: str = "full") -> SafeString | str:
    """Return a time in the dashboard's time zone, with UTC in its title. ``style``: one of ``TIME_STYLES``, or ``weekday``."""
    if value is None:
        return "—"
    local = timezone.localtime(value)
    text = date_text(local, "padded_day_hour") if style == "weekday" else local.strftime(TIME_STYLES[style])
    return format_html('<time datetime="{}" title="{}">{}</time>', machine_time(value), exact(value), text)


def exact(value: datetime) -> str:
    """Return a time in UTC, to the second."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@register.simple_tag
def time_zone() -> str:
    """Return the name of the time zone of pages."""
    return timezone.get_current_timezone_name()


@register.filter
def ended(status: int | None) -> str:
    """Return a program's exit status in words; shells report signal 9 as status 137."""
    if status is None:
        return translated(UNKNOWN)
    if status == 0:
        return _("0: success")
    if status > SIGNALLED and status - SIGNALLED in set(Signals):
        signal = {"number": status - SIGNALLED, "name": Signals(status - SIGNALLED).name}
        return _("%(status)s: killed by signal %(number)s (%(name)s)") % {"status": status, **signal}
    return _("%(status)s: error") % {"status": status}


@register.filter
def ssh_ended(status: int | None) -> str:
    """Return the exit status of ``ssh`` in words: 255 is its own, any other one is the remote command's."""
    if status == SSH_FAILED:
        return _("%(status)s: SSH failed or the connection was lost") % {"status": status}
    return _("%(status)s: from the source") % {"status": status} if status else ended(status)


@register.filter
def gtid(value: str | None) -> str:
    """Return a GTID set short enough for a table; the page puts the whole one in a title."""
    text = (value or "").replace("\n", "")
    if not text:
        return _("none")
    parts = [re.sub(r"([0-9a-f]{8})-[0-9a-f-]{27}", r"\1…", part.strip()) for part in text.split(",")]
    shown = ", ".join(parts[:2])
    return shown if len(parts) <= 2 else f"{shown}, +{len(parts) - 2}"


@register.filter
def clean(value: Any) -> str:
    """Return text without escape sequences and control characters; what remains is still escaped by the template."""
    text = ESCAPES.sub("", str(value if value is not None else "")).replace("\r\n", "\n").replace("\r", "\n")
    return DIRECTION.sub("\N{REPLACEMENT CHARACTER}", CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


@register.filter
def ticks(value: str) -> SafeString:
    """Return text with the parts between backticks as code."""
    parts = str(value).split("`")
    if len(parts) % 2 == 0:  # an odd number of backticks: not ours
        return format_html("{}", value)
    shapes = ("{}", "<code>{}</code>")
    return format_html_join("", "{}", ((format_html(shapes[place % 2], part),) for place, part in enumerate(parts)))


@register.filter
def command_lines(commands: Iterable[PlannedCommand]) -> str:
    """Return planned commands one a line, each with its host; without control characters."""
    return "\n".join(f"[{command.place}] {clean(command.text)}" for command in commands)


@register.filter
def words(value: str) -> str:
    """Return ``server_id`` as ``server id``, translated where it is a word of pages."""
    return translated(translated(value).replace("_", " "))


@register.simple_tag
def strip(line: Timeline, cluster: str, *, is_dense: bool = False) -> timeline.Drawing:
    """Return a cluster's timeline on one line. ``is_dense``: as low as a line of text, without hours."""
    return timeline.strip(line, name=_("Timeline of %(cluster)s") % {"cluster": cluster}, is_dense=is_dense)


@register.simple_tag
def strip_hours(line: Timeline) -> SafeString:
    """Return the hours above dense timelines."""
    return timeline.hours(line)


@register.simple_tag
def svg(shown: timeline.Drawing) -> SafeString:
    """Return a drawing. Its text equivalent is next to it."""
    return timeline.svg(shown)


@register.filter
def slot(interval: Interval) -> str:
    """Return an interval near now: ``06:10-23:00``, with the day if it is not today."""
    return timeline.spoken(interval)


@register.filter
def without(name: str, cluster: str) -> str:
    """Return an instance's name without the prefix of its cluster."""
    short = name.removeprefix(cluster).lstrip("-_.") if name.startswith(cluster) else name
    return short or name


@register.filter
def is_of_backups(address: str) -> bool:
    """Return whether a path below the prefix is a page about backups: one of its tabs, or below one."""
    return str(address).startswith(("/backups/", "/schedules/", "/calendar/", "/queue/", "/load-tests/"))


@register.filter
def commas(value: str) -> list[str]:
    """Return the parts of a comma-separated list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]


@register.filter
def plainly(value: Any) -> str:
    """Return a value of a JSON record in words: yes and no, comma-separated lists."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(plainly(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{words(name)}: {plainly(item)}" for name, item in value.items() if item not in ("", None))
    return str(own_words(value))


@register.filter
def only(findings: list[Any], severity: str) -> list[Any]:
    """Return the findings of one severity."""
    return [finding for finding in findings if finding.severity == severity]


@dataclass(frozen=True, slots=True)
class PartyLine:
    """One row of the table that compares target and source."""

    label: str
    target: str
    source: str
    differs_must: bool = False


@register.filter
def party_lines(plan: Plan) -> list[PartyLine]:
    """Return the identities of both machines. The page marks values that are equal but must differ."""
    target, source = plan.target, plan.source

    def both(label: str, read: Callable[[PlannedInstance], object], differs_must: bool = False) -> PartyLine:
        ours, theirs = (str(read(party) or _("unknown")) for party in (target, source))
        return PartyLine(label, ours, theirs, differs_must)

    def server(party: PlannedInstance) -> str:
        if plan.archive and party is source:
            return _("not asked: a finished backup is read, version %(version)s") % {"version": party.version}
        return (
            _("answers, version %(version)s") % {"version": party.version}
            if party.is_answering
            else _("does not answer")
        )

    return [
        both(_("Role"), lambda party: translated(party.role)),
        both(_("Host"), lambda party: party.host),
        both(_("Database address"), lambda party: f"{party.address}:{party.port}", True),
        both("SSH", lambda party: f"{party.ssh_user}@{party.ssh_address}:{party.ssh_port}"),
        both(_("Host key"), lambda party: party.host_key_fingerprint),
        both(_("Data directory"), lambda party: party.datadir),
        both(_("Its device and inode"), lambda party: party.datadir_identity),
        both(_("Server"), server),
        both(_("Server id"), lambda party: party.server_id or party.configured_server_id, True),
        both(_("Server uuid"), lambda party: party.server_uuid or (_("none") if party.is_answering else "")),
        both(pgettext("time of reading", "Read"), lambda party: _read_at(plan, party.name)),
    ]


def _read_at(plan: Plan, name: str) -> str:
    moment = plan.facts_observed_at.get(name)
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}" if moment else ""
