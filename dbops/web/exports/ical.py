"""Write calendar entries as an iCalendar file (RFC 5545)."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from icalendar import Calendar, Event

from dbops.queries.schedule.feed import FeedEntry
from dbops.web.templatetags.dbops import clean

REFRESH = timedelta(hours=1)


def render(entries: Iterable[FeedEntry], *, name: str, domain: str, now: datetime) -> bytes:
    """Return the file. ``domain`` keeps the UIDs of entries different from those of other dashboards."""
    calendar = Calendar()
    calendar.add("prodid", "-//dbops//backup windows//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", name)
    calendar.add("refresh-interval", REFRESH, parameters={"VALUE": "DURATION"})
    calendar.add("x-published-ttl", "PT1H")
    for entry in entries:
        calendar.add_component(_event(entry, domain, now))
    return bytes(calendar.to_ical())


def _event(entry: FeedEntry, domain: str, now: datetime) -> Event:
    event = Event()
    event.add("uid", f"{entry.key}@{domain}")
    event.add("dtstamp", now.astimezone(UTC).replace(microsecond=0))
    event.add("dtstart", entry.starts_at.astimezone(UTC).replace(microsecond=0))
    if entry.ends_at is not None:
        event.add("dtend", max(entry.ends_at, entry.starts_at).astimezone(UTC).replace(microsecond=0))
    event.add("summary", clean(f"{entry.cluster}: {entry.title}"))
    event.add("description", clean(entry.text))
    event.add("categories", [entry.cluster])
    # The entry does not block the reader's time.
    event.add("transp", "TRANSPARENT")
    return event
