"""Compute the next due times of a schedule for its form."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import ClockChange, day, next_clock_change
from dbops.lib.cron import BadSchedule, due_times

DUE_TIMES_SHOWN = 5
#: Days ahead in which a clock change is mentioned.
NEAR_DAYS = 60
TIMES_NAMED = 4
SKIPPED = phrase("A time within the skipped hour runs when that hour would have started.")
TWICE = phrase("A time within the repeated hour runs once.")


@dataclass(frozen=True, slots=True)
class DueTimes:
    """The next due times (in UTC) of a schedule in its zone, or the problem with its expression."""

    zone: str
    times: tuple[datetime, ...] = ()
    in_zone: tuple[datetime, ...] = ()
    clock_change: str = ""
    problem: str = ""

    @property
    def rows(self) -> list[tuple[datetime, datetime]]:
        return list(zip(self.in_zone, self.times, strict=True))


def due_times_of(cron: str, zone: str, now: datetime) -> DueTimes:
    """Return the next due times, and the effect of a near clock change."""
    try:
        times = tuple(islice(due_times(cron, zone, now), DUE_TIMES_SHOWN))
    except BadSchedule as error:
        return DueTimes(zone, problem=error.problem)
    known = ZoneInfo(zone)
    change = next_clock_change(known, now, NEAR_DAYS)
    return DueTimes(
        zone=zone,
        times=times,
        in_zone=tuple(moment.astimezone(known) for moment in times),
        clock_change=_effect(change, cron, known) if change else "",
    )


def _effect(change: ClockChange, cron: str, zone: ZoneInfo) -> str:
    """Return the effect of a clock change on a schedule as text."""
    local = change.at.astimezone(zone)
    was = local - timedelta(seconds=change.seconds)  # local time just before the change
    of = {"day": f"{local:%Y-%m-%d}", "zone": zone.key, "was": f"{was:%H:%M}", "now": f"{local:%H:%M}"}
    head = (
        phrase("On {day} the clock of {zone} goes forward from {was} to {now}.", **of)
        if change.seconds > 0
        else phrase("On {day} the clock of {zone} goes back from {was} to {now}.", **of)
    )
    whole = day(local.date(), zone)
    just_before = whole.start - timedelta(seconds=1)
    times = list(takewhile(whole.holds, due_times(cron, zone.key, just_before)))
    if not times:
        return phrase("{head} No run is due on that day.", head=head)
    named = ", ".join(f"{moment.astimezone(zone):%H:%M %Z}" for moment in times[:TIMES_NAMED])
    if len(times) > TIMES_NAMED:
        named = phrase("{shown} and {rest} more", shown=named, rest=len(times) - TIMES_NAMED)
    return phrase(
        "{head} Due times on that day: {named}. {skipped}",
        head=head,
        named=named,
        skipped=SKIPPED if change.seconds > 0 else TWICE,
    )
