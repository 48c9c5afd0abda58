"""Derive columns of an audit entry: outcome, instance, cluster and search text."""

from collections.abc import Iterator
from typing import Any

DONE = "done"
#: Last words of actions that are outcomes.
OUTCOMES = ("cancelled", "declined", "expired", "failed", "lost", "missed", "refused", "unknown")
#: First words of actions whose subject is an instance or a cluster.
OF_INSTANCES, OF_CLUSTERS = (
    ("backup", "comparison", "instance", "restore_test", "rebuild"),
    ("cluster", "maintenance", "topology", "capacity"),
)

#: Named views: prefixes of actions.
OVERRIDES = (
    "account.factors_reset",
    "account.password_set",
    "backup.force_failed",
    "backup.marked_ended",
    "backup.stop_requested",
    "host.key_accepted",
    "override.",
    "load_test.stop_requested",
    "login.recovery",
    "restore_test.stop_requested",
    "rebuild.force_failed",
    "storage.attested",
    "topology.difference_accepted",
)
FAILED_LOGINS = ("login.blocked", "login.failed", "login.refused")
DATA_MOVEMENT = (
    "instance.found_replaced",
    "rebuild.cancelled",
    "rebuild.cleaned_up",
    "rebuild.declined",
    "rebuild.failed",
    "rebuild.rollback_requested",
    "rebuild.requested",
    "rebuild.resume_requested",
    "rebuild.succeeded",
    "backup.succeeded",
    "backup.failed",
    "restore_test.succeeded",
    "restore_test.failed",
)
VIEWS = {"overrides": OVERRIDES, "failed-logins": FAILED_LOGINS, "data-movement": DATA_MOVEMENT}


def outcome_of(action: str) -> str:
    """Return the outcome of an action."""
    last = action.rpartition(".")[2]
    return last if last in OUTCOMES else DONE


def subject_is(action: str) -> str:
    """Return the kind of an action's subject: ``instance``, ``cluster`` or ``""``."""
    first = action.partition(".")[0]
    return "instance" if first in OF_INSTANCES else "cluster" if first in OF_CLUSTERS else ""


def text_of(reason: str, detail: Any) -> str:
    """Return the search text of an entry: its reason and all texts of its detail, in lower case."""
    return "\n".join(part for part in (reason, *_texts(detail)) if part).casefold()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
