"""The kinds of events that dbops reports. This table is the authority: pages, commands, docs and webhooks read it."""

from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.phrases import phrase


class EventSeverity(StrEnum):
    """How urgent an event is. A critical one is sent in quiet hours, too."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(EventSeverity).index(self)


class EventState(StrEnum):
    """What a message says: a state began or ended, or something happened once."""

    OPEN = "open"
    RESOLVED = "resolved"
    HAPPENED = "happened"


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event.

    Args:
        name: stable: webhooks and rules use it.
        is_state: whether it ends, and dbops then reports it as resolved.
        meaning: when it is reported, one sentence.
        delay_seconds: how long a state must last before it is reported.
    """

    name: str
    title: str
    severity: EventSeverity
    is_state: bool
    meaning: str
    delay_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that is so now, or that happened.

    Args:
        kind: name of an ``EventKind``.
        key: what it is about, unique in its kind.
        cluster: name of the cluster; empty if it is about dbops.
        subject: name of the instance, the rebuild or the process.
        detail: one short sentence without texts of hosts or people.
        path: path of dbops's page about it.
    """

    kind: str
    key: str
    cluster: str
    subject: str
    detail: str
    path: str

    @property
    def slot(self) -> str:
        """Return the key among all kinds."""
        return f"{self.kind}|{self.key}"


REPORT = "report.weekly"
_INFO, _WARNING, _CRITICAL = EventSeverity.INFO, EventSeverity.WARNING, EventSeverity.CRITICAL
_KINDS = (
    EventKind(
        "rebuild.needs_approval",
        phrase("Rebuild needs approval"),
        _WARNING,
        True,
        phrase("Other people must approve a rebuild."),
    ),
    EventKind(
        "rebuild.waiting",
        phrase("Rebuild waits"),
        _INFO,
        True,
        phrase("A requested rebuild has not started for 15 minutes."),
        delay_seconds=15 * 60,
    ),
    EventKind("rebuild.done", phrase("Rebuild succeeded"), _INFO, False, phrase("A rebuild has succeeded.")),
    EventKind(
        "rebuild.failed",
        phrase("Rebuild failed"),
        _WARNING,
        False,
        phrase("A rebuild has failed, or it expired in the queue."),
    ),
    EventKind(
        "rebuild.lost", phrase("Rebuild lost"), _CRITICAL, True, phrase("A host of a running rebuild is unreachable.")
    ),
    EventKind(
        "source.stopped",
        phrase("Source left stopped"),
        _CRITICAL,
        True,
        phrase("After a rebuild of the last 7 days, its source does not replicate as before."),
    ),
    EventKind(
        "cluster.blocked",
        phrase("Rebuilds blocked too long"),
        _WARNING,
        True,
        phrase("No rebuild of a cluster could start for `DBOPS_BLOCKED_TOO_LONG_SECONDS`."),
        delay_seconds=6 * 3600,
    ),
    EventKind(
        "cluster.short",
        phrase("Too few healthy replicas"),
        _WARNING,
        True,
        phrase("A cluster had fewer healthy replicas than wanted for 10 minutes."),
        delay_seconds=10 * 60,
    ),
    EventKind(
        "cluster.unprotected",
        phrase("No healthy replica"),
        _CRITICAL,
        True,
        phrase("A cluster with replicas had no healthy one for 2 minutes."),
        delay_seconds=2 * 60,
    ),
    EventKind(
        "backup.missed", phrase("Backup missed"), _CRITICAL, True, phrase("The newest run of a schedule was missed.")
    ),
    EventKind(
        "backup.failed", phrase("Backup failed"), _CRITICAL, True, phrase("The newest run of a schedule has failed.")
    ),
    EventKind(
        "backup.small",
        phrase("Backup too small"),
        _WARNING,
        True,
        phrase("The newest run of a schedule is much smaller than usual."),
    ),
    EventKind(
        "restore_test.failed",
        phrase("Restore test failed"),
        _CRITICAL,
        True,
        phrase("The newest restore test of a source has failed."),
    ),
    EventKind(
        "restore_test.old",
        phrase("Restore test too old"),
        _WARNING,
        True,
        phrase("The last successful restore test of a source is too old, or there is none."),
        delay_seconds=3600,
    ),
    EventKind(
        "capacity.limit",
        phrase("Limit ahead"),
        _WARNING,
        True,
        phrase("A cluster reaches a limit within `DBOPS_LIMIT_NOTICE_DAYS`."),
        delay_seconds=3600,
    ),
    EventKind(
        "certificate.ending",
        phrase("Certificate ends"),
        _WARNING,
        True,
        phrase(
            "A certificate of an SSH key or one that proves a host, or the CA of a cluster's servers, ends within "
            "`DBOPS_CERTIFICATE_NOTICE_DAYS`, and less than a quarter of its validity is left."
        ),
    ),
    EventKind(
        "dashboard.process_silent",
        phrase("Process silent"),
        _CRITICAL,
        True,
        phrase("Workers or beat gave no sign of life for 2 minutes."),
        delay_seconds=60,
    ),
    EventKind(
        "dashboard.ticks_late",
        phrase("Jobs late"),
        _WARNING,
        True,
        phrase("A job's next step is over 2 minutes late."),
        delay_seconds=120,
    ),
    EventKind(
        REPORT,
        phrase("Weekly availability report"),
        _INFO,
        False,
        phrase("On Mondays at 06:00: the report of the last week."),
    ),
)
EVENTS: dict[str, EventKind] = {kind.name: kind for kind in _KINDS}
#: What must not be open while dbops reports its own heartbeat.
OWN_EVENTS = ("dashboard.process_silent", "dashboard.ticks_late")
