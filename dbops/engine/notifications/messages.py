"""Messages: what a person reads, and what a webhook's receiver gets.

Names come from other systems. A service may read signs in them as mentions, links or headers, so ``plain`` replaces such signs.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dbops.engine.notifications.events import EVENTS, EventKind, EventSeverity, EventState

#: Signs of a name that no service reads as markup.
HARMLESS = frozenset(" ._-+,%()'")
MOST_CHARACTERS = 200
#: Most events that a digest names.
NAMED = 50


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``incident`` is the same when a state begins and ends, and empty for a digest."""

    title: str
    text: str
    severity: EventSeverity
    state: EventState
    html: str = ""
    incident: str = ""


@dataclass(frozen=True, slots=True)
class Reported:
    """An event as it is reported: a row of the table of events, with the state that this delivery reports."""

    number: int
    kind: EventKind
    state: EventState
    cluster: str
    subject: str
    detail: str
    url: str
    opened_at: datetime
    resolved_at: datetime | None

    @property
    def title(self) -> str:
        """Return one line: the state, the event, what it is about."""
        about = plain(self.subject) + (f" (cluster {plain(self.cluster)})" if self.cluster else "")
        return f"{'Resolved: ' if self.state is EventState.RESOLVED else ''}{self.kind.title}: {about}"

    @property
    def severity(self) -> EventSeverity:
        return self.kind.severity


def plain(text: str) -> str:
    """Return a name or a detail with only letters, digits and signs that no service reads as markup."""
    kept = "".join(
        sign if sign in HARMLESS or unicodedata.category(sign)[0] in "LN" else "?" for sign in text[:MOST_CHARACTERS]
    )
    return " ".join(kept.split())


def message_of(reported: Sequence[Reported]) -> Message:
    """Return the message about one event, or the digest of several, oldest first."""
    if len(reported) == 1:
        one = reported[0]
        text = "\n".join(part for part in (_times(one), plain(one.detail), one.url) if part)
        return Message(f"dbops: {one.title}", text, one.severity, one.state, incident=f"dbops-event-{one.number}")
    lines = [f"{one.title}. {_times(one)} {one.url}".rstrip() for one in reported[:NAMED]]
    if len(reported) > NAMED:
        lines.append(f"{len(reported) - NAMED} more events are in dbops's delivery log.")
    worst = max((one.severity for one in reported), key=lambda severity: severity.rank)
    return Message(f"dbops: {len(reported)} events", "\n".join(lines), worst, EventState.HAPPENED)


def test_message(channel: str) -> Message:
    """Return the message of the test button."""
    text = "dbops can send to this channel."
    return Message(f"dbops: Test of channel {plain(channel)}", text, EventSeverity.INFO, EventState.HAPPENED)


def payload_of(reported: Sequence[Reported], at: datetime, **more: Any) -> dict[str, Any]:
    """Return a webhook's payload: one event by its name, or ``digest`` with a list of events.

    Args:
        at: time of this message.
        more: further data of a single event.
    """
    if len(reported) == 1:
        return {"type": reported[0].kind.name, "timestamp": _iso(at), "data": {**_data(reported[0]), **more}}
    return {"type": "digest", "timestamp": _iso(at), "data": {"events": [_data(one) for one in reported]}}


def test_payload(channel: str, at: datetime) -> dict[str, Any]:
    """Return the payload of the test button."""
    return {"type": "test", "timestamp": _iso(at), "data": {"channel": channel}}


def kind_named(name: str) -> EventKind:
    """Return an event kind. One of an older version is an information that has its name as title."""
    return EVENTS.get(name) or EventKind(name, name, EventSeverity.INFO, False, "")


def _data(one: Reported) -> dict[str, Any]:
    return {
        "event": one.kind.name,
        "id": one.number,
        "state": one.state.value,
        "severity": one.severity.value,
        "title": one.kind.title,
        "cluster": one.cluster,
        "subject": one.subject,
        "detail": one.detail,
        "opened_at": _iso(one.opened_at),
        "resolved_at": _iso(one.resolved_at) if one.resolved_at else None,
        "url": one.url,
    }


def _times(one: Reported) -> str:
    opened = f"{one.opened_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if one.state is EventState.HAPPENED:
        return f"At {opened}."
    if one.state is EventState.RESOLVED and one.resolved_at:
        return f"From {opened} to {one.resolved_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC."
    return f"Since {opened}."


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
