"""Texts for what-if changes, for example ``moving nightly from 02:00 to 05:00``."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.availability.what_if import WhatIfChange, WhatIfOutcome
from dbops.models import BackupSchedule
from dbops.queries.availability.overview import MICROSECONDS

HOUR = timedelta(hours=1)
MINUTES_OF_A_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class ChangeSuggestion:
    """A suggested change: its text, outcome and query string."""

    text: str
    outcome: WhatIfOutcome
    query: str

    @property
    def left_seconds(self) -> float:
        return self.outcome.blocked_after / MICROSECONDS


def proposal(outcome: WhatIfOutcome, schedules: Iterable[BackupSchedule], days: int) -> ChangeSuggestion:
    change = outcome.change
    fields = {"days": str(days), "schedule": change.schedule, "hours": str(change.by // HOUR)}
    if change.takes is not None:
        fields["as"] = "physical"
    if change.adds_source:
        fields["source"] = "1"
    return ChangeSuggestion(describe_change(change, schedules), outcome, urlencode(fields))


def describe_change(change: WhatIfChange, schedules: Iterable[BackupSchedule]) -> str:
    """Return a change as text; empty for no change."""
    schedule = next((one for one in schedules if one.name == change.schedule), None)
    done = []
    if schedule and change.by:
        done.append(_moved(schedule, change.by))
    if schedule and change.takes is not None:
        done.append(_("making %(name)s a physical backup") % {"name": schedule.name})
    if change.adds_source:
        done.append(_("adding a source that no backup reads"))
    return _joined(done)


def _joined(done: list[str]) -> str:
    said = done[:1]
    for other in done[1:]:
        said = [_("%(first)s and %(second)s") % {"first": said[0], "second": other}]
    return "".join(said)


def _moved(schedule: BackupSchedule, by: timedelta) -> str:
    minute, hour, *__ = [*schedule.cron.split(), "", ""]
    if not (minute.isdecimal() and hour.isdecimal()):
        hours = abs(by) // HOUR
        if by > timedelta():
            said = ngettext(
                "moving %(name)s by %(number)s hour later", "moving %(name)s by %(number)s hours later", hours
            )
        else:
            said = ngettext(
                "moving %(name)s by %(number)s hour earlier", "moving %(name)s by %(number)s hours earlier", hours
            )
        return said % {"name": schedule.name, "number": hours}
    at = int(hour) * 60 + int(minute)
    to = (at + by // timedelta(minutes=1)) % MINUTES_OF_A_DAY
    said = _("moving %(name)s from %(start)s to %(end)s")
    return said % {"name": schedule.name, "start": _clock(at), "end": _clock(to)}


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
