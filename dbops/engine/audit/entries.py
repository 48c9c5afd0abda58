"""What the columns of an audit entry are read from where its writer does not say: outcome, instance, the text to search in."""

from collections.abc import Iterator
from typing import Any

DONE = "done"
#: Last words of actions that are an outcome of their own.
OUTCOMES = ("cancelled", "declined", "expired", "failed", "lost", "missed", "refused", "unknown")
#: First words of actions whose subject is an instance, or a cluster.
OF_INSTANCES, OF_CLUSTERS = ("backup", "instance", "restore_test", "rebuild"), ("cluster", "maintenance", "topology")

#: Views that have a name: actions that begin with one of these.
OVERRIDES = (
    "backup.force_failed",
    "backup.marked_ended",
    "backup.stop_requested",
    "host.key_accepted",
    "override.",
    "restore_test.stop_requested",
    "rebuild.force_failed",
    "topology.difference_accepted",
)
FAILED_LOGINS = ("login.failed",)
DATA_MOVEMENT = (
    "instance.found_replaced",
    "rebuild.cancelled",
    "rebuild.cleaned_up",
    "rebuild.declined",
    "rebuild.failed",
    "rebuild.put_back_requested",
    "rebuild.requested",
    "rebuild.retry_requested",
    "rebuild.succeeded",
    "backup.succeeded",
    "backup.failed",
    "restore_test.succeeded",
    "restore_test.failed",
)
VIEWS = {"overrides": OVERRIDES, "failed-logins": FAILED_LOGINS, "data-movement": DATA_MOVEMENT}


def outcome_of(action: str) -> str:
    """Return how an act ended, by its action."""
    last = action.rpartition(".")[2]
    return last if last in OUTCOMES else DONE


def subject_is(action: str) -> str:
    """Return what kind of thing the subject of an action is: ``instance``, ``cluster`` or, where it is neither, nothing."""
    first = action.partition(".")[0]
    return "instance" if first in OF_INSTANCES else "cluster" if first in OF_CLUSTERS else ""


def text_of(reason: str, detail: Any) -> str:
    """Return the text in which an entry is searched for: its reason and every text of its detail, in lower case."""
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
